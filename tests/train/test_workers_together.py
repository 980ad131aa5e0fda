"""A run and its workers as processes, killed repeatedly: each shard is read once."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from gozero.play import devices, shards
from gozero.runs import files, store
from gozero.runs.folder import manifest
from tests.runs.test_store import s3, s3_server  # noqa: F401
from train import folder, run
from train.mirror import Mirror
from train.plan import make_plan

ROOT = pathlib.Path(__file__).parents[2]
FLAGS = [
    *("--preset", "3x3", "--blocks", "1", "--channels", "8", "--workers"),
    *("--simulations", "4", "--max-considered", "4", "--batch", "8", "--moves", "6"),
    *("--batch-size", "16", "--capacity", "200000", "--min-rows", "32", "--reuse", "0.01"),
    *("--iterations", "1000000", "--checkpoint-every", "20"),
]
PATIENCE_S = 1800
ENDED = {0, 143, -signal.SIGKILL, -signal.SIGTERM}  # -SIGTERM: before its handler is installed
WORKERS, WORKERS_KILLED, LEARNERS_KILLED = 3, 20, 5
RECORD = "KILLS_RECORD"
"""Names a file to which each kind of store adds a line: `kills.jsonl` beside this file."""


class Programs:
    """The processes that a test has started; they end with it."""

    def __init__(self, out, logs):
        self.out, self.logs, self.started = out, logs, []
        self.shared = store.at(out)

    def start(self, *argv):
        log = (self.logs / f"{len(self.started):03d}.log").open("wb")
        command = [sys.executable, "-m", "train", *argv, "--out", self.out]
        with log:
            program = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        self.started.append(program)
        return program

    def wait_for(self, ready):
        """Wait until `ready()`; asserts that no process ends by itself meanwhile."""
        until = time.monotonic() + PATIENCE_S
        while not ready():
            assert time.monotonic() < until, self.logs_text()
            assert not [p for p in self.started if p.poll() not in (None, *ENDED)], self.logs_text()
            time.sleep(0.5)

    def logs_text(self):
        return "\n".join(path.read_text()[-2000:] for path in sorted(self.logs.iterdir()))

    def written(self):
        return [key for key, _ in self.shared.list("shards") if shards.place_of(key)]

    def progress(self):
        """The counts {"read", "late", ...} in the newest checkpoint."""
        keys = [key for key, _ in self.shared.list("checkpoints")]
        ends = "/whole" if store.is_url(self.out) else "/about.json"
        try:
            last = [key for key in keys if key.endswith(ends)][-1]
            lead = last.removesuffix(ends)
            if store.is_url(self.out):
                lead += f"/{self.shared.get(last, 99).decode()}"
            return json.loads(self.shared.get(f"{lead}/about.json", 2**24))["about"]["workers"]
        except (IndexError, FileNotFoundError):  # none yet, or replaced meanwhile
            return {"read": 0}


@pytest.fixture
def programs(request, tmp_path):
    if request.param == "s3":
        pytest.importorskip("obstore")
        out = f"s3://{request.getfixturevalue('s3')}/run"
    else:
        out = f"file://{tmp_path}/run"
    (tmp_path / "logs").mkdir()
    started = Programs(out, tmp_path / "logs")
    yield started
    for program in started.started:
        program.kill()
        program.wait()


def kill(program):
    program.kill()
    program.wait()


@pytest.mark.slow
@pytest.mark.parametrize("programs", ["file", "s3"], indirect=True)
def test_each_shard_is_read_once_despite_kills(programs):
    rng, began = random.Random(0), time.monotonic()
    learner = programs.start(*FLAGS)
    workers = [programs.start("worker") for _ in range(WORKERS)]
    for turn in range(WORKERS_KILLED):
        some = len(programs.written())
        programs.wait_for(lambda some=some: len(programs.written()) > some)
        time.sleep(rng.uniform(0, 5))
        i = rng.randrange(WORKERS)
        kill(workers[i])
        workers[i] = programs.start("worker")
        if turn % (WORKERS_KILLED // LEARNERS_KILLED) == 2:
            programs.wait_for(lambda: programs.progress()["read"] >= 1)
            kill(learner)
            learner = programs.start(*FLAGS)
    for worker in workers:
        worker.terminate()
    assert {worker.wait() for worker in workers} <= ENDED, programs.logs_text()
    total = len(programs.written())
    done = lambda: (found := programs.progress())["read"] + found.get("late", 0) == total
    programs.wait_for(done)
    learner.terminate()
    assert learner.wait() == 0, programs.logs_text()
    assert "skipped: shard" not in programs.logs_text()
    late = programs.progress().get("late", 0)
    print(f"{total} shards, {late} late")
    check(programs, total)
    if record := os.environ.get(RECORD):
        killed = {"workers_killed": WORKERS_KILLED, "learners_killed": LEARNERS_KILLED}
        found = {"store": programs.out.partition(":")[0], **killed, "shards": total, "late": late}
        found |= {"twice": 0, "missed": 0}  # otherwise it would have failed
        facts = {"cores": os.cpu_count(), "seconds": round(time.monotonic() - began), **manifest(0)}
        files.add_line(pathlib.Path(record), found | facts)


def check(programs, total):
    """All shards are accounted for, and the ring holds the rows of the newest, each once."""
    config = folder.read_config(pathlib.Path(programs.out))
    mesh = devices.mesh_of(1)
    plan = make_plan(dataclasses.replace(config, devices=1))
    with Mirror(config):
        loop = run.begin(plan, mesh)
    late = loop.shard_reader.late
    assert (loop.shard_reader.read, loop.shard_reader.skipped) == (total - late, 0)
    assert late <= total // 20

    names = [name for _, name, _ in loop.shard_reader.sources]
    assert len({*names}) == len(names)
    theirs = collections.Counter()
    for number, name, _ in loop.shard_reader.sources:
        key = f"shards/{name}"
        rows = shards.read(key, plan.rules_record, data=programs.shared.get(key, 2**30)).rows
        theirs += keys(rows.replace(game=np.full_like(rows.game, -number)))
    ring = jax.device_get(loop.state.playing.buffer)
    there = keys(jax.tree.map(lambda x: x[0, : int(ring.size[0])], ring.rows))
    read = collections.Counter({row: n for row, n in there.items() if row[0] < 0})
    assert read <= theirs
    own = collections.Counter((game, ply) for game, ply, _ in there - read)
    assert read.total() > 0
    assert max(own.values(), default=1) == 1


def keys(rows):
    """A Counter of the rows, each as (game, ply, all its bytes)."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(rows)]
    return collections.Counter(
        (int(rows.game[i]), int(rows.position.ply[i]), b"".join(x[i].tobytes() for x in leaves))
        for i in range(len(rows.game))
    )
