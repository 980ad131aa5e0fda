"""The flags of ``gozero gtp``. Imports no JAX."""

from __future__ import annotations

import dataclasses
from typing import Literal

from gozero.apps.flags import check_seed
from gozero.go.coords import KO_RULES, KOMI_EXPECTED, MAX_SIZE, MIN_SIZE, is_komi
from gozero.play.player_config import PlayerConfig

MAX_SECONDS = 86_400
"""A day: the most for one move."""


@dataclasses.dataclass(frozen=True)
class GtpConfig(PlayerConfig):
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

    seconds: float | None = None
    """Seconds of each move, at most; time_settings and time_left may give less."""

    reuse: bool = True
    """Whether a search goes on from what the last one found, if the game went on from there;
    td, whether it keeps what it has learnt in the game. Off with --search gumbel."""

    seed: int = 0
    """Of all that is random: the same seed and the same session give the same moves."""

    def __post_init__(self):
        if self.search == "gumbel":  # each of its searches begins anew
            object.__setattr__(self, "reuse", False)
        if not MIN_SIZE <= self.size <= MAX_SIZE:
            raise ValueError(f"size: {self.size} is not a board size from {MIN_SIZE} to {MAX_SIZE}")
        if not is_komi(self.komi):
            raise ValueError(f"komi: {self.komi} is not {KOMI_EXPECTED}")
        if self.ko not in KO_RULES:
            raise ValueError(f"ko: {self.ko!r} is not a ko rule; use one of {', '.join(KO_RULES)}")
        self.check()
        self.check_size(self.size)
        if self.seconds is not None and not 0 < self.seconds <= MAX_SECONDS:
            raise ValueError(f"seconds: {self.seconds} is not above 0, or more than {MAX_SECONDS}")
        check_seed(self.seed)
