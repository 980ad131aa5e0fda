"""Settings of the array-tree experiment."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Literal

from gozero.runs.settings import check, seed_setting, setting

Kind = Literal["objects", "numpy", "ours"]
KINDS: tuple[Kind, ...] = ("objects", "numpy", "ours")


@dataclasses.dataclass(frozen=True)
class ArrayTreeConfig:
    """One tree as Python objects, as NumPy arrays, and as ours: time, memory, simulations."""

    simulations: int = setting(10_000, "Simulations of the search that is timed.", least=1)
    actions: int = setting(362, "Actions of every position.", least=1)
    seconds: float = setting(
        30.0,
        "How long each tree may grow for the count of simulations; 0 leaves that out.",
        least=0,
        unit="seconds",
    )
    leaves: tuple[int, ...] = setting(
        (1, 8, 16), "Leaves a step, with a virtual loss of 3.", least=1
    )
    repeats: int = setting(3, "Timed searches; the median counts.", least=1)
    seed: int = seed_setting("The seed of the priors and values.")
    out: pathlib.Path = setting(
        pathlib.Path("runs/array_tree"),
        "The folder of results.csv, the plot and the record of the run.",
    )
    only: Kind | None = setting(
        None,
        "Measure this kind in this process, and print its rows as JSON; the command does so "
        "itself.",
        unset="all of them, each in a process of its own",
    )

    EXAMPLES = (
        "python -m experiments.array_tree.run",
        "python -m experiments.array_tree.run --simulations 1000 --seconds 0",
    )

    def __post_init__(self):
        check(self)
