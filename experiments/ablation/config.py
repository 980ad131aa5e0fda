"""Settings of the ablation. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib

from experiments.sweeps.config import SweepConfig
from gozero.apps.flags import check_seed


@dataclasses.dataclass(frozen=True)
class AblationConfig(SweepConfig):
    """What each part of the search costs or gives in strength at equal simulations: leaves a step,
    their virtual loss, subtree reuse, shared evaluations; each against the search without it."""

    simulations: int = 1024
    """Of every move, of either side; of 1,000, 64 leaves would make 1,024."""

    leaves: tuple[int, ...] = (1, 4, 8, 16, 32, 64)
    """Leaves a step, against one; 1 is the player against himself."""

    virtual_losses: tuple[int, ...] = (1, 10)
    """Of 16 leaves a step; elsewhere it is 3."""

    anchors: tuple[int, ...] = (1, 16, 64)
    """Those of --leaves that also play against --anchor-command, beside subtree reuse."""

    bias: float = 0.01
    """Of the schedule of least mean squared error."""

    out: pathlib.Path = pathlib.Path("runs/ablation")
    """The folder of pieces.jsonl, results.csv, results.svg, config.json and manifest.json: a new
    one, or one to go on with."""


@dataclasses.dataclass(frozen=True)
class SpeedConfig:
    """What each part of the search costs or gives in speed and in memory. No games: the network
    has random weights, and is asked for its time alone."""

    simulations: int = 1024
    """Of a search, divisible by all of --leaves."""

    leaves: tuple[int, ...] = (1, 8, 64)
    """Leaves a step."""

    trees: tuple[int, ...] = (1, 64)
    """Boards searched at once."""

    size: int = 9
    """Points on a side of the board."""

    repeats: int = 3
    """Searches that are timed; the median counts."""

    seed: int = 0
    """Of the searches and the network's weights."""

    out: pathlib.Path = pathlib.Path("runs/ablation_speed")
    """Where speed.csv and the record of the run go, a new folder."""

    def __post_init__(self):
        check_seed(self.seed)
        for name in ("leaves", "trees"):
            if not getattr(self, name) or min(getattr(self, name)) < 1:
                raise ValueError(f"{name}: {getattr(self, name)}; expected numbers of at least 1")
        if self.repeats < 1:
            raise ValueError(f"repeats: {self.repeats} is not at least 1")
        for leaves in self.leaves:
            if self.simulations < 1 or self.simulations % leaves:
                raise ValueError(
                    f"simulations: {self.simulations} is not divisible by {leaves} leaves"
                )
