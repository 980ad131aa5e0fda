"""A run on four devices of one host: as on one, but for where its games are."""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_four_devices_share_a_run(tmp_path, as_here):
    flags = f"{as_here.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.train.devices_check", tmp_path / "run"],
        cwd=ROOT,
        env=as_here | {"XLA_FLAGS": flags.strip(), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "all is as on one device"
