"""The flags of ``gozero gtp``. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Literal

from gozero.apps.flags import check_seed
from gozero.go.coords import KO_RULES, KOMI_EXPECTED, MAX_SIZE, MIN_SIZE, is_komi

MAX_SIMULATIONS = 131_070
"""The most visits that the search's sums hold; here too, so that checking it starts no JAX."""

MAX_SECONDS = 86_400
"""A day: the most for one move."""


@dataclasses.dataclass(frozen=True)
class GtpConfig:
    """Play Go over GTP, on standard input and output."""

    size: int = 9
    """Board size at the start, 2 to 25; boardsize changes it."""

    komi: float = 7.0
    """Points for White at the start, a multiple of 0.5; komi changes it."""

    ko: Literal["simple", "positional", "situational"] = "positional"
    """Which repeated boards are illegal: that of two moves ago, any earlier one, or any earlier
    one with the same player to move."""

    suicide: bool = False
    """Whether a play may remove its own chain; never a single stone."""

    evaluator: Literal["network", "playout"] = "playout"
    """What judges a position: a network, or uniform playouts."""

    weights: pathlib.Path | None = None
    """The network's weights (.npz); without, random ones. They fix the board size."""

    simulations: int = 400
    """Simulations of each move; with a limit of time at most so many, and a tree has room for
    them."""

    seconds: float | None = None
    """Seconds of each move, at most; time_settings and time_left may give less."""

    resign: float | None = None
    """Resign when the position and its best move are worth less than this, from -1 (lost) to 0
    (even): -0.95, say. Without, never."""

    reuse: bool = True
    """Whether a search goes on from what the last one found, if the game went on from there."""

    seed: int = 0
    """Of all that is random: the same seed and the same session give the same moves."""

    def __post_init__(self):
        if not MIN_SIZE <= self.size <= MAX_SIZE:
            raise ValueError(f"size: {self.size} is not a board size from {MIN_SIZE} to {MAX_SIZE}")
        if not is_komi(self.komi):
            raise ValueError(f"komi: {self.komi} is not {KOMI_EXPECTED}")
        if self.ko not in KO_RULES:
            raise ValueError(f"ko: {self.ko!r} is not a ko rule; use one of {', '.join(KO_RULES)}")
        if self.evaluator not in ("network", "playout"):
            raise ValueError(f"evaluator: {self.evaluator!r} is not 'network' or 'playout'")
        if self.weights is not None and self.evaluator != "network":
            raise ValueError("weights: playouts take none; use --evaluator network")
        if not 1 <= self.simulations <= MAX_SIMULATIONS:
            raise ValueError(f"simulations: {self.simulations} is not from 1 to {MAX_SIMULATIONS}")
        if self.seconds is not None and not 0 < self.seconds <= MAX_SECONDS:
            raise ValueError(f"seconds: {self.seconds} is not above 0, or more than {MAX_SECONDS}")
        if self.resign is not None and not -1 <= self.resign < 0:
            raise ValueError(f"resign: {self.resign} is not a value from -1 to below 0, as -0.95")
        check_seed(self.seed)
