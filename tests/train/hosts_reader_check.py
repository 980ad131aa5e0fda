"""Run by test_hosts.py, as each of two processes with two devices, which read a run's shards."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import sys

import jax
import numpy as np

from gozero.play import devices
from tests.train import worker_runs
from train import buffer as buffers
from train import hosts, redistribute, shard_reader, steps
from train.plan import make_plan
from train.shard_reader import ShardReader

PROCESSES, DEVICES = 2, 4
CONFIG = dataclasses.replace(worker_runs.CONFIG, capacity=300, window=100, surprise=0.5)


def main(out: pathlib.Path, place: str, process: int) -> None:
    """Read the shards that are there, resume as from a checkpoint, and read those from later/.

    Prints as JSON which shards this process opened, what its rings hold, and its reader's counts.
    """
    jax.distributed.initialize(place, PROCESSES, process)
    shard_reader.CHUNK, shard_reader.SWEEP_S = 16, 0
    plan, mesh = make_plan(dataclasses.replace(CONFIG, out=out), DEVICES), devices.mesh_of()
    opened = spied_on(plan.config.shared)
    reader, rings = ShardReader(plan, mesh), empty(plan, mesh)
    rings = reader.take(rings)
    host_state = hosts.broadcast_from_first(reader.host_state)
    later = out / "later"
    hosts.run_on_first(lambda: [x.rename(out / "shards" / x.name) for x in later.iterdir()])
    reader = ShardReader(plan, mesh, host_state)
    assert reader.host_state == host_state
    for _ in range(2):
        rings = reader.take(rings)
    known = {name: getattr(reader, name) for name in ("read", "skipped", "rows", "dealt")}
    known |= {
        "sources": reader.sources,
        "host_state": hosts.broadcast_from_first(reader.host_state),
    }
    print(json.dumps({"opened": opened, "rings": rows_of(rings), "known": known}))


def spied_on(shared) -> list[str]:
    """A list that collects the keys of shards opened from now on."""
    opened, get = [], shared.get

    def spy(key: str, most: int) -> bytes:
        if key.startswith("shards/"):
            opened.append(key)
        return get(key, most)

    shared.get = spy
    return opened


def empty(plan, mesh):
    one = jax.eval_shape(lambda: buffers.start(plan.play.game, plan.buffer))
    where = jax.NamedSharding(mesh, steps.DIVIDED)
    zeros = jax.tree.map(lambda x: np.zeros((DEVICES, *x.shape), x.dtype), one)
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), zeros)
    return redistribute.place(zeros, like)


def rows_of(rings) -> dict[str, list[str]]:
    """{device: the rows of its ring}, for this process's devices."""
    own: dict = {}
    for leaf in jax.tree.leaves((rings.size, rings.rows, rings.frequency)):
        for shard in leaf.addressable_shards:
            own.setdefault(str(shard.device.id), []).append(np.asarray(shard.data)[0])
    return {
        device: [digest([x[i] for x in leaves]) for i in range(int(size))]
        for device, (size, *leaves) in own.items()
    }


def digest(leaves) -> str:
    """SHA-256 of one row."""
    return hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in leaves)).hexdigest()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
