"""Law 7 for the programs of a run: each lowers for every platform, on one device and on four."""

from __future__ import annotations

import jax
import jax.export
import pytest
from jax.sharding import AbstractMesh, AxisType

from tests.train.zero import tiny
from train.zero import programs
from train.zero.plan import make_plan

PLATFORMS = ("cpu", "cuda", "tpu")
WITH_A_CAP = {"cheap_simulations": 2, "batch": 4}


@pytest.mark.parametrize(
    ("num_devices", "num_steps", "changes"),
    [
        (4, 16, {"dtype": "bfloat16"}),
        pytest.param(4, 1, WITH_A_CAP, marks=pytest.mark.slow),
        pytest.param(1, 16, WITH_A_CAP, marks=pytest.mark.slow),
    ],
)
def test_every_platform_can_have_it(num_devices, num_steps, changes):
    plan = make_plan(tiny.config(**changes), num_devices)
    mesh = AbstractMesh((num_devices,), (programs.AXIS,), axis_types=(AxisType.Auto,))
    state = tiny.placed(plan, mesh)

    def export(program, *args):
        exported = jax.export.export(program, platforms=PLATFORMS)(*args)
        assert exported.platforms == PLATFORMS
        assert exported.nr_devices == num_devices

    where = programs.shardings(state, mesh)
    export(jax.jit(lambda: programs.begin(plan, mesh), out_shardings=where))
    export(programs.make_play(plan, mesh, 4), state.learner.ema, state.playing)
    learn = programs.make_learn(plan, mesh, num_steps)
    export(learn, state.learner, state.playing.buffer)
