"""Plots the networks' outputs for the empty board by iteration."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from experiments.output import picture
from experiments.solved_3x3.config import Point

_PANELS = (
    ("centre", "prior of the centre, komi 8.5", 0.9),
    ("value_won", "value, komi 8.5", 0.95),
    ("value_lost", "value, komi 9.5", -0.9),
)
_COLOURS = {
    "none": "#2e8b57",
    "shuffled values": "#b5651d",
    "zero learning rate": "#64707c",
    "flipped backup": "#c44e52",
}


def draw(points: Sequence[Point], out: pathlib.Path) -> None:
    """Draws an SVG: a panel per quantity with the level it must reach, a curve per run."""
    with picture(out, 3, figsize=(10, 3.2)) as (figure, axes):
        _curves(points, axes)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)


def _curves(points: Sequence[Point], axes) -> None:
    runs = {(point.control, point.seed) for point in points}
    for axis, (name, title, line) in zip(axes, _PANELS, strict=True):
        for control, seed in sorted(runs):
            run = [p for p in points if (p.control, p.seed) == (control, seed)]
            x, y = [p.iteration for p in run], [getattr(p, name) for p in run]
            axis.plot(x, y, color=_COLOURS[control], label=None if seed else control)
        axis.axhline(line, color="black", linewidth=0.6, linestyle="--")
        axis.set(title=title, xlabel="iteration")
