"""The figure of a sweep."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence

from experiments.output import picture
from experiments.sweeps.points import Sweep
from experiments.sweeps.results import Row, chained

_COLOURS = ("#2e8b57", "#4c72b0", "#b5651d", "#8172b3", "#c44e52", "#64707c")


def draw(sweep: Sweep, rows: Sequence[Row], out: pathlib.Path) -> None:
    """Draws an SVG: a curve per series, or unconnected points if the x axis has names, with 95%
    intervals. Results against programs are hollow, dashed and shifted a little to the right."""
    with picture(out, figsize=(7, 4.4)) as (figure, axis):
        _draw(sweep, rows, figure, axis)


def _draw(sweep: Sweep, rows: Sequence[Row], figure, axis) -> None:
    from matplotlib import transforms

    groups: dict[tuple[str, str], list[tuple[Row, tuple[float, float, float]]]] = {}
    for row, height in zip(rows, _heights(sweep, rows), strict=True):
        if all(map(math.isfinite, height)):
            name = f"{row.series}, against {row.opponent}" if row.anchor else row.series
            groups.setdefault((row.series, name), []).append((row, height))
    shift = transforms.ScaledTranslation(5 / 72, 0, figure.dpi_scale_trans)
    colours: dict[str, str] = {}
    for (series, name), members in groups.items():
        colour = colours.setdefault(series, _COLOURS[len(colours) % len(_COLOURS)])
        transform = axis.transData + shift if members[0][0].anchor else axis.transData
        _curve(axis, name, members, colour, transform, joined=sweep.x_scale != "names")
    unit = "Elo above the first opponent" if sweep.chained else "score, %"
    axis.set(title=sweep.title, xlabel=sweep.x_label, ylabel=unit)
    if sweep.x_scale == "names":
        names = {row.x: row.label for row in rows if row.x is not None}
        axis.set_xticks(list(names), list(names.values()), rotation=30, ha="right")
    elif sweep.x_scale == "log":
        axis.set_xscale("log")
        ticks = sorted({row.x for row in rows if row.x is not None})
        axis.set_xticks(ticks, [f"{x:,g}" for x in ticks])
        axis.minorticks_off()
    if not sweep.chained:
        axis.axhline(50, color="black", linewidth=0.5)
    axis.grid(alpha=0.3)
    if len(groups) > 1:
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")


def _heights(sweep: Sweep, rows: Sequence[Row]) -> list[tuple[float, float, float]]:
    """(y, low, high) of each row; the latter are the ends of its interval."""
    if sweep.chained:
        own_rows = [row for row in rows if not row.anchor]
        by_row = dict(zip(map(id, own_rows), chained(own_rows), strict=True))
        return [by_row.get(id(row), (math.nan, math.nan, math.nan)) for row in rows]
    return [(100 * row.score, 100 * row.low, 100 * row.high) for row in rows]


def _curve(axis, name, members, colour, transform, joined: bool) -> None:
    anchor = members[0][0].anchor
    dashes = "--" if anchor else "-"
    levels = [height for row, height in members if row.x is None]
    for middle, low, high in levels:
        axis.axhline(middle, color=colour, linestyle=dashes, label=name)
        axis.axhspan(low, high, color=colour, alpha=0.12, linewidth=0)
    on_curve = sorted((row.x, height) for row, height in members if row.x is not None)
    if on_curve:
        x, heights = zip(*on_curve, strict=True)
        middle, low, high = (list(side) for side in zip(*heights, strict=True))
        below = [a - b for a, b in zip(middle, low, strict=True)]
        above = [a - b for a, b in zip(high, middle, strict=True)]
        axis.update_datalim([*zip(x, low, strict=True), *zip(x, high, strict=True)])
        axis.errorbar(
            x,
            middle,
            [below, above],
            color=colour,
            linestyle=dashes if joined else "none",
            marker="o",
            markerfacecolor="white" if anchor else colour,
            elinewidth=0.8 if anchor else None,
            capsize=2 if anchor else 3,
            transform=transform,
            label=None if levels else name,
        )
