"""Settings of the 3x3 experiment. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar, Literal

from experiments.command import ExperimentConfig
from gozero.runs.settings import check, setting

Control = Literal["none", "shuffled values", "zero learning rate", "flipped backup"]
CONTROLS: tuple[Control, ...] = (
    "none",
    "shuffled values",
    "zero learning rate",
    "flipped backup",
)


@dataclasses.dataclass(frozen=True)
class Solved3x3Config(ExperimentConfig):
    """Learn 3x3, which is solved, by self-play; then again with one part broken at a time."""

    QUICK: ClassVar = {"only": ("none",), "seeds": 1}

    only: tuple[Control, ...] = setting(CONTROLS)
    """Which runs to do: unchanged (none), or with one part broken."""

    iterations: int | None = setting(None, least=1, unset="the preset's")
    """Iterations of each run."""

    seeds: int = setting(3, least=1)
    """The number of runs of each, with seeds 0, 1, ..."""

    out: pathlib.Path = setting(pathlib.Path("runs/solved_3x3"))
    """The folder of results.csv, curves.csv, the plot and the record of the run."""

    EXAMPLES = (
        "python -m experiments.solved_3x3.run",
        "python -m experiments.solved_3x3.run --only none --seeds 1",
    )

    def __post_init__(self):
        check(self)

    @property
    def estimate(self) -> float:
        return 0.5 + 0.5 * len(self.only) * self.seeds


@dataclasses.dataclass(frozen=True)
class Point:
    """The network's outputs for the empty board after an iteration."""

    control: str
    seed: int
    iteration: int
    seconds: float
    """Time of self-play and learning so far, without compilation."""
    games: int
    steps: int
    centre: float
    """The prior of the centre, at komi 8.5."""
    value_won: float
    """The value at komi 8.5."""
    value_lost: float
    """The value at komi 9.5."""

    @property
    def holds(self) -> bool:
        """Whether the outputs agree with the solved result."""
        return self.centre > 0.9 and self.value_won > 0.95 and self.value_lost < -0.9
