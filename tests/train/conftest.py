"""What the tests of runs share."""

import dataclasses

import pytest

from train.loop import Loop

NOT_IN_PROGRAMS = {
    "out": None,
    "minutes": None,
    "checkpoint_every": 1,
    "evaluate_every": 0,
    "evaluate_games": 2,
    "evaluate_simulations": 1,
}


@pytest.fixture(autouse=True, scope="package")
def _runs_of_one_plan_are_compiled_once():
    """To trace and lower a run's programs takes longer than these runs do."""
    found, init = {}, Loop.__init__

    def begin(loop, plan, mesh, *rest):
        init(loop, plan, mesh, *rest)
        config = dataclasses.replace(plan.config, **NOT_IN_PROGRAMS)
        shared = dataclasses.replace(plan, config=config)
        loop._compiled = found.setdefault((shared, mesh), loop._compiled)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "__init__", begin)
        yield
