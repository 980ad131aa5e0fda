"""A run on four devices of one host equals one on a single device, except where its games are."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def checked(as_here, module, *arguments):
    """The last line that a program on four devices prints."""
    flags = f"{as_here.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"tests.train.{module}", *arguments],
        cwd=ROOT,
        env=as_here | {"XLA_FLAGS": flags.strip(), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.thorough
def test_four_devices_share_a_run(tmp_path, as_here):
    assert checked(as_here, "devices_check", tmp_path / "run") == "all is as on one device"


@pytest.mark.slow
def test_each_device_of_a_worker_plays_like_a_separate_worker(as_here):
    assert checked(as_here, "worker_devices_check") == "all is as of four workers"
