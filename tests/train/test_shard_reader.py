"""Rows of shards go to the rings once each, in order, evenly; bad shards are named and counted."""

import collections
import errno
import json
import os
import pathlib
import shutil
import subprocess
import sys
import types

import jax
import numpy as np
import pytest

from gozero.play import devices
from gozero.play.shards import Place
from gozero.runs import store
from tests.train import worker_runs
from tests.train.worker_runs import write_shard
from train import buffer as buffers
from train import exchange, shard_reader, steps
from train.plan import make_plan
from train.shard_reader import Ledger, ShardReader

ROOT = pathlib.Path(__file__).parents[2]
CAPACITY = 300


class Run:
    """Rings and their reader, with a plain deque per ring of the rows it should hold."""

    def __init__(self, path, num_devices=1):
        self.config = worker_runs.config_in(path, capacity=CAPACITY, window=100, surprise=0.5)
        self.plan = make_plan(self.config, num_devices)
        self.mesh = devices.mesh_of(num_devices)
        self.shard_reader = ShardReader(self.plan, self.mesh)
        one = buffers.start(self.plan.play.game, self.plan.buffer)
        where = jax.NamedSharding(self.mesh, steps.DIVIDED)
        stack = lambda x: jax.device_put(np.stack([x] * num_devices), where)
        self.rings = jax.tree.map(stack, one)
        self.expected = [collections.deque(maxlen=CAPACITY) for _ in range(num_devices)]
        self.added = self.shards = 0

    def write(self, worker, number, count, version=0):
        """Write a shard, and note which rows each device should receive."""
        path, rows, frequency = write_shard(self.config, worker, number, count, version=version)
        self.expect(rows, frequency)
        return path

    def expect(self, rows, frequency):
        self.shards += 1
        rows = rows.replace(game=np.full_like(rows.game, -self.shards))
        for i in range(len(frequency)):
            device = self.expected[self.added % len(self.expected)]
            device.append(as_bytes(jax.tree.map(lambda x, i=i: x[i], rows), frequency[i]))
            self.added += 1

    def take(self):
        self.rings = self.shard_reader.take(self.rings)

    def found(self):
        """The rows of each ring, oldest first."""
        return [
            self._found(jax.tree.map(lambda x, d=d: np.asarray(x[d]), self.rings))
            for d in range(self.plan.num_devices)
        ]

    def _found(self, ring):
        slots = (int(ring.cursor) - int(ring.size) + np.arange(int(ring.size))) % CAPACITY
        pick = lambda i: as_bytes(jax.tree.map(lambda x: x[i], ring.rows), ring.frequency[i])
        return [pick(i) for i in slots]

    def check(self):
        result = self.found()
        assert result == [list(rows) for rows in self.expected]
        counts = [int(n) for n in self.rings.added]
        assert sum(counts) == self.added == self.shard_reader.rows
        assert max(counts) - min(counts) <= 1
        assert [int(n) for n in self.rings.owed] == [min(n, CAPACITY) for n in counts]


def as_bytes(row, frequency):
    return b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(row)) + b"%d" % frequency


def check_dealing(run):
    """Check shards of all sizes, over several calls, with more rows than the rings hold."""
    run.take()
    run.check()
    sizes = iter([1, 7, 40, 3, 290, 11, 120, 800, 2, 5])
    for number in range(5):
        run.write("a", number, next(sizes))
        run.write("b", number, next(sizes))
        if number != 2:
            run.take()
            run.check()
    run.take()
    run.check()
    assert (run.shard_reader.read, run.shard_reader.skipped) == (10, 0)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(shard_reader, "SWEEP_S", 0)  # sweep every version at each call
    return Run(tmp_path / "run")


def test_rows_go_to_the_ring_in_order(run, monkeypatch):
    monkeypatch.setattr(shard_reader, "CHUNK", 64)
    run.shard_reader = ShardReader(run.plan, run.mesh)
    check_dealing(run)


@pytest.mark.slow
def test_four_devices_get_equal_parts():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.train.shard_reader_check"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all rows are where they belong\n"


