"""The programs of every preset trace; the slice's on four devices; at full size in slow tests."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import numpy as np
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


AS_5X5 = {"9x9-gpu", "19x19-slice"}
"""Traced on 5x5: their own programs differ only in sizes, and take up to five times as long."""

AS_OTHERS = {"7x7", "9x9-cpu"}
"""Programs that are those of 5x5 with larger sizes."""

IN_SHORT = sorted(PRESETS.keys() - AS_OTHERS)


def in_short(preset):
    config = PRESETS[preset]
    return dataclasses.replace(config, size=5) if preset in AS_5X5 else config


@pytest.mark.parametrize(
    "preset",
    [
        pytest.param(preset, marks=[pytest.mark.thorough] * (preset != "19x19-slice"))
        for preset in IN_SHORT
    ],
)
def test_a_presets_programs_trace(preset):
    trace_programs(in_short(preset))


@pytest.mark.slow
@pytest.mark.parametrize("preset", sorted(AS_5X5 | AS_OTHERS))
def test_a_presets_programs_trace_at_full_size(preset):
    trace_programs(PRESETS[preset])


def trace_programs(config):
    num_devices = DEVICES.get(config.preset, 1)
    plan = make_plan(config, num_devices)
    mesh: Any = AbstractMesh((num_devices,), (steps.AXIS,), axis_types=(AxisType.Auto,))
    with mode.target(TARGETS.get(config.preset, "cpu")):
        state = tiny.placed(plan, mesh)
        play = steps.make_play(plan, mesh, config.simulations)
        playing, tallies = jax.eval_shape(play, state.learner.ema, state.playing)
        learn = steps.make_learn(plan, mesh, learner.steps_per_call())
        learnt, _, _ = jax.eval_shape(learn, state.learner, state.playing.buffer, np.float32(0))
    assert shapes(playing) == shapes(state.playing)
    assert shapes(learnt) == shapes(state.learner)
    assert tallies.moves.shape == ()


@pytest.mark.thorough
@pytest.mark.parametrize("preset", sorted(set(IN_SHORT) - {"3x3"}))
def test_a_workers_program_traces(preset):
    """3x3 is left out: its self-play is traced above."""
    traces(in_short(preset), TARGETS.get(preset, "cpu"))


@pytest.mark.slow
@pytest.mark.parametrize("preset", sorted(AS_5X5 | AS_OTHERS | {"3x3"}))
def test_a_workers_program_traces_at_full_size(preset):
    traces(PRESETS[preset], TARGETS.get(preset, "cpu"))


@pytest.mark.thorough
def test_self_play_in_8_bits_traces():
    config = dataclasses.replace(PRESETS["3x3"], play_dtype="int8")
    assert make_plan(config).learner.network.dtype == "float32"
    traces(config, "tpu")


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
    assert total == [4000 * 16, 4000 * 64, 4000 * 64]  # each row is used four times
