"""A thousand simulated workers with kills, lost responses and busy servers, from a seed."""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import random
import time
import types

import pytest

from gozero.play import devices, shards
from gozero.play.shards import Place
from tests.train import worker_runs
from train import exchange, shard_reader
from train.plan import make_plan
from train.shard_reader import ShardReader

WORKERS, MINUTES, STEP_S = 1000, 180, 10
CHECKPOINT_S, LEARNERS_KILLED = 120, 10
KILLED = 0.02  # share of the workers per minute
LOST = 0.05  # share of the responses
LOOK_S = 0.1  # the most processor time, whatever the run's age


@dataclasses.dataclass
class Worker:
    """A worker's state."""

    name: str
    next_s: float  # time of its next write
    number: int = 0
    version: int = 0
    refreshed_s: float = -1e9


class World:
    """A bucket, its workers, and the run that reads their shards."""

    def __init__(self, plan, path, clock):
        self.plan, self.path, self.clock = plan, path, clock
        self.shared = plan.config.shared
        self.rng = random.Random(0)
        self.written: set[str] = set()
        self.waiting: list[tuple[float, str]] = []  # (time of arrival, key) of shards on their way
        self.listed: list[int] = []
        self.seconds: list[float] = []
        self.iteration = 0
        self.workers = [self.worker() for _ in range(WORKERS)]
        self.saved: tuple[str, collections.Counter, int] = ("null", collections.Counter(), 0)
        self.learner()
        self.publish()

    def worker(self) -> Worker:
        return Worker(
            f"w-{self.rng.getrandbits(64):016x}", self.clock.now + self.rng.uniform(0, 60)
        )

    def learner(self):
        """Start a learner from the checkpoint."""
        host_state, self.read, self.iteration = self.saved
        self.read = self.read.copy()
        self.reader = ShardReader(self.plan, devices.mesh_of(1), json.loads(host_state))

    def publish(self):
        self.path.write_bytes(self.rng.randbytes(8))
        exchange.publish(self.shared, self.path, self.iteration)

    def checkpoint(self):
        self.saved = (json.dumps(self.reader.host_state), self.read.copy(), self.iteration)
        self.publish()

    def write(self, worker: Worker):
        """Send its next shard, of an old or new version; it arrives late if the server is busy."""
        if self.clock.now - worker.refreshed_s >= 5:
            worker.refreshed_s = self.clock.now
            worker.version = exchange.newest(self.shared).version
        key = shards.key_of(Place(worker.number, worker.name, worker.version), ".zst")
        worker.number += 1
        worker.next_s += self.rng.uniform(30, 90)
        busy = 600 <= self.clock.now % 1200 < 660 and self.rng.random() < 0.8
        self.waiting.append((self.clock.now + busy * self.rng.uniform(10, 150), key))

    def arrive(self):
        late = [one for one in self.waiting if one[0] > self.clock.now]
        for _, key in (one for one in self.waiting if one[0] <= self.clock.now):
            assert self.shared.create(key, key.encode())
            if self.rng.random() < LOST:
                assert self.shared.create(key, key.encode())  # the client tries again
            self.written.add(key)
        self.waiting = late

    def look(self):
        """What the run does before an iteration, except reading rows."""
        began = time.process_time()
        unread = self.reader._unread()
        self.seconds.append(time.process_time() - began)
        for place, key, _ in unread:
            self.reader.ledger.add(place)
            self.reader.read += 1
            self.read[key] += 1
        self.iteration += 1


@pytest.mark.slow
def test_a_thousand_workers(tmp_path, monkeypatch):
    pytest.importorskip("obstore")
    clock = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(shard_reader, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
    config = dataclasses.replace(worker_runs.CONFIG, out=pathlib.Path(f"memory://{tmp_path}/run"))
    world = World(make_plan(config), tmp_path / "weights", clock)
    kills = set(world.rng.sample(range(30, MINUTES * 60 // STEP_S), LEARNERS_KILLED))
    for step in range(MINUTES * 60 // STEP_S):
        clock.now = step * STEP_S
        for i, worker in enumerate(world.workers):
            if world.rng.random() < KILLED * STEP_S / 60:
                world.workers[i] = world.worker()
            elif worker.next_s <= clock.now:
                world.write(worker)
        world.arrive()
        world.look()
        if step in kills:
            world.learner()
        elif clock.now % CHECKPOINT_S == 0:
            world.checkpoint()
    clock.now += 1000
    world.arrive()
    for _ in range(2):  # the second looks at the versions that the first left out
        world.reader._last_look = -1e9
        world.look()
    late = world.reader.late
    assert max(world.read.values()) == 1
    assert world.read.total() == world.reader.read
    assert world.written >= world.read.keys()
    unseen = len(world.written) - world.read.total() - late
    print(
        f"{len(world.written)} shards, {late} late, {unseen} unseen; looks: median "
        f"{sorted(world.seconds)[len(world.seconds) // 2] * 1e3:.0f} ms, longest "
        f"{max(world.seconds) * 1e3:.0f} ms; ledger {len(world.saved[0]) / 1e6:.1f} MB; "
        f"version {world.reader.version}, iteration {world.iteration}"
    )
    assert unseen == 0
    assert max(world.seconds) <= LOOK_S
    assert late < 0.01 * len(world.written)
    assert world.reader.version > world.iteration // (CHECKPOINT_S // STEP_S)  # never went back
