"""Every preset's programs trace as they are, the slice's on four devices."""

from __future__ import annotations

import functools

import jax
import pytest
from jax.sharding import AbstractMesh, AxisType

from gozero.compile import mode
from gozero.nets import network
from tests.train import tiny
from train import games, learner, steps, worker
from train.plan import make_plan
from train.presets import PRESETS

TARGETS = {"9x9-gpu": "gpu", "19x19-slice": "tpu"}  # the others are for a CPU
DEVICES = {"19x19-slice": 4}


shapes = functools.partial(jax.tree.map, lambda x: (x.shape, x.dtype))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_presets_programs_trace(preset):
    config, num_devices = PRESETS[preset], DEVICES.get(preset, 1)
    plan = make_plan(config, num_devices)
    mesh = AbstractMesh((num_devices,), (steps.AXIS,), axis_types=(AxisType.Auto,))
    with mode.target(TARGETS.get(preset, "cpu")):
        state = tiny.placed(plan, mesh)
        play = steps.make_play(plan, mesh, config.simulations)
        playing, tallies = jax.eval_shape(play, state.learner.ema, state.playing)
        learn = steps.make_learn(plan, mesh, learner.steps_per_call())
        learnt, _, _ = jax.eval_shape(learn, state.learner, state.playing.buffer)
    assert shapes(playing) == shapes(state.playing)
    assert shapes(learnt) == shapes(state.learner)
    assert tallies.moves.shape == ()


@pytest.mark.parametrize(
    "preset",
    ["3x3", "connect4", "9x9-gpu", pytest.param("19x19-slice", marks=pytest.mark.slow)],
)
def test_a_workers_program_traces(preset):
    """Of one CPU's preset of Go, for the others differ by numbers alone."""
    config = PRESETS[preset]
    plan = worker.plan_of(config)
    with mode.target(TARGETS.get(preset, "cpu")):
        start = jax.eval_shape(lambda: games.start(plan.play, plan.buffer, 0, 0))
        work = functools.partial(worker._play_moves, plan, config.simulations)
        worked = jax.eval_shape(work, network.shapes(plan.learner.network), start)
    assert shapes(worked.lanes) == shapes(start.lanes)
