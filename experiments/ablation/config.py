"""Settings of the ablation. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.command import ExperimentConfig
from experiments.sweeps.config import SWEEP_FOLDER, SweepConfig
from gozero.runs.settings import check, seed_setting, setting


@dataclasses.dataclass(frozen=True)
class AblationConfig(SweepConfig):
    """What each part of the search costs or gains in strength at equal simulations: leaves per
    step, virtual loss, subtree reuse, shared evaluations; each against the search without it."""

    QUICK: ClassVar = {
        **SweepConfig.QUICK,
        "simulations": 64,
        "leaves": (8,),
        "virtual_losses": (),
        "anchors": (),
    }

    simulations: int = setting(1024)
    """Simulations of every move, on both sides; a multiple of all --leaves, or it is rounded up."""

    leaves: tuple[int, ...] = setting((1, 4, 8, 16, 32, 64))
    """Leaves per step, each against 1 leaf; 1 is the player against itself."""

    virtual_losses: tuple[int, ...] = setting((1, 10))
    """Virtual losses to try with 16 leaves per step; elsewhere it is 3."""

    anchors: tuple[int, ...] = setting((1, 16, 64))
    """Which of --leaves also play against --anchor-command, beside subtree reuse."""

    bias: float = setting(0.01)
    """The bias of the minimum-MSE schedule."""

    out: pathlib.Path = setting(pathlib.Path("runs/ablation"), SWEEP_FOLDER)

    EXAMPLES = (
        "python -m experiments.ablation.run",
        "python -m experiments.ablation.run --games 20 --leaves 8 16",
    )


@dataclasses.dataclass(frozen=True)
class SpeedConfig(ExperimentConfig):
    """What each part of the search costs or gains in speed and memory. Plays no games: the network
    has random weights, since only its time is measured."""

    QUICK: ClassVar = {"simulations": 64, "leaves": (8,), "trees": (8,), "repeats": 1}

    simulations: int = setting(1024, least=1)
    """Simulations of a search, divisible by all of --leaves."""

    leaves: tuple[int, ...] = setting((1, 8, 64), least=1)
    """Leaves per step."""

    trees: tuple[int, ...] = setting((1, 64), least=1)
    """Boards searched at once."""

    size: int = setting(9)
    """Points on a side of the board."""

    repeats: int = setting(3, least=1)
    """Timed searches; the median is reported."""

    seed: int = seed_setting()
    """The seed of the searches and the network's weights."""

    out: pathlib.Path = setting(pathlib.Path("runs/ablation_speed"))
    """A new folder for speed.csv and the record of the run."""

    EXAMPLES = (
        "python -m experiments.ablation.speed",
        "python -m experiments.ablation.speed --trees 64 --repeats 1",
    )

    @property
    def estimate(self) -> float:
        return 0.35 * len(self.leaves) * len(self.trees)

    def __post_init__(self):
        check(self)
        for leaves in self.leaves:
            if self.simulations % leaves:
                raise ValueError(
                    f"--simulations {self.simulations}: not divisible by {leaves} leaves"
                )
