"""Training under kills, full disks and power cuts ends as the same run, bit for bit."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.attack import disk

ROOT = pathlib.Path(__file__).parents[2]
KILLS = 25  # for each of four seeds


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("work", ["full", "power"])
def test_runs_resume_bit_for_bit_after_disk_faults(work, tmp_path, as_here):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    preloaded = {"LD_PRELOAD": str(disk.build(tmp_path)), "FAULTS_FOLDER": str(scratch)}
    counts = faults(work, scratch, as_here | preloaded)
    assert min(counts.values()) > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_runs_resume_bit_for_bit_after_random_kills(tmp_path, as_here, seed):
    counts = faults("kills", tmp_path, as_here, str(seed), str(KILLS))
    assert counts["kills"] == KILLS
    assert len(set(counts["seen"])) > 3


def faults(work: str, scratch: pathlib.Path, environment: dict, *more: str) -> dict:
    """The counts that `training` reports, from its own process."""
    command = [sys.executable, "-m", "tests.attack.training", work, str(scratch), *more]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    counts = json.loads(done.stdout.splitlines()[-1])
    print(work, *more, counts)
    return counts
