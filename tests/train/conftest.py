"""Fixtures for the tests of runs."""

import dataclasses
import functools

import pytest

from tests.train import synthetic
from train import quarantine, steps
from train.loop import Loop
from train.optimizer import OptimizerConfig

NOT_IN_PROGRAMS = {
    "out": None,
    "minutes": None,
    "checkpoint_every": 1,
    "evaluate_every": 0,
    "evaluate_games": 2,
    "evaluate_simulations": 1,
    "tensorboard": False,
    "gate_every": 10,
    "gate_games": 100,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of synthetic shards."""
    return synthetic.write_folder(tmp_path_factory.mktemp("data") / "run")


@pytest.fixture(autouse=True, scope="package")
def _runs_of_one_plan_are_compiled_once():
    """Share compiled programs: tracing and lowering them takes longer than these runs do.

    Plans that differ only in the learner's settings share their self-play program.
    """
    found, init = {}, Loop.__init__
    played, play = {}, Loop._play
    make_begin = functools.cache(steps.make_begin.__wrapped__)
    make_programs = quarantine._programs.__wrapped__
    programs = functools.cache(make_programs)

    def shared(plan):
        return dataclasses.replace(plan, config=dataclasses.replace(plan.config, **NOT_IN_PROGRAMS))

    def begin_of(plan, mesh, num_args):
        return make_begin(shared(plan), mesh, num_args)

    def begin(loop, plan, mesh, *rest):
        init(loop, plan, mesh, *rest)
        loop._compiled = found.setdefault((shared(plan), mesh), loop._compiled)

    @functools.wraps(play)
    def play_of(loop, simulations):
        config = dataclasses.replace(loop.plan.config, **NOT_IN_PROGRAMS, iterations=1)
        learner = dataclasses.replace(loop.plan.learner, optimizer=OptimizerConfig())
        alike = dataclasses.replace(loop.plan, config=config, learner=learner)
        key = alike, loop.mesh, simulations
        if key not in played:
            played[key] = play(loop, simulations)
        loop._compiled["play", simulations] = played[key]
        return played[key]

    @functools.wraps(make_programs)
    def programs_of(plan, mesh):
        return programs(shared(plan), mesh)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "__init__", begin)
        patch.setattr(Loop, "_play", play_of)
        patch.setattr(steps, "make_begin", begin_of)
        patch.setattr(quarantine, "_programs", programs_of)
        yield
