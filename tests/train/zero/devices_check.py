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

from tests.train.zero import tiny
from train import buffer as buffers
from train import learner
from train.zero import folder, programs, run
from train.zero.loop import Loop
from train.zero.plan import make_plan

DEVICES = 4


def main(out: pathlib.Path) -> None:
    assert jax.device_count() == DEVICES
    config = tiny.config(out, devices=DEVICES, batch=4)
    mesh = programs.make_mesh()
    plan = make_plan(config, DEVICES)
    compile_once()
    loop = Loop(plan, mesh, programs.begin(plan, mesh))
    lines = [loop.iterate() for _ in range(config.iterations)]
    assert loop.steps > 4

    own_games(plan, loop)
    counted_once(plan, loop, lines)
    alike_everywhere(loop)
    goes_on(config, loop, lines)
    step_of_the_union(plan, mesh, loop.state)


def compile_once() -> None:
    """Let all loops of this process have the same compiled programs."""
    start, compiled = Loop.__init__, {}

    def sharing(loop, *args):
        start(loop, *args)
        loop._compiled = compiled

    Loop.__init__ = sharing


def own_games(plan, loop) -> None:
    """No two devices play, or hold, the same."""
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
    """What learns is the same on every device, to the last bit."""
    for leaf in jax.tree.leaves(jax.tree.map(plain, loop.state.learner)):
        shards = [np.asarray(shard.data) for shard in leaf.addressable_shards]
        assert len(shards) == DEVICES
        for shard in shards[1:]:
            np.testing.assert_array_equal(shard, shards[0])


def goes_on(config, whole, lines) -> None:
    """A run that is stopped and goes on is the one that was not."""
    iterate = Loop.iterate

    def told_to_stop(loop):
        numbers = iterate(loop)
        if loop.iteration == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return numbers

    Loop.iterate = told_to_stop
    assert run.run(config) == 0
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


def step_of_the_union(plan, mesh, state) -> None:
    """Four devices, each with rows of its own, take the step that one takes with all of them."""
    here = jax.device_get(jax.tree.map(plain, state))
    before = state.learner.replace(
        **{name: getattr(here.learner, name) for name in ("params", "good", "ema", "optimizer")},
        key=jax.random.wrap_key_data(here.learner.key),
        step=here.learner.step,
        ok=here.learner.ok,
    )
    draw_key = jax.random.split(before.key)[1]
    count = plan.config.batch_size // DEVICES
    drawn = []
    for device in range(DEVICES):
        own = jax.tree.map(lambda x, device=device: jnp.asarray(x[device]), here.playing.buffer)
        drawn.append(buffers.draw(plan.buffer, own, jax.random.fold_in(draw_key, device), count))
    union = jax.tree.map(lambda *parts: jnp.concatenate(parts), *drawn)
    once = jax.tree.map(lambda x: jnp.concatenate([x] * DEVICES), drawn[0])

    @jax.jit
    def step(state, rows, turns):
        network, share = plan.learner.network, plan.config.outcome_share
        batch = learner.batch_of(plan.rules, network, rows, turns, share)
        return learner.update(plan.learner, state, *batch)

    expected, seen = step(before, *union)
    of_one_device = step(before, *once)[0]
    learn = programs.make_learn(plan, mesh, 1)
    after, _, metrics = learn(state.learner, state.playing.buffer)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    for name in ("params", "ema", "optimizer"):
        jax.tree.map(close, getattr(after, name), getattr(expected, name))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4), metrics, seen)
    far = [
        np.max(np.abs(np.asarray(one) - other))
        for one, other in zip(
            jax.tree.leaves(after.params), jax.tree.leaves(of_one_device.params), strict=True
        )
    ]
    assert max(far) > 1e-3, far  # a check that can fail


def plain(x):
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
    print("all is as on one device")
