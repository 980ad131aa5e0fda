"""Settings of the Connect Four experiment. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib

from gozero.runs.settings import check, setting

PRESET = "connect4"
POSITIONS = pathlib.Path(__file__).parent / "positions.json"
"""Positions of 12 stones or more where some move gives away what there is, and what each move is
worth, by `tests.reference.connect_four_solver`."""


@dataclasses.dataclass(frozen=True)
class ConnectFourConfig:
    """Connect Four from zero: learn for some minutes, then measure what the network plays.

    The same command goes on with what was learnt, and measures what is not measured yet.
    """

    minutes: float = setting(
        0.0, "How long to learn in this session; 0 measures only.", least=0, unit="minutes"
    )
    weights: pathlib.Path | None = setting(
        None, "The network that is measured.", unset="the run's own, OUT/run/weights.safetensors"
    )
    simulations: int = setting(200, "Of the network's search, a move.", least=1)
    playouts: int = setting(1000, "Of the opponent's search, a move: plain MCTS.", least=1)
    games: int = setting(200, "Against it; the network begins in all of them.", least=1)
    positions: int = setting(200, "Positions whose results are known.", least=1, most=200)
    batch: int = setting(50, "Games, or positions, searched at once.", least=1)
    seed: int = setting(0, "Of the opponent's playouts.", least=0)
    out: pathlib.Path = setting(
        pathlib.Path("runs/connect_four"), "The folder of the run and results.json."
    )

    EXAMPLES = (
        "python -m experiments.connect_four.run --minutes 60",
        "python -m experiments.connect_four.run --weights NET.safetensors --games 20",
    )

    def __post_init__(self):
        check(self)

    @property
    def run(self) -> pathlib.Path:
        """Of `python -m train`."""
        return self.out / "run"

    @property
    def network(self) -> pathlib.Path:
        return self.weights or self.run / "weights.safetensors"
