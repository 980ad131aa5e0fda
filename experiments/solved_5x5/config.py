"""Settings of the 5x5 experiment. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib

from gozero.go.coords import MAX_KOMI
from gozero.runs.settings import check, seed_setting, setting


@dataclasses.dataclass(frozen=True)
class Solved5x5Config:
    """Play 5x5 as Black, which has to own all of the board, with a network that learnt it by
    self-play, against MC-RAVE with MoGo's playouts."""

    weights: pathlib.Path = setting(
        pathlib.Path(__file__).parent / "results" / "5x5.safetensors",
        "The network.",
        unset="the one that lies here",
    )

    games: int = setting(200, "Games to play.", least=1)

    komi: float = setting(
        24.5, "Points for White.", least=-MAX_KOMI, most=MAX_KOMI, step=0.5, unit="points"
    )

    replies: int = setting(
        2, "How many of White's first moves are drawn at random.", least=0, most=6
    )

    simulations: int = setting(64, "Simulations of each of Black's moves.", least=1)

    opponent_simulations: int = setting(
        1600,
        "Simulations of each of White's moves, whose search evaluates 8 leaves together.",
        least=8,
    )

    parallel: int = setting(100, "Games at once.", least=1, unit="games")

    seed: int = seed_setting("The seed of the replies and the searches.")

    out: pathlib.Path = setting(
        pathlib.Path("runs/solved_5x5"), "The folder of results.csv and the record of the run."
    )

    EXAMPLES = (
        "python -m experiments.solved_5x5.run",
        "python -m experiments.solved_5x5.run --games 20 --out runs/quick",
    )

    def __post_init__(self):
        check(self)
