"""The programs of docs/library.md run as they stand."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "library.md"


@pytest.mark.thorough
def test_the_programs_run_one_after_the_other():
    """On two devices, each of which searches 32 of the 64 games."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    program = "\n".join(blocks) + "\nassert result.ok.all()"
    program += "\nassert [len(x.data) for x in result.action.addressable_shards] == [32, 32]"
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
