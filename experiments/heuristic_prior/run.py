"""Figure 6 of Gelly & Silver (2011): MC-RAVE's score with a heuristic, by its confidence.

python -m experiments.heuristic_prior.run [--games 200] [--simulations 1000] [--out DIR]
"""

from __future__ import annotations

import sys

from experiments.heuristic_prior.config import HeuristicPriorConfig
from experiments.sweeps import run
from experiments.sweeps.points import Contestant, Point, Sweep
from gozero.play.player_config import PlayerConfig

_SERIES = {
    "even": "even game",
    "grandfather": "grandfather",
    "mogo": "MoGo's rules",
    "shape": "local shapes",
}


def sweep(config: HeuristicPriorConfig) -> Sweep:
    """Each heuristic at each confidence; all with MoGo's playouts."""

    def player(**heuristic) -> Contestant:
        flags = PlayerConfig(
            search="rave",
            playouts="mogo",
            rave_bias=config.bias,
            simulations=config.simulations,
            **heuristic,
        )
        return Contestant(flags)

    opponent, points = player(), []
    for confidence in config.confidences:
        anchor = confidence in config.anchor_confidence
        if confidence == 0 and config.visits == 0:
            points.append(Point("no heuristic", None, "M = 0", opponent, opponent, anchor))
            continue
        for name in config.heuristics:
            one = player(
                heuristic=name,
                heuristic_visits=config.visits,
                heuristic_amaf_visits=confidence,
            )
            points.append(
                Point(_SERIES[name], confidence, f"M = {confidence}", one, opponent, anchor)
            )
    return Sweep(
        "heuristic_prior",
        tuple(points),
        title=f"{config.simulations:,} simulations a move against MC-RAVE without a heuristic",
        x_label="confidence M, all-moves-as-first simulations",
    )


if __name__ == "__main__":
    sys.exit(run.main(HeuristicPriorConfig, sweep, "heuristic_prior"))
