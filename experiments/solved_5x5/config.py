"""Settings of the 5x5 experiment. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib

from gozero.apps.flags import check_seed
from gozero.go.coords import KOMI_EXPECTED, is_komi


@dataclasses.dataclass(frozen=True)
class Solved5x5Config:
    """Play 5x5 as Black, who has to own all of the board, with a network that learnt it by
    self-play, against MC-RAVE with MoGo's playouts."""

    weights: pathlib.Path = pathlib.Path(__file__).parent / "results" / "5x5.safetensors"
    """The network; without it the one that lies here."""

    games: int = 200
    """Of Black's."""

    komi: float = 24.5
    """Points for White."""

    replies: int = 2
    """White's first so many moves are drawn at random."""

    simulations: int = 64
    """Of each of Black's moves."""

    opponent_simulations: int = 1600
    """Of each of White's, whose search evaluates 8 leaves together."""

    parallel: int = 100
    """Games at once."""

    seed: int = 0
    """Of the replies and the searches."""

    out: pathlib.Path = pathlib.Path("runs/solved_5x5")
    """Where results.csv and the record of the run go."""

    def __post_init__(self):
        check_seed(self.seed)
        leasts = {"games": 1, "simulations": 1, "opponent_simulations": 8, "parallel": 1}
        for name, least in leasts.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}: {getattr(self, name)} is not at least {least}")
        if not is_komi(self.komi):
            raise ValueError(f"komi: {self.komi} is not {KOMI_EXPECTED}")
        if not 0 <= self.replies <= 6:
            raise ValueError(f"replies: {self.replies} are not from 0 to 6")
