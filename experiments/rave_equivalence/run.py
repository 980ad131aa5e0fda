"""Figure 5 of Gelly & Silver (2011): MC-RAVE's score by its equivalence parameter.

python -m experiments.rave_equivalence.run [--games 200] [--simulations 1000] [--out DIR]
"""

from __future__ import annotations

import sys

from experiments.rave_equivalence.config import RaveEquivalenceConfig
from experiments.sweeps import run
from experiments.sweeps.points import Contestant, Point, Sweep
from gozero.play.player_config import PlayerConfig


def sweep(config: RaveEquivalenceConfig) -> Sweep:
    """MC-RAVE with each k, and UCT; all with MoGo's playouts."""

    def player(search, **more) -> Contestant:
        flags = PlayerConfig(search=search, playouts="mogo", simulations=config.simulations, **more)
        return Contestant(flags)

    opponent = player("rave", rave_bias=config.bias)
    uct = player("uct", exploration=config.exploration, first_play=config.first_play)
    points = [Point("UCT", None, "no RAVE", uct, opponent, anchor=True)]
    for initial in (None, *config.initials):
        curve = "MC-RAVE" if initial is None else f"MC-RAVE, initial Q {initial:g}"
        initial_text = "" if initial is None else f", Q = {initial:g}"
        for k in config.ks:
            own = player("rave", rave_k=k, rave_initial=initial)
            points.append(
                Point(curve, k, f"k = {k:g}{initial_text}", own, opponent, k in config.anchors)
            )
    return Sweep(
        "rave_equivalence",
        tuple(points),
        title=f"{config.simulations:,} simulations a move against MC-RAVE, b = {config.bias:g}",
        x_label="equivalence parameter k",
        x_scale="log",
    )


if __name__ == "__main__":
    sys.exit(run.main(RaveEquivalenceConfig, sweep, "rave_equivalence"))
