"""Settings of the 5x5 experiment. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.command import ExperimentConfig
from gozero.go.coords import MAX_KOMI
from gozero.runs.settings import check, seed_setting, setting


@dataclasses.dataclass(frozen=True)
class Solved5x5Config(ExperimentConfig):
    """A network that learnt 5x5 by self-play plays Black, which has to own the whole board, against
    MC-RAVE with MoGo's playouts."""

    QUICK: ClassVar = {"games": 20, "parallel": 20}

    weights: pathlib.Path = setting(
        pathlib.Path(__file__).parent / "results" / "5x5.safetensors",
        unset="5x5.safetensors in the folder results",
    )
    """The network."""

    games: int = setting(200, least=1)
    """Games to play."""

    komi: float = setting(24.5, least=-MAX_KOMI, most=MAX_KOMI, step=0.5, unit="points")
    """Points for White."""

    replies: int = setting(2, least=0, most=6)
    """The number of White's first moves that are random."""

    simulations: int = setting(64, least=1)
    """Simulations of each of Black's moves."""

    opponent_simulations: int = setting(1600, least=8)
    """Simulations of each of White's moves; its search evaluates 8 leaves per step."""

    parallel: int = setting(100, least=1, unit="games")
    """Games played at once."""

    seed: int = seed_setting()
    """The seed of the replies and the searches."""

    out: pathlib.Path = setting(pathlib.Path("runs/solved_5x5"))
    """The folder of results.csv and the record of the run."""

    EXAMPLES = (
        "python -m experiments.solved_5x5.run",
        "python -m experiments.solved_5x5.run --games 20 --out runs/quick",
    )

    def __post_init__(self):
        check(self)

    @property
    def estimate(self) -> float:
        return 1 + self.games / 50
