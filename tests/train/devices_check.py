"""Run by test_devices.py in a process of its own, with four devices."""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.play import devices, resignation
from tests.play.devices_check import with_games_given_up
from tests.train import tiny
from train import buffer as buffers
from train import folder, learner, run, steps
from train.loop import Loop
from train.plan import make_plan

DEVICES = 4
LESS = {"opening_plies": 0, "pool_every": 0, "surprise": 0.0}
"""Turns off options that other tests cover, so that less is compiled."""


def main(out: pathlib.Path) -> None:
    assert jax.device_count() == DEVICES
    config = tiny.config(out, devices=DEVICES, batch=4, **LESS)
    mesh = devices.mesh_of()
    plan = make_plan(config, DEVICES)
    compile_once()
    loop = Loop(plan, mesh, steps.begin(plan, mesh))
    lines = [loop.iterate() for _ in range(config.iterations)]
    assert loop.steps > 4

    own_games(plan, loop)
    counted_once(plan, loop, lines)
    alike_everywhere(loop)
    goes_on(config, loop, lines)
    calibrated_on_the_games_of_all(loop)
    step_of_the_union(loop)  # the last: the learner's state is donated


def compile_once() -> None:
    """Have all loops of this process share their compiled programs."""
    start, compiled = Loop.__init__, {}

    def sharing(loop, *args):
        start(loop, *args)
        loop._compiled = compiled

    Loop.__init__ = sharing


def own_games(plan, loop) -> None:
    """No two devices have the same keys or policy targets; they share the batch key."""
    playing = loop.state.playing
    for leaf in jax.tree.leaves(playing.games.moves.position):
        assert leaf.sharding.shard_shape(leaf.shape)[0] == 1
    key_data = jax.random.key_data(playing.lanes.key)
    targets = playing.buffer.rows.policy_target
    for one, other in itertools.combinations(range(DEVICES), 2):
        for each in (key_data, targets):
            assert not np.array_equal(each[one], each[other])
    shared = jax.random.key_data(playing.lanes.batch_key)
    np.testing.assert_array_equal(shared, np.broadcast_to(shared[0], shared.shape))


def counted_once(plan, loop, lines) -> None:
    config, playing = plan.config, loop.state.playing
    ended = np.asarray(playing.lanes.next_game) - config.batch
    assert np.all(ended > 0)
    assert loop.games == lines[-1]["games"] == ended.sum()
    assert lines[-1]["added"] == np.asarray(playing.buffer.added).sum()
    assert lines[-1]["rows"] == np.asarray(playing.buffer.size).sum()
    moves = np.asarray(playing.lanes.moves)
    np.testing.assert_array_equal(moves, config.iterations * config.moves)


def alike_everywhere(loop) -> None:
    """The learner's state is the same on every device, bit for bit."""
    for leaf in jax.tree.leaves(jax.tree.map(plain, loop.state.learner)):
        shards = [np.asarray(shard.data) for shard in leaf.addressable_shards]
        assert len(shards) == DEVICES
        for shard in shards[1:]:
            np.testing.assert_array_equal(shard, shards[0])


def goes_on(config, whole, lines) -> None:
    """A run that is stopped and resumed equals one that was not."""
    iterate = Loop.iterate

    def told_to_stop(loop, *how):
        numbers = iterate(loop, *how)
        if loop.iteration == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return numbers

    Loop.iterate = told_to_stop
    assert run.run(config) == 143
    Loop.iterate = iterate
    assert run.run(config) == 0
    written = folder.read_lines(config.folder / "metrics.jsonl")
    assert [tiny.untimed(line) for line in written] == [tiny.untimed(line) for line in lines]
    again = run.begin(whole.plan, whole.mesh)
    assert again.iteration == config.iterations
    states = [jax.tree.leaves(jax.tree.map(plain, loop.state)) for loop in (again, whole)]
    for one, other in zip(*states, strict=True):
        assert one.sharding.is_equivalent_to(other.sharding, other.ndim)
        np.testing.assert_array_equal(one, other)


def step_of_the_union(loop) -> None:
    """Four devices, each with its own rows, take the step that one device takes with all rows."""
    plan, state = loop.plan, loop.state
    count = plan.config.batch_size // DEVICES

    @jax.jit
    def step(state, rings, devices):
        """A step with the rows that these devices would draw."""
        draw_key = jax.random.split(state.key)[1]
        keys = jax.vmap(functools.partial(jax.random.fold_in, draw_key))(devices)
        draw = lambda ring, key: buffers.draw(plan.buffer, ring, key, count)
        drawn = jax.vmap(draw)(jax.tree.map(lambda x: x[devices], rings), keys)
        rows, turns = jax.tree.map(jnp.concatenate, drawn)
        batch = learner.batch_of(plan.rules, plan.learner, rows, turns)
        return learner.update(plan.learner, state, *batch, fraction_done=loop._fraction)

    here = jax.device_put((state.learner, state.playing.buffer), jax.devices()[0])
    expected, seen = step(*here, np.arange(DEVICES))
    of_one_device = step(*here, np.zeros(DEVICES, np.int32))[0]
    after, _, metrics = loop._step()(state.learner, state.playing.buffer, loop._fraction)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    for name in ("params", "ema", "optimizer"):
        jax.tree.map(close, getattr(after, name), getattr(expected, name))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4), metrics, seen)
    with pytest.raises(AssertionError):  # a check that can fail
        jax.tree.map(close, of_one_device.params, expected.params)


def calibrated_on_the_games_of_all(loop) -> None:
    playing = loop.state.playing
    recorded = with_games_given_up(playing.lanes.resignation)
    playing = playing.replace(lanes=playing.lanes.replace(resignation=recorded))
    loop.state = loop.state.replace(playing=playing)
    _, tallies = loop._begin()
    thresholds = loop.state.playing.lanes.resignation.threshold.tolist()
    assert thresholds == [float(tallies.threshold)] * DEVICES
    assert thresholds[0] > resignation.NEVER


def plain(x):
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
    print("all is as on one device")
