"""After Figure 7 of Gelly & Silver (2011): the Elo gained by more simulations, in self-play.

python -m experiments.scaling.run [--most 4000] [--size 13] [--round-robin 2] [--out DIR]
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

from experiments.scaling.config import ScalingConfig
from experiments.sweeps import run
from experiments.sweeps.points import Contestant, Point, Rung, Sweep
from gozero.play.player_config import PlayerConfig


def sweep(config: ScalingConfig) -> Sweep:
    """Each number of simulations but the first against the previous one, or, in a tournament, all
    others near it; MoGo's playouts."""

    def uct(count) -> Contestant:
        flags = PlayerConfig(
            search="uct", playouts="mogo", first_play=config.first_play, simulations=count
        )
        return Contestant(flags)

    def rave(count) -> Contestant:
        return Contestant(
            PlayerConfig(search="rave", playouts="mogo", rave_bias=config.bias, simulations=count)
        )

    searches = {"UCT": uct, "MC-RAVE": rave}
    points = []
    for fewer, more in itertools.pairwise(config.ladder):
        for series, player in searches.items():
            anchor = more in config.anchors
            points.append(Point(series, more, f"{more:,}", player(more), player(fewer), anchor))
    first = config.ladder[0]
    size, axis = f"{config.size}x{config.size}", "simulations a move"
    if not config.round_robin:
        title = f"{size}, above the same search with {first:,} simulations"
        return Sweep(
            "scaling", tuple(points), title=title, x_label=axis, x_scale="log", chained=True
        )
    ladder = [
        Rung(series, count, player(count))
        for count in config.ladder
        for series, player in searches.items()
    ]
    return Sweep(
        "scaling",
        (*points, *_other_pairs(ladder, config)),
        title=f"{size}, above UCT with {first:,} simulations",
        x_label=axis,
        x_scale="log",
        ladder=tuple(ladder),
    )


def _other_pairs(ladder: list[Rung], config: ScalingConfig) -> Iterator[Point]:
    """The matches of the tournament that are not in the chains; the later player is measured."""
    step: dict[float, int] = {count: i for i, count in enumerate(config.ladder)}
    for fewer, more in itertools.combinations(ladder, 2):
        apart = step[more.x] - step[fewer.x]
        in_chain = apart == 1 and more.series == fewer.series
        if apart <= config.round_robin and not in_chain:
            label = f"{more.x:,} against {fewer.series} {fewer.x:,}"
            yield Point(more.series, more.x, label, more.player, fewer.player)


if __name__ == "__main__":
    sys.exit(run.main(ScalingConfig, sweep, "scaling"))
