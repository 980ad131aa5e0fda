"""Training under kills, full disks and power cuts: the same run in the end, bit for bit."""

from __future__ import annotations

import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.attack import disk
from tests.attack.training import ITERATIONS, check_done, digest_in, unbroken

ROOT = pathlib.Path(__file__).parents[2]
KILLS = 25  # with each of four seeds
STARTED, TRAINED = 12.0, 2.0
"""Seconds within which a run is killed: of its start, and after it has begun."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("work", ["full", "power"])
def test_a_disk_that_fails_at_any_moment_costs_no_bit(work, tmp_path, as_here):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    faults = {"LD_PRELOAD": str(disk.build(tmp_path)), "FAULTS_FOLDER": str(scratch)}
    command = [sys.executable, "-m", "tests.attack.training", work, str(scratch)]
    done = subprocess.run(command, cwd=ROOT, env=as_here | faults, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    counts = json.loads(done.stdout.splitlines()[-1])
    print(counts)
    assert min(counts.values()) > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_kills_at_random_cost_no_bit(tmp_path, as_here, seed):
    digests, lines = unbroken(ITERATIONS)
    draw, out, seen = random.Random(seed), tmp_path / "run", []
    number = 0
    while number < KILLS:
        if train_and_kill(out, draw, as_here):
            check_done(out, digests, lines)
            shutil.rmtree(out)
            continue
        number += 1
        if (out / "checkpoints").exists():
            iteration, digest = digest_in(out, ITERATIONS)
            assert digest == digests[iteration], (number, iteration)
            assert not [*out.rglob("*.damaged")]
            seen.append(iteration)
    print(f"seed {seed}, {KILLS} kills, those with a checkpoint of {sorted(seen)}")
    assert len(set(seen)) > 3


def train_and_kill(out: pathlib.Path, draw: random.Random, environment: dict) -> bool:
    """Whether a run came to its end before it was killed."""
    early, share = draw.random() < 0.2, draw.random()
    command = [sys.executable, "-m", "tests.attack.training", "train", str(out)]
    kept = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **kept) as program:
        ready, said = threading.Event(), []

        def listen() -> None:
            for line in program.stdout or ():
                said.append(line)
                if line == "ready\n":
                    ready.set()
            ready.set()

        listener = threading.Thread(target=listen)
        listener.start()
        if early:
            ready.wait(share * STARTED)
        else:
            ready.wait()
            time.sleep(share * TRAINED)
        program.kill()
        status = program.wait()
        listener.join()
    assert status in (0, -signal.SIGKILL), "".join(said)
    return status == 0
