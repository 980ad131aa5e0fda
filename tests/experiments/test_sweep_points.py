"""Every experiment's points are players that can be."""

from __future__ import annotations

import dataclasses

import pytest

from experiments.rave_equivalence import run as rave_equivalence
from experiments.rave_equivalence.config import RaveEquivalenceConfig
from experiments.schedules import run as schedules
from experiments.schedules.config import SchedulesConfig
from experiments.sweeps import anchors
from gozero.go.rules import Rules
from gozero.search.rave import HandSelected, MinimumMse

RULES = Rules(9)
SWEEPS = {
    "rave_equivalence": (rave_equivalence.sweep, RaveEquivalenceConfig()),
    "schedules": (schedules.sweep, SchedulesConfig()),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_points_are_players(name):
    make, config = SWEEPS[name]
    sweep = make(config)
    assert sweep.name == name == config.out.name
    for contestant in {c for point in sweep.points for c in (point.player, point.opponent)}:
        setup = contestant.setup(RULES)
        assert setup.search.num_simulations == contestant.flags.num_simulations
        assert contestant.text
    assert len({str(point.record) for point in sweep.points}) == len(sweep.points)
    assert sum(point.anchor for point in sweep.points) in (0, 4)
    for point in sweep.points:
        if point.anchor:
            match = anchors.match_of(point, dataclasses.replace(config, anchor_command="gnugo"))
            assert match.player.simulations == point.player.flags.simulations


def test_schedules_are_what_they_are_called():
    of = {
        point.name: point.player.setup(RULES).search.select.schedule
        for point in schedules.sweep(SchedulesConfig()).points
    }
    assert of["hand-selected, k = 300"] == HandSelected(300)
    assert of["Eq. 47, b = 0.03"] == MinimumMse(0.03)
    assert of["Eq. 46, b = 0.03"] == MinimumMse(0.03, even=False)


def test_uct_hears_no_rave():
    sweep = rave_equivalence.sweep(RaveEquivalenceConfig())
    setup = sweep.points[0].player.setup(RULES)
    assert setup.search.amaf is None
    assert sweep.points[0].player.flags.policy == "mogo"
    assert all(point.opponent == sweep.points[0].opponent for point in sweep.points)
