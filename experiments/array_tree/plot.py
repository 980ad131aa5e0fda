"""Bar charts of time and memory, on logarithmic axes."""

from __future__ import annotations

import pathlib

from experiments.output import picture, read_csv


def draw(results: pathlib.Path, out: pathlib.Path) -> None:
    """Draws an SVG of results.csv."""
    with picture(out, 2, figsize=(9, 3.2), sharey=True) as (_, axes):
        _bars(read_csv(results), axes)


def _bars(rows: list[dict[str, str]], axes) -> None:
    names = [f"{row['tree']}, {row['leaves']}" for row in rows]
    simulations = int(rows[0]["simulations"])
    titles = (f"seconds of {simulations:,} simulations", "memory, MB")
    for axis, field, title in zip(axes, ("seconds", "mb"), titles, strict=True):
        values = [float(row[field]) for row in rows]
        bars = axis.barh(names, values, color=[_COLOURS[row["tree"]] for row in rows])
        axis.bar_label(bars, [f"{value:.3g}" for value in values], padding=3)
        axis.set(xscale="log", title=title)
        axis.margins(x=0.15)
    axes[0].invert_yaxis()
    axes[0].set_ylabel("tree, leaves a step")


_COLOURS = {"objects": "#b5651d", "numpy": "#4c72b0", "ours": "#2e8b57"}
