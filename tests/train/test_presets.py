"""Every preset's programs trace as they are, the slice's on four devices."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

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
    """Those of 19x19 as 5x5: they differ by numbers alone, and take several times as long."""
    config = PRESETS[preset]
    if config.size == 19:
        config = dataclasses.replace(config, size=5)
    trace_programs(config)


@pytest.mark.slow
def test_programs_of_19x19_trace():
    trace_programs(PRESETS["19x19-slice"])


def trace_programs(config):
    num_devices = DEVICES.get(config.preset, 1)
    plan = make_plan(config, num_devices)
    mesh: Any = AbstractMesh((num_devices,), (steps.AXIS,), axis_types=(AxisType.Auto,))
    with mode.target(TARGETS.get(config.preset, "cpu")):
        state = tiny.placed(plan, mesh)
        play = steps.make_play(plan, mesh, config.simulations)
        playing, tallies = jax.eval_shape(play, state.learner.ema, state.playing)
        learn = steps.make_learn(plan, mesh, learner.steps_per_call())
        learnt, _, _ = jax.eval_shape(learn, state.learner, state.playing.buffer)
    assert shapes(playing) == shapes(state.playing)
    assert shapes(learnt) == shapes(state.learner)
    assert tallies.moves.shape == ()


@pytest.mark.parametrize("preset", PRESETS)
def test_a_workers_program_traces(preset):
    """That of 19x19 as one of 5x5: it differs by numbers alone, and takes several times as long."""
    config = PRESETS[preset]
    if config.size == 19:
        config = dataclasses.replace(config, size=5)
    traces(config, TARGETS.get(preset, "cpu"))


@pytest.mark.slow
def test_a_workers_program_of_19x19_traces():
    traces(PRESETS["19x19-slice"], "tpu")


def traces(config, target):
    plan = worker.plan_of(config)
    with mode.target(target):
        start = jax.eval_shape(lambda: games.start(plan.play, plan.buffer, 0, 0))
        work = functools.partial(worker._play_moves, plan, config.simulations)
        worked = jax.eval_shape(work, network.shapes(plan.learner.network), start)
    assert shapes(worked.lanes) == shapes(start.lanes)


def test_a_step_grows_with_the_devices_of_a_slice():
    on = lambda devices: make_plan(PRESETS["19x19-slice"], devices)
    for devices in (1, 4, 16):
        assert on(devices).config == PRESETS["19x19-slice"]
    assert on(64).config.batch_size == 128 * 64
    assert on(64).learner.optimizer.learning_rate == 2 * on(4).learner.optimizer.learning_rate
    total = [on(devices).learner.optimizer.total_steps for devices in (4, 16, 64)]
    assert total == [4000 * 16, 4000 * 64, 4000 * 64]  # each row is learnt from four times
