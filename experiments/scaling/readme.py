"""Sentences of the README that are generated from the records; see `experiments.records`."""

from __future__ import annotations

import math
import pathlib

from experiments.sweeps import results


def per_doubling(path: pathlib.Path) -> str:
    """From 3,000 to 10,000 simulations: ``166 Elo a doubling for UCT and 133 for MC-RAVE``."""
    uct, rave = (
        row.elo / math.log2(10_000 / 3_000)
        for series in ("UCT", "MC-RAVE")
        for row in results.read(path)
        if (row.series, row.x, row.anchor) == (series, 10_000, False)
    )
    return f"{uct:.0f} Elo a doubling for UCT and {rave:.0f} for MC-RAVE"
