"""Runs checks in a process of their own that has several CPU devices."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping


def last_line(
    module: str, *arguments: object, count: int = 4, environment: Mapping[str, str] = os.environ
) -> str:
    """The last line that ``python -m module`` prints with `count` devices; it must succeed, without
    a warning."""
    flags = f"{environment.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", module, *map(str, arguments)],
        cwd=pathlib.Path(__file__).parents[1],
        env={**environment, "XLA_FLAGS": flags.strip(), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]
