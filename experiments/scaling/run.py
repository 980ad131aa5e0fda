"""Table 1 and Figure 7 of Gelly & Silver (2011): the Elo gained by more simulations.

python -m experiments.scaling.run [--most 4000] [--size 13] [--games 200] [--out DIR]
"""

from __future__ import annotations

import itertools
import sys

from experiments.scaling.config import ScalingConfig
from experiments.sweeps import run
from experiments.sweeps.points import Contestant, Point, Sweep
from gozero.play.player_config import PlayerConfig


def sweep(config: ScalingConfig) -> Sweep:
    """Each number of simulations but the first against the previous one; MoGo's playouts."""

    def uct(count) -> Contestant:
        flags = PlayerConfig(
            search="uct", playouts="mogo", first_play=config.first_play, simulations=count
        )
        return Contestant(flags)

    def rave(count) -> Contestant:
        return Contestant(
            PlayerConfig(search="rave", playouts="mogo", rave_bias=config.bias, simulations=count)
        )

    points = []
    for fewer, more in itertools.pairwise(config.ladder):
        for series, player in (("UCT", uct), ("MC-RAVE", rave)):
            anchor = more in config.anchors
            points.append(Point(series, more, f"{more:,}", player(more), player(fewer), anchor))
    first = config.ladder[0]
    return Sweep(
        "scaling",
        tuple(points),
        title=f"{config.size}x{config.size}, above the same search with {first:,} simulations",
        x_label="simulations a move",
        x_scale="log",
        chained=True,
    )


if __name__ == "__main__":
    sys.exit(run.main(ScalingConfig, sweep, "scaling"))
