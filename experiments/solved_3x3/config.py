"""Settings of the 3x3 experiment. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Literal

Control = Literal["none", "shuffled values", "zero learning rate", "flipped backup"]
CONTROLS: tuple[Control, ...] = (
    "none",
    "shuffled values",
    "zero learning rate",
    "flipped backup",
)


@dataclasses.dataclass(frozen=True)
class Solved3x3Config:
    """Learn 3x3, which is solved, by self-play; and again with one thing spoilt at a time."""

    only: tuple[Control, ...] = CONTROLS
    """Which of the runs: as it is (none), or with what spoilt."""

    iterations: int | None = None
    """Of each; without it the preset's."""

    seeds: int = 3
    """Runs of each, with seeds 0, 1, ..."""

    out: pathlib.Path = pathlib.Path("runs/solved_3x3")
    """Where results.csv, curves.csv, the plot and the record of the run go."""

    def __post_init__(self):
        for name in ("iterations", "seeds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: {value} is not at least 1")


@dataclasses.dataclass(frozen=True)
class Point:
    """What a network says of the empty board, after an iteration."""

    control: str
    seed: int
    iteration: int
    seconds: float
    """Of self-play and learning so far, compiling left out."""
    games: int
    steps: int
    centre: float
    """The prior of the centre, at komi 8.5."""
    value_won: float
    """The value at komi 8.5."""
    value_lost: float
    """... at komi 9.5."""

    @property
    def holds(self) -> bool:
        """Whether it knows what is known."""
        return self.centre > 0.9 and self.value_won > 0.95 and self.value_lost < -0.9