def test_bad_shards_are_reported_once_counted_and_skipped(run, capsys):
    cut, flipped, foreign, renamed = (write_shard(run.config, "bad", i, 9)[0] for i in range(4))
    cut.write_bytes(cut.read_bytes()[:-100])
    data = bytearray(flipped.read_bytes())
    data[data.index(b"policy_target.npy") + 60] ^= 0xFF  # in the compressed data
    flipped.write_bytes(data)
    other = worker_runs.config_in(run.config.folder.parent / "other", size=5)
    foreign.write_bytes(write_shard(other, "bad", 2, 9)[0].read_bytes())
    renamed.rename(renamed.with_name("who-000003.npz"))
    (cut.parent / "notes.npz").write_bytes(b"no shard")
    half = cut.with_name("bad-000009.npz.part")
    half.write_bytes(b"half")
    run.write("good", 0, 9)
    run.take()
    run.check()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    assert all(line.startswith(f"skipped: shard {cut.parent}/") for line in lines)
    names = sorted(line.split(": ")[1].rpartition("/")[2] for line in lines)
    assert names == [*(f"bad-00000{i}.npz" for i in range(3)), "notes.npz", "who-000003.npz"]
    assert "its games have size 5; this run's have 3" in "".join(lines)
    assert (run.shard_reader.read, run.shard_reader.skipped) == (1, 5)
    run.take()
    run.check()
    assert capsys.readouterr().err == ""
    assert (run.shard_reader.read, run.shard_reader.skipped) == (1, 5)
    assert half.read_bytes() == b"half"


def test_a_resumed_run_reads_each_shard_once(run):
    for number in range(3):
        run.write("a", number, 10)
    run.take()
    rings, host_state = (
        jax.device_get(run.rings),
        json.loads(json.dumps(run.shard_reader.host_state)),
    )
    run.write("b-1", 0, 20)
    run.write("a", 3, 20)
    run.take()
    run.check()
    # Like a kill: what came after the checkpoint is lost, but the shards are still there.
    run.rings, run.shard_reader = rings, ShardReader(run.plan, run.mesh, host_state)
    assert run.shard_reader.rows == 30
    run.take()
    run.check()
    assert run.shard_reader.host_state["done"] == {"a": [[0, 3]], "b-1": [[0, 0]]}
    run.take()
    run.check()


def test_a_late_shard_is_not_lost(run):
    held = run.write("a", 0, 5)
    shutil.move(held, run.config.folder / "held")
    run.expected[0].clear()
    run.added = run.shards = 0
    run.write("a", 1, 5)
    run.take()
    late = run.config.folder / "held"
    run.write("a", 0, 5)
    late.unlink()
    run.take()
    run.check()


def test_only_the_newest_versions_are_read_and_late_shards_are_counted(run, tmp_path, capsys):
    kept = exchange.KEPT

    def publish(version):
        for i in range(exchange.newest(run.shard_reader.shared).version, version):
            (tmp_path / "weights").write_bytes(b"%d" % i)
            exchange.publish(run.shard_reader.shared, tmp_path / "weights", i)

    publish(1)
    run.write("old", 0, 5)  # by a worker of an earlier program version
    run.write("a-1", 0, 5, version=1)
    run.take()
    publish(kept + 2)
    write_shard(run.config, "old", 1, 5)  # not looked for once there is a version
    run.write("a-1", 1, 5, version=1)  # not seen yet, as after a crash
    run.write("b-1", 0, 5, version=kept + 2)
    run.take()
    run.check()
    ledger = {"00000001/a-1": [[0, 1]], f"{kept + 2:08d}/b-1": [[0, 0]], "old": [[0, 0]]}
    assert run.shard_reader.host_state["done"] == ledger
    assert "late" not in run.shard_reader.host_state
    write_shard(run.config, "a-1", 2, 5, version=1)
    run.take()
    for _ in range(2):
        run.take()
        assert (run.shard_reader.late, run.shard_reader.version) == (1, kept + 2)
    publish(3 * kept)
    run.write("b-1", 1, 5, version=3 * kept)
    for _ in range(2):
        run.take()
    run.check()
    again = ShardReader(run.plan, run.mesh, json.loads(json.dumps(run.shard_reader.host_state)))
    assert again.host_state == run.shard_reader.host_state
    assert again.host_state["done"] == {
        **{f"{version:08d}/b-1": [[i, i]] for i, version in enumerate((kept + 2, 3 * kept))},
        "old": [[0, 0]],
    }
    assert (again.read, again.skipped, again.late) == (5, 0, 1)
    assert capsys.readouterr().err == ""


