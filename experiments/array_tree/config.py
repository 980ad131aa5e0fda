"""Settings of the array-tree experiment."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar, Literal

from experiments.command import ExperimentConfig
from gozero.runs.settings import check, seed_setting, setting

Kind = Literal["objects", "numpy", "ours"]
KINDS: tuple[Kind, ...] = ("objects", "numpy", "ours")


@dataclasses.dataclass(frozen=True)
class ArrayTreeConfig(ExperimentConfig):
    """One search tree as Python objects, as NumPy arrays, and ours: time, memory, simulations."""

    QUICK: ClassVar = {"simulations": 1000, "seconds": 0.0, "repeats": 1}

    simulations: int = setting(10_000, least=1)
    """Simulations of the timed search."""

    actions: int = setting(362, least=1)
    """Actions of every position."""

    seconds: float = setting(30.0, least=0, unit="seconds")
    """How long each tree is searched to count simulations; 0 skips this part."""

    leaves: tuple[int, ...] = setting((1, 8, 16), least=1)
    """Leaves per step, with a virtual loss of 3."""

    repeats: int = setting(3, least=1)
    """Timed searches; the median is reported."""

    seed: int = seed_setting()
    """The seed of the priors and values."""

    out: pathlib.Path = setting(pathlib.Path("runs/array_tree"))
    """The folder of results.csv, the plot and the record of the run."""

    only: Kind | None = setting(None, unset="all of them, each in its own process")
    """Measure only this kind, in this process, and print its row as JSON; for internal use."""

    EXAMPLES = (
        "python -m experiments.array_tree.run",
        "python -m experiments.array_tree.run --simulations 1000 --seconds 0",
    )

    def __post_init__(self):
        check(self)

    @property
    def estimate(self) -> float | None:
        if self.only:
            return None  # the parent process has printed the estimate
        searched = self.seconds + 10 + self.repeats * self.simulations / 2000
        return len(KINDS) * len(self.leaves) * searched / 60
