"""A run and two workers as programs, all of them killed and started again: no row is read twice."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from gozero.play import devices, shards
from train import checkpoint, folder, run
from train.plan import make_plan

ROOT = pathlib.Path(__file__).parents[2]
FLAGS = [
    *("--preset", "3x3", "--blocks", "1", "--channels", "8", "--workers"),
    *("--simulations", "4", "--max-considered", "4", "--batch", "8", "--moves", "6"),
    *("--batch-size", "16", "--capacity", "200000", "--min-rows", "32", "--reuse", "0.01"),
    *("--iterations", "1000000", "--checkpoint-every", "1"),
]
PATIENCE_S = 900
NAMES = ("a", "b")


class Programs:
    """Those that a test has started, which end with it."""

    def __init__(self, out, logs):
        self.out, self.logs, self.started = out, logs, []

    def start(self, *argv):
        log = (self.logs / f"{len(self.started)}.log").open("wb")
        command = [sys.executable, "-m", "train", *argv, "--out", str(self.out)]
        with log:
            program = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        self.started.append(program)
        return program

    def start_all(self):
        return self.start(*FLAGS), [self.start("worker", "--name", name) for name in NAMES]

    def wait_for(self, ready):
        """Until it is so, while no process ends by itself."""
        until = time.monotonic() + PATIENCE_S
        while not ready():
            assert time.monotonic() < until, self.told()
            assert not [p for p in self.started if p.poll() not in (None, -9, 0)], self.told()
            time.sleep(0.2)

    def told(self):
        return "\n".join(path.read_text() for path in sorted(self.logs.iterdir()))


@pytest.fixture
def all_of_them(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    them = Programs(tmp_path / "run", logs)
    yield them
    for program in them.started:
        program.kill()
        program.wait()


def written(out):
    """{worker: how many shards}"""
    places = map(shards.place_of, (out / "shards").glob("*.npz"))
    return collections.Counter(name_of(place.worker) for place in places if place)


def spans(out, name):
    """[[first, last], ...] of a worker's shards. A kill between a number and its shard leaves the
    number out; there was one kill."""
    places = filter(None, map(shards.place_of, (out / "shards").glob("*.npz")))
    numbers = sorted(place.number for place in places if name_of(place.worker) == name)
    found = [[numbers[0], numbers[0]]]
    for number in numbers[1:]:
        if number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    assert found[0][0] == 0
    assert found[-1][1] + 1 <= len(numbers) + 1
    return found


def name_of(worker):
    """Without the id."""
    return worker.rpartition("-")[0]


def read_by_a_checkpoint(out):
    """Shards whose rows the newest one holds."""
    saved = checkpoint.found(out / "checkpoints")
    if not saved:
        return 0
    try:
        return checkpoint._read_about(saved[0].path)["about"]["workers"]["read"]
    except ValueError:  # another was written, and this one dropped
        return 0


@pytest.mark.slow
def test_killed_and_started_again(all_of_them):
    out = all_of_them.out
    learner, workers = all_of_them.start_all()
    all_of_them.wait_for(lambda: all(written(out)[name] >= 3 for name in NAMES))
    for worker in workers:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    first = written(out)
    (out / "shards" / f"a-{first['a']:06d}.npz.part").write_bytes(b"half")
    all_of_them.wait_for(lambda: read_by_a_checkpoint(out) >= 1)
    learner.send_signal(signal.SIGKILL)
    learner.wait()

    learner, workers = all_of_them.start_all()
    more = lambda name: written(out)[name] >= first[name] + 3
    all_of_them.wait_for(lambda: all(map(more, NAMES)))
    for worker in workers:
        worker.terminate()
    assert [worker.wait() for worker in workers] == [0, 0], all_of_them.told()
    total = sum(written(out).values())
    all_of_them.wait_for(lambda: read_by_a_checkpoint(out) == total)
    learner.terminate()
    assert learner.wait() == 0, all_of_them.told()
    assert "passed over" not in all_of_them.told()
    check(out, total)


def check(out, total):
    """The ring holds the rows of every shard once, and those of the run's own games."""
    config = folder.read_config(out)
    mesh = devices.mesh_of(1)
    plan = make_plan(dataclasses.replace(config, devices=1))
    found = [shards.read(p, shards.rules_of(plan.rules)) for p in (out / "shards").glob("*.npz")]
    assert len(found) == total
    assert {(name_of(shard.about.worker), shard.about.start) for shard in found} == {
        (name, start) for name in NAMES for start in (1, 2)
    }
    loop = run.begin(plan, mesh)
    assert (loop.shard_reader.read, loop.shard_reader.skipped) == (total, 0)
    assert loop.shard_reader.rows == sum(shard.about.rows for shard in found)
    done = loop.shard_reader.progress["done"]
    numbers = {name_of(worker): spans for worker, spans in done.items()}
    assert len(done) == len(NAMES)
    assert numbers == {name: spans(out, name) for name in NAMES}

    ring = jax.device_get(loop.state.playing.buffer)
    count = int(ring.size[0])
    assert count == ring.added[0] < config.capacity
    rest = keys(jax.tree.map(lambda x: x[0, :count], ring.rows))
    theirs = collections.Counter()
    for shard in found:
        theirs += keys(shard.rows)
    assert theirs <= rest
    own = rest - theirs
    assert own.total() == count - loop.shard_reader.rows
    places = collections.Counter((game, ply) for game, ply, _ in own.elements())
    assert places.total() > 0
    assert max(places.values()) == 1


def keys(rows):
    """A count of rows, each as (game, ply, all its bytes)."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(rows)]
    return collections.Counter(
        (int(rows.game[i]), int(rows.position.ply[i]), b"".join(x[i].tobytes() for x in leaves))
        for i in range(len(rows.game))
    )