def test_every_version_is_listed_within_a_minute_and_the_newest_always(run, monkeypatch):
    clock = types.SimpleNamespace(now=1000.0)
    monkeypatch.setattr(shard_reader, "SWEEP_S", 60)
    monkeypatch.setattr(shard_reader, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
    newest = exchange.Newest(100, 5, "")
    run.shard_reader.version = 100
    monkeypatch.setattr(exchange, "newest", lambda shared: newest)
    asked, listed = [], run.shard_reader.shared.list
    spy = lambda *which: asked.append(which) or listed(*which)
    monkeypatch.setattr(run.shard_reader, "shared", types.SimpleNamespace(list=spy, name="run"))
    looks = []
    for _ in range(8):
        asked.clear()
        assert run.shard_reader._unread() == []
        looks.append([which[-1].removeprefix("shards/") for which in asked])
        clock.now += 10
    older = [f"{version:08d}" for version in range(100 - 2 * exchange.KEPT, 99)]
    assert looks[0] == [
        *older[-exchange.KEPT : -exchange.KEPT // 2],
        "00000099",
        "00000100",
    ]
    assert looks[1] == [*older[-exchange.KEPT // 2 :][:3], "00000099", "00000100"]
    assert all(look[-2:] == ["00000099", "00000100"] for look in looks[1:])
    assert all(len(look) == 5 for look in looks[1:])
    seen = {version for look in looks[1:7] for version in look}
    assert seen == {*older, "00000099", "00000100"}
    newest, clock.now = newest._replace(version=102), clock.now + 600
    asked.clear()
    run.shard_reader._unread()
    expected = ["shards/00000100", "shards/00000101", "shards/00000102"]
    assert [which[-1] for which in asked[-3:]] == expected


def test_a_refused_listing_stops_nothing(run, monkeypatch, capsys):
    monkeypatch.setattr(exchange, "newest", lambda shared: exchange.Newest(1, 0, ""))
    shared = run.shard_reader.shared
    listed = shared.list

    def refusing(prefix, *within):
        if prefix == "shards":
            raise OSError(errno.EIO, "no such key can be", "shards/../x")
        return listed(prefix, *within)

    monkeypatch.setattr(shared, "list", refusing)
    for number in range(2):
        run.write("a-1", number, 5, version=1)
        run.take()
        run.check()
    (line,) = capsys.readouterr().err.splitlines()
    assert "no such key can be" in line


def test_invalid_shard_names_are_refused(run, capsys):
    path = run.write("a-1", 0, 5, version=1)
    for name in ("a-1-0000000.npz", "x/00000001/a-1-000000.npz", "00000000/a-1-000000.npz"):
        other = run.config.folder / "shards" / name
        other.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, other)
    for _ in range(2):
        run.take()
        run.check()
    assert (run.shard_reader.read, run.shard_reader.skipped) == (1, 3)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all("expected a name such as" in line for line in lines)


def test_a_shard_with_a_read_error_is_retried(run, monkeypatch, capsys):
    held = run.write("a", 0, 5)
    opened = store.files.open_regular

    def stale(path, most):
        if path == held:
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return opened(path, most)

    with monkeypatch.context() as patch:
        patch.setattr(store.files, "open_regular", stale)
        for _ in range(2):
            run.take()
    assert (
        run.shard_reader.read,
        run.shard_reader.skipped,
        run.shard_reader.host_state["done"],
    ) == (
        0,
        0,
        {},
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("will try again later: shard ")
    assert "Stale file handle" in line
    run.take()
    run.check()


def test_a_folder_with_a_listing_error_is_retried(run, monkeypatch, capsys):
    run.write("a", 0, 5)

    def stale(path, onerror):
        raise OSError(errno.ESTALE, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(store.os, "walk", stale)
        for _ in range(2):
            run.take()
    assert (run.shard_reader.read, run.shard_reader.skipped) == (0, 0)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"will try again later: shards {run.config.folder / 'shards'}: ")
    assert "Stale file handle" in line
    run.take()
    run.check()


def test_the_ledger_is_compact():
    ledger = Ledger()
    for number in (3, 0, 1, 2, 7, 9, 8, 3):
        ledger.add(Place(number, "a"))
    ledger.add(Place(5, "b"))
    assert ledger.plain == {"a": [[0, 3], [7, 9]], "b": [[5, 5]]}
    again = Ledger(json.loads(json.dumps(ledger.plain)))
    assert again.plain == ledger.plain
    asked = [f"a-{number:06d}" in again for number in range(11)]
    assert asked == [True] * 4 + [False] * 3 + [True] * 3 + [False]
    assert Place(0, "b") not in again
    assert Place(0, "c") not in again
