"""The flags of ``gozero gtp``. Imports no JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from gozero.go.coords import MAX_KOMI, MAX_SIZE, MIN_SIZE, KoRule
from gozero.play import players
from gozero.play.player_config import FILES, PlayerConfig, board_size
from gozero.play.players import PlayerName
from gozero.runs import settings
from gozero.runs.settings import setting

MAX_SECONDS = 86_400
"""A day: the most for one move."""

_REFINING = {"simulations", "leaves", "resign"}
"""Flags of a player that leave it what it is."""


@dataclasses.dataclass(frozen=True)
class GtpConfig(PlayerConfig):
    """Play Go over GTP, on standard input and output.

    Without flags that say how it thinks, it is the player `strong`; `gozero players` lists all.
    """

    player: PlayerName | None = setting(
        None,
        group="player",
        unset=f"{players.DEFAULT}; none, if a flag of evaluation, search or heuristic is given but "
        "--simulations, --leaves and --resign",
    )
    """Where its settings come from, on each board size; every other flag changes one of them."""

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

    @classmethod
    def of_flags(cls, given: Mapping[str, Any]) -> Self:
        """Of the flags that were given: what a player says, and they do not, is the player's.

        Raises:
          ValueError: as the class.
        """
        own = {field.name for field in dataclasses.fields(PlayerConfig)} - _REFINING
        name = given.get("player") or (None if own & given.keys() else players.DEFAULT)
        values = dict(given)
        if name is not None:
            size = board_size(given.get("size"), given.get("weights"), given.get("shapes"))
            values = {**players.settings_of(name, size), **given, "player": name, "size": size}
        made = cls(**values)
        object.__setattr__(made, "_given", dict(given))
        return made

    def on(self, size: int) -> GtpConfig:
        """The same on another board, with the player's settings for that.

        Raises:
          ValueError: flags that do not go with those, or with the size.
        """
        given = self.given
        if self.player is None or given is None or size == self.size or self.own_files:
            return self
        return self.of_flags({**given, "player": self.player, "size": size})

    @property
    def given(self) -> Mapping[str, Any] | None:
        """The flags of a command line that a player's settings were added to."""
        return self.__dict__.get("_given")

    @property
    def own_files(self) -> list[str]:
        """Flags with files that were given, and do not come of a player."""
        known = {name: getattr(self, name) for name in FILES} if self.given is None else self.given
        return [name for name in FILES if known.get(name) is not None]

    def __post_init__(self):
        if self.search == "gumbel":  # each of its searches begins anew
            object.__setattr__(self, "reuse", False)
        self.check()
        size = board_size(self.size, self.weights, self.shapes)
        object.__setattr__(self, "size", size)
        self.check_size(size)
