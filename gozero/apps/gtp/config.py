"""The flags of ``gozero gtp``. Imports no JAX."""

from __future__ import annotations

import dataclasses

from gozero.apps.named import NamedPlayerConfig
from gozero.go.coords import MAX_KOMI, MAX_SIZE, MIN_SIZE, KoRule
from gozero.play.player_config import board_size
from gozero.runs import settings
from gozero.runs.settings import setting

MAX_SECONDS = 86_400
"""A day: the most for one move."""


@dataclasses.dataclass(frozen=True)
class GtpConfig(NamedPlayerConfig):
    """Play Go over GTP, on standard input and output.

    Without flags that say how it thinks, it is the player `strong`; `gozero players` lists all.
    """

    size: int | None = setting(
        None,
        group="game",
        least=MIN_SIZE,
        most=MAX_SIZE,
        unset="that of --weights or --shapes, else 9",
    )
    """Points on a side of the board at the start; boardsize changes it."""

    komi: float = setting(7.0, least=-MAX_KOMI, most=MAX_KOMI, step=0.5, unit="points")
    """Points for White at the start; komi changes it."""

    ko: KoRule = setting("positional")
    """Which repeated boards are illegal: that of two moves ago, any earlier one, or any earlier one
    with the same player to move."""

    suicide: bool = setting(False)
    """Whether a play may remove its own chain; never a single stone."""

    seconds: float | None = setting(
        None,
        group="session",
        above=0,
        most=MAX_SECONDS,
        unit="seconds",
        unset="as many as the simulations take",
    )
    """Seconds of each move, at most; time_settings and time_left may give less."""

    reuse: bool = setting(True)
    """Whether a search goes on from what the last one found, if the game went on from there; td,
    whether it keeps what it has learnt in the game. Off with --search gumbel."""

    seed: int = settings.seed_setting()
    """The seed of all that is random: the same seed and the same session give the same moves."""

    selftest: bool = setting(False)
    """Play one move, say in a line what and how soon or what is wrong, and end."""

    EXAMPLES = (
        "gozero gtp --player strong --size 9",
        "gozero gtp --search rave --simulations 3000 --size 9",
        "gozero gtp --evaluator network --weights NET.safetensors --search gumbel --seconds 5",
    )

    def __post_init__(self):
        if self.search == "gumbel":  # each of its searches begins anew
            object.__setattr__(self, "reuse", False)
        self.check()
        size = board_size(self.size, self.weights, self.shapes)
        object.__setattr__(self, "size", size)
        self.check_size(size)
