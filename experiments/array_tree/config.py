"""Settings of the array-tree experiment."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Literal

from gozero.apps import flags

Kind = Literal["objects", "numpy", "ours"]
KINDS: tuple[Kind, ...] = ("objects", "numpy", "ours")


@dataclasses.dataclass(frozen=True)
class ArrayTreeConfig:
    """One tree as Python objects, as NumPy arrays, and as ours: time, memory, simulations."""

    simulations: int = 10_000
    """Of the search that is timed."""
    actions: int = 362
    """Of every position."""
    seconds: float = 30.0
    """How long each tree may grow for the count of simulations; 0 leaves that out."""
    leaves: tuple[int, ...] = (1, 8, 16)
    """Leaves a step, with a virtual loss of 3."""
    repeats: int = 3
    """Timed searches; the median counts."""
    seed: int = 0
    """Of the priors and values."""
    out: pathlib.Path = pathlib.Path("runs/array_tree")
    """Where results.csv, the plot and the record of the run go."""
    only: Kind | None = None
    """Measure this kind in this process, and print its rows as JSON; the command does so itself."""

    def __post_init__(self):
        flags.check_seed(self.seed)
        for name in ("simulations", "actions", "repeats"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not at least 1")
        if not self.leaves or min(self.leaves) < 1:
            raise ValueError(f"leaves: {self.leaves}; expected numbers of at least 1")
        if self.seconds < 0:
            raise ValueError(f"seconds: {self.seconds} is not at least 0")
