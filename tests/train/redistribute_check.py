"""Run by test_redistribute.py in its own process, with four devices."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import pathlib
import sys

import jax
import numpy as np

from gozero.play import devices
from tests.train import tiny
from tests.train.test_redistribute import by_lane, newest_first
from train import folder, run
from train.plan import make_plan

LESS = {"opening_plies": 0, "pool_every": 0, "min_rows": 4}


def main(out: pathlib.Path) -> None:
    """Three iterations on four devices, two on two, and two on four, each resuming the last."""
    config = tiny.config(out, devices=4, batch=4, **LESS)
    before, steps_before = None, 0
    for number, iterations in ((4, 3), (2, 5), (4, 7)):
        config = dataclasses.replace(config, devices=number, iterations=iterations)
        if before is not None:
            equal_except_for_placement(before, state_of(config))
        stderr = io.StringIO()
        with contextlib.redirect_stderr(stderr):
            assert run.run(config) == 0
        assert ("not bit for bit" in stderr.getvalue()) == (before is not None), stderr.getvalue()
        before = state_of(config)
        steps_now = int(before.learner.step)
        assert steps_now > steps_before, f"no step was taken on {number} devices"
        steps_before = steps_now
    lines = folder.read_lines(config.folder / "metrics.jsonl")
    assert [line["iteration"] for line in lines] == [*range(1, 8)]
    assert all(a["games"] < b["games"] for a, b in itertools.pairwise(lines))
    assert len({line["added"] for line in lines}) == 7
    assert folder.read_config(out).batch == 4
    moves = before.playing.lanes.moves
    assert set(np.asarray(moves).tolist()) == {7 * config.moves}


def state_of(config):
    """The newest checkpoint's state for the devices of a config, on the host."""
    mesh = devices.mesh_of(config.devices)
    with contextlib.redirect_stderr(io.StringIO()):
        initial_devices = run.initial_devices(config, mesh.size)
        assert initial_devices == 4
        state = run.begin(make_plan(config, mesh.size, initial_devices), mesh).state
    is_key = lambda x: jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key)
    return jax.tree.map(lambda x: x if is_key(x) else np.asarray(x), state)


def equal_except_for_placement(one, other) -> None:
    for a, b in zip(*map(jax.tree.leaves, (plain(one.learner), plain(other.learner))), strict=True):
        np.testing.assert_array_equal(a, b)
    assert by_lane(one.playing) == by_lane(other.playing)
    rows = [sorted(itertools.chain(*newest_first(x.playing))) for x in (one, other)]
    assert rows[0] == rows[1]
    assert rows[0]
    for name in ("added", "owed"):
        totals = [np.sum(getattr(x.playing.buffer, name)) for x in (one, other)]
        assert totals[0] == totals[1]


def plain(learner):
    return learner.replace(key=np.asarray(jax.random.key_data(learner.key)))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
    print("4, 2 and 4 devices are one run")
