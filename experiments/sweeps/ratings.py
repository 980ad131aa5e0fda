"""Ratings of a tournament: all players of a ladder, from all matches between them together."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Sequence

from experiments.output import markdown, picture, write_csv
from experiments.sweeps.points import Sweep
from experiments.sweeps.results import Row, elo_text
from train.ratings import Result, rate


@dataclasses.dataclass(frozen=True)
class RatingRow:
    """The rating of a player."""

    series: str
    x: float | None
    """None: a program."""
    player: str
    games: float
    elo: float
    """Above the first player of the ladder."""
    low: float
    """The 95% interval, games counted as independent, is `low` to `high`."""
    high: float


def rated(sweep: Sweep, rows: Sequence[Row]) -> list[RatingRow]:
    """The players of the ladder that have played, and the programs; by maximum likelihood.

    Empty before the ladder's first player has played.
    """
    first = sweep.ladder[0].player.text
    results = [
        Result(row.player, row.opponent, row.score * row.games, row.games)
        for row in rows
        if row.player != row.opponent
    ]
    if not any(first in result[:2] for result in results):
        return []
    found = rate(results, first)
    members: list[tuple[str, float | None, str]] = [
        (rung.series, rung.x, rung.player.text) for rung in sweep.ladder
    ]
    programs = dict.fromkeys(row.opponent for row in rows if row.anchor)
    members += [("program", None, name) for name in programs]
    return [
        RatingRow(series, x, name, found[name].games, *found[name][:3])
        for series, x, name in members
        if name in found
    ]


def table(ratings: Sequence[RatingRow]) -> str:
    """The ratings as a Markdown table."""
    lines = []
    for row in ratings:
        name = row.player if row.x is None else f"{row.series}, {row.x:,g}"
        lines.append([name, f"{row.games:g}", elo_text(row.elo, row.low, row.high)])
    return markdown(["", "games", "Elo [95%]"], lines)


def write(ratings: Sequence[RatingRow], path: pathlib.Path) -> None:
    """Writes the CSV atomically."""
    write_csv(RatingRow, ratings, path, digits=5)


def draw(sweep: Sweep, ratings: Sequence[RatingRow], out: pathlib.Path) -> None:
    """Draws an SVG: a curve of Elo per series, and a line per program."""
    with picture(out, figsize=(7, 4.4)) as (_, axis):
        for series in dict.fromkeys(rung.series for rung in sweep.ladder):
            curve = [row for row in ratings if row.series == series and row.x is not None]
            elo = [row.elo for row in curve]
            below = [row.elo - row.low for row in curve]
            above = [row.high - row.elo for row in curve]
            x = [row.x for row in curve]
            axis.errorbar(x, elo, [below, above], marker="o", capsize=3, label=series)
        for row in ratings:
            if row.x is None and math.isfinite(row.elo):
                axis.axhline(row.elo, color="#64707c", linestyle="--", label=row.player)
        axis.set(title=sweep.title, xlabel=sweep.x_label, ylabel="Elo above the first player")
        axis.set_xscale(sweep.x_scale)
        ticks = sorted({row.x for row in ratings if row.x is not None})
        axis.set_xticks(ticks, [f"{x:,g}" for x in ticks])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize="small")
