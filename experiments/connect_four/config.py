"""Settings of the Connect Four experiment. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.command import ExperimentConfig
from gozero.runs import settings
from gozero.runs.settings import check, setting

PRESET = "connect4"
POSITIONS = pathlib.Path(__file__).parent / "positions.json"
"""Positions of 12 stones or more where some move spoils the best result, with the result of each
move, by `tests.reference.connect_four_solver`."""
WEIGHTS = pathlib.Path(__file__).parent / "results" / "weights.safetensors"
"""The recorded network."""


@dataclasses.dataclass(frozen=True)
class ConnectFourConfig(ExperimentConfig):
    """Connect Four from zero: learn for some minutes, then measure how the network plays.

    The same command resumes learning, and measures what has not been measured yet; if the run's own
    network has learnt since, everything.
    """

    QUICK: ClassVar = {
        "weights": WEIGHTS,
        "games": 20,
        "positions": 20,
        "batch": 20,
        "out": pathlib.Path("runs/connect_four_quick"),
    }

    minutes: float = setting(0.0, least=0, unit="minutes")
    """How long to learn in this session; 0 only measures."""

    weights: pathlib.Path | None = setting(None, unset="the run's own, OUT/run/weights.safetensors")
    """The network to measure."""

    simulations: int = setting(200, least=1)
    """Simulations per move of the network's search."""

    playouts: int = setting(1000, least=1)
    """Simulations per move of the opponent's search, plain MCTS."""

    games: int = setting(200, least=1)
    """Games against it; the network plays first in all of them."""

    positions: int = setting(200, least=1, most=200)
    """Solved positions to test."""

    batch: int = setting(50, least=1)
    """Games or positions searched at once."""

    seed: int = settings.seed_setting()
    """The seed of the opponent's playouts."""

    out: pathlib.Path = setting(pathlib.Path("runs/connect_four"))
    """The folder of the run and results.json."""

    EXAMPLES = (
        "python -m experiments.connect_four.run --minutes 60",
        "python -m experiments.connect_four.run --weights NET.safetensors --games 20 --out DIR",
    )

    def __post_init__(self):
        check(self)

    @property
    def estimate(self) -> float:
        return self.minutes + 1 + (self.games + self.positions) / 100

    @property
    def run(self) -> pathlib.Path:
        """The run folder of `python -m train`."""
        return self.out / "run"

    @property
    def network(self) -> pathlib.Path:
        return self.weights or self.run / "weights.safetensors"
