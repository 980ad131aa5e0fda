"""The picture of a list of matches."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Sequence

from experiments.matches.results import Row


def check() -> None:
    """Say before anything is played what the picture will want.

    Raises:
      SystemExit: without matplotlib.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("the plot wants matplotlib: pip install -e '.[plots]'")


def draw(rows: Sequence[Row], out: pathlib.Path) -> None:
    """An SVG: a bar a match with its 95% interval, over what it must show, if that was set."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gozero"
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 0.6 * len(rows) + 1.2), layout="constrained")
    places = range(len(rows))
    for place, row in zip(places, rows, strict=True):
        if row.must_low is not None and row.must_high is not None:
            left, width = 100 * row.must_low, 100 * (row.must_high - row.must_low)
            axis.barh(place, width, left=left, height=0.8, color="#e6ede8", zorder=0)
        if row.aim is not None:
            axis.plot([100 * row.aim] * 2, [place - 0.4, place + 0.4], color="#64707c", ls=":")
    scores = [100 * row.score for row in rows]
    below = [100 * (row.score - row.low) for row in rows]
    above = [100 * (row.high - row.score) for row in rows]
    axis.errorbar(scores, places, xerr=[below, above], fmt="o", color="#2e8b57", capsize=3)
    axis.set_yticks(list(places), [f"{row.match} ({row.games_text})" for row in rows])
    axis.set(xlim=(0, 100), xlabel="score, % (shaded: must; dotted: aim)")
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, metadata={"Date": None})
    pyplot.close(figure)
