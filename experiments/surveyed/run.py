"""The programs that Gelly & Silver (2011) survey, as far as our search can express them.

python -m experiments.surveyed.run [--games 200] [--simulations 400] [--out DIR]
"""

from __future__ import annotations

import sys
from typing import Any

from experiments.ablation.run import searching
from experiments.surveyed import territory
from experiments.surveyed.config import PROGRAMS, SurveyedConfig
from experiments.surveyed.indigo import contestant as indigo_by_territory
from experiments.sweeps import equal_time, run
from experiments.sweeps.points import Change, Contestant, Sweep
from gozero.play.player_config import PlayerConfig

_OPPONENT = "MoGo"
_ANCHORS = ("Crazy Stone 2006", "Crazy Stone 2007", "MoGo", "MoGo Titan", "RLGO 1.0", "RLGO")
"""RLGO 1.0 and, with temporal-difference search, 2.4."""
_FOUR_MACHINES = "MoGo Titan, 4 machines"
"""Each with as many simulations as the opponent: at equal time already, if there were four."""
_ONE_PLY = searching("one ply", max_depth=1)
_TERRITORY = Change(
    "territory network", lambda rules, setup: setup._replace(evaluator=territory.shipped(rules))
)


def contestants(config: SurveyedConfig) -> dict[str, Contestant]:
    """{program: the contestant that represents it}."""
    indigo = {"search": "boltzmann", "pruning": 2.0, "playouts": "uniform"}
    crazy_stone = {"search": "gaussian", "backup": "mix"}
    uct = {"search": "uct", "exploration": 0.25, "first_play": 1.0}
    rave = {"search": "rave", "rave_bias": 0.01}
    patterns = {"playouts": "mm", "priors": "mm", "widening": 10.0}

    def contestant(change=None, playouts: Any = "mogo", **flags) -> Contestant:
        flags = {"playouts": playouts, "simulations": config.simulations} | flags
        return Contestant(PlayerConfig(**flags), change=change)

    return {
        "Gobble": contestant(playouts=None, search="annealing"),
        "TD territory": contestant(_TERRITORY, playouts=None),
        "Indigo": contestant(_ONE_PLY, **indigo),
        "Indigo, a tree": contestant(**indigo),
        "Indigo, territory": indigo_by_territory(config.simulations),
        "Crazy Stone 2006": contestant(**crazy_stone),
        "Crazy Stone 2007": contestant(**crazy_stone, **patterns),
        "MoGo, UCT": contestant(**uct),
        "MoGo": contestant(**rave),
        "MoGo, heuristic": contestant(
            **rave, heuristic="shape", heuristic_amaf_visits=50, heuristic_good_visits=12
        ),
        "MoGo Titan": contestant(**rave, trees=4),
        _FOUR_MACHINES: contestant(**rave, trees=4, simulations=4 * config.simulations),
        "Fuego": contestant(**rave, rave_above=0.05),
        "MoGo, experts": contestant(**rave, priors="mm", expert_bonus=0.1, expert_visits=1.0),
        "RLGO 1.0": contestant(playouts=None, search="td", simulations=0),
        "RLGO": contestant(playouts=None, search="td"),
        "Erica": contestant(**rave, playouts="balanced"),
    }


def sweep(config: SurveyedConfig, speeds: equal_time.Speeds | None = None) -> Sweep:
    """Every program against MoGo."""
    players, names = contestants(config), config.programs
    if speeds is not None:
        names = [name for name in names if name != _FOUR_MACHINES]
    points = equal_time.points(players, names, _OPPONENT, _ANCHORS, speeds)
    return Sweep(
        "surveyed",
        points,
        title=f"{points[0].series}, against MC-RAVE with {config.simulations:,} simulations",
        x_label="program",
        x_scale="names",
    )


def play(config: SurveyedConfig) -> int:
    """Plays both sweeps; returns the exit status."""
    players = contestants(config)
    chosen = {name: players[name] for name in PROGRAMS if name in (*config.programs, _OPPONENT)}
    return equal_time.play(config, sweep, chosen, _OPPONENT, config.equal_time)


if __name__ == "__main__":
    sys.exit(run.command(SurveyedConfig, play, "surveyed"))
