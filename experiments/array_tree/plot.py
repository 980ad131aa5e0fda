"""Bars of time and memory, on logarithmic axes."""

from __future__ import annotations

import csv
import importlib.util
import pathlib


def check() -> None:
    """Say before anything is measured what the picture will want.

    Raises:
      SystemExit: without matplotlib.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("the plot wants matplotlib: pip install -e '.[plots]'")


def draw(results: pathlib.Path, out: pathlib.Path) -> None:
    """An SVG of results.csv."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gozero"
    from matplotlib import pyplot

    with results.open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = [f"{row['tree']}, {row['leaves']}" for row in rows]
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
    simulations = int(rows[0]["simulations"])
    titles = (f"seconds of {simulations:,} simulations", "memory, MB")
    for axis, field, title in zip(axes, ("seconds", "mb"), titles, strict=True):
        values = [float(row[field]) for row in rows]
        bars = axis.barh(names, values, color=[_COLOURS[row["tree"]] for row in rows])
        axis.bar_label(bars, [f"{value:.3g}" for value in values], padding=3)
        axis.set(xscale="log", title=title)
        axis.margins(x=0.15)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].invert_yaxis()
    axes[0].set_ylabel("tree, leaves a step")
    figure.savefig(out, metadata={"Date": None})
    pyplot.close(figure)


_COLOURS = {"objects": "#b5651d", "numpy": "#4c72b0", "ours": "#2e8b57"}
