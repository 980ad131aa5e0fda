"""Invariant 7 for a run's programs: each lowers for every platform, on one and four devices."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType

from gozero.nets import network
from gozero.play.rows import row_shapes
from tests import test_invariants
from tests.train import tiny
from train import games, steps, worker
from train.plan import make_plan

WITH_A_CAP = {"cheap_simulations": 2, "batch": 4}


@pytest.mark.parametrize(
    ("num_devices", "num_steps", "changes"),
    [
        pytest.param(
            *(4, 16, WITH_A_CAP | {"dtype": "bfloat16", "ko": "positional"}),
            marks=pytest.mark.thorough,
        ),
        pytest.param(4, 1, WITH_A_CAP, marks=pytest.mark.slow),
        pytest.param(1, 16, {}, marks=pytest.mark.slow),
    ],
)
def test_programs_lower_for_every_platform(num_devices, num_steps, changes):
    plan = make_plan(tiny.config(**changes), num_devices)
    mesh = AbstractMesh((num_devices,), (steps.AXIS,), axis_types=(AxisType.Auto,))
    state = tiny.placed(plan, mesh)

    def export(program, *args):
        assert test_invariants.export(program, *args).nr_devices == num_devices

    where = steps.shardings(state, mesh)
    export(jax.jit(lambda: steps.begin(plan, mesh), out_shardings=where))
    given = lambda params: steps.begin(plan, mesh, params)
    export(jax.jit(given, out_shardings=where), state.learner.params)
    export(steps.make_play(plan, mesh, 4), state.learner.ema, state.playing)
    learn = steps.make_learn(plan, mesh, num_steps)
    export(learn, state.learner, state.playing.buffer, np.float32(0))
    export(steps.make_add(plan, mesh), state.playing.buffer, *taken_in(plan, mesh))


def taken_in(plan, mesh):
    """The shapes and shardings of a shard's rows as they are sent to the devices."""
    lead, where = (plan.num_devices, 64), jax.NamedSharding(mesh, steps.DIVIDED)
    put = lambda x: jax.ShapeDtypeStruct((*lead, *x.shape), x.dtype, sharding=where)
    rows = jax.tree.map(put, row_shapes(plan.play.game))
    one = lambda dtype: put(jax.ShapeDtypeStruct((), dtype))
    return rows, one(jnp.float32), one(jnp.bool_)


@pytest.mark.slow
def test_workers_lower_for_every_platform():
    plan = worker.plan_of(tiny.config(workers=True, ko="positional", **WITH_A_CAP))
    # Drop the shardings, which come from whichever program asked for the shapes first.
    bare = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)
    params = jax.tree.map(bare, network.shapes(plan.learner.network))
    playing = jax.eval_shape(lambda: games.start(plan.play, plan.buffer, 0, 0))
    play = jax.jit(functools.partial(worker._play_moves, plan, 4))
    test_invariants.export(play, params, playing)
