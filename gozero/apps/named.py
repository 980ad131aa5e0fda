"""Flags of commands that search as a named player or by other flags. Imports no JAX."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Self

from gozero.go.coords import MAX_KOMI, MAX_SIZE, MIN_SIZE, KoRule
from gozero.play import players
from gozero.play.player_config import FILES, PlayerConfig, board_size
from gozero.play.players import PlayerName
from gozero.runs.settings import OfFlags, flag_of, setting

_REFINING = {
    *("simulations", "leaves", "trees", "nodes", "exploration", "final_move", "resign"),
    *("symmetries", "dtype", "score_utility"),  # of a network
}
"""Flags that adjust a player without making it a different one."""


@contextlib.contextmanager
def naming(player: PlayerName | None, own: Mapping[str, Any], prefix: str = "") -> Iterator[None]:
    """Let a ValueError tell which of the flags that it mentions come from the named player.

    Args:
      player: the player.
      own: its settings, without those that a flag overrides.
      prefix: the prefix of each flag: "player.".
    """
    try:
        yield
    except ValueError as error:
        mentioned = [
            f"{flag_of(name, prefix)} {value}".removesuffix(" True")
            for name, value in own.items()
            if re.search(rf"{re.escape(flag_of(name, prefix))}(?![\w-])", str(error))
        ]
        if not mentioned:
            raise
        by = f"{flag_of('player', prefix)} {player}"
        raise ValueError(f"{error}; {by} sets {', '.join(mentioned)}") from error


@dataclasses.dataclass(frozen=True)
class NamedPlayerConfig(OfFlags, PlayerConfig):
    """A named player, with its settings for each board size; other flags override them one by one.

    If no flag defines the player, it is `strong`. The defaults of the other flags are those of a
    player by flags alone.
    """

    player: PlayerName | None = setting(
        None,
        group="player",
        unset=f"{players.DEFAULT}, or none if a flag of evaluation, search or heuristic is given "
        "other than " + ", ".join(sorted(flag_of(name) for name in _REFINING)),
    )
    """The player whose settings for the board size are used; every other flag overrides one."""

    @classmethod
    def of_flags(cls, flags: Mapping[str, Any]) -> Self:
        """Build the settings from explicit flags; the player supplies the others.

        Raises:
          ValueError: as for the class.
        """
        return cls._on_board(flags, None)

    @classmethod
    def _size_of(cls, flags: Mapping[str, Any]) -> int:
        """The board size of the flags."""
        return board_size(flags.get("size"), flags.get("weights"), flags.get("shapes"))

    @classmethod
    def _settings_of(cls, name: PlayerName, size: int, flags: Mapping[str, Any]) -> dict[str, Any]:
        """The player's settings, before explicit flags override them."""
        return players.settings_of(name, size)

    @classmethod
    def _on_board(cls, flags: Mapping[str, Any], size: int | None) -> Self:
        """Build the settings from explicit flags, for a board size; None: that of the flags."""
        defining = {field.name for field in dataclasses.fields(PlayerConfig)} - _REFINING
        name = flags.get("player") or (None if defining & flags.keys() else players.DEFAULT)
        values, of_player = dict(flags), {}
        if name is not None:
            size = size or cls._size_of(flags)
            of_player = cls._settings_of(name, size, flags)
            values = {**of_player, **flags, "player": name}
            if any(field.name == "size" for field in dataclasses.fields(cls)):
                values["size"] = size
        if name is None and flags.get("weights") is not None:  # only a network has weights
            values.setdefault("evaluator", "network")
        with naming(name, {k: v for k, v in of_player.items() if k not in flags}):
            config = cls(**values)
        object.__setattr__(config, "_board", size)
        return config._remember(flags)

    def on(self, size: int) -> Self:
        """The same settings on another board size, with the player's values for that size.

        Raises:
          ValueError: flags that conflict with those values, or with the size.
        """
        flags, board = self.explicit_flags, self.__dict__.get("_board")
        if self.player is None or flags is None or size == board or self.own_files:
            return self
        size_flag = {"size": size} if hasattr(self, "size") else {}
        return self._on_board({**flags, "player": self.player, **size_flag}, size)

    @property
    def own_files(self) -> list[str]:
        """The names of the file flags that are explicit, not supplied by a player."""
        files = (
            {name: getattr(self, name) for name in FILES}
            if self.explicit_flags is None
            else self.explicit_flags
        )
        return [name for name in FILES if files.get(name) is not None]


@dataclasses.dataclass(frozen=True)
class GameConfig(NamedPlayerConfig):
    """Settings of commands in which the player plays Go."""

    size: int | None = setting(
        None,
        group="game",
        least=MIN_SIZE,
        most=MAX_SIZE,
        unset="the size of --weights or --shapes, else 9",
    )
    """Points on a side of the board at the start."""

    komi: float = setting(7.0, least=-MAX_KOMI, most=MAX_KOMI, step=0.5, unit="points")
    """Points for White at the start."""

    ko: KoRule = setting("positional")
    """Which repeated boards are illegal: that of two moves ago, any earlier one, or any earlier one
    with the same player to move."""

    suicide: bool = setting(False)
    """Whether suicide of several stones is legal; that of a single stone never is."""

    def __post_init__(self):
        self.check()
        size = board_size(self.size, self.weights, self.shapes)
        object.__setattr__(self, "size", size)
        self.check_size(size)


class AnalystConfig(NamedPlayerConfig):
    """Settings of commands that report a search: a tree read by its visits, and no move played."""

    @classmethod
    def _settings_of(cls, name: PlayerName, size: int, flags: Mapping[str, Any]) -> dict[str, Any]:
        """The player's settings, but with the command's own number of simulations."""
        settings = dict(super()._settings_of(name, size, flags))
        settings.pop("simulations", None)
        return settings

    def check(self, prefix: str = "") -> None:
        """Check as `PlayerConfig.check` does, and refuse `resign`.

        Raises:
          ValueError: as `PlayerConfig.check` does, or if `resign` is set.
        """
        super().check(prefix)
        if self.resign is not None:
            raise ValueError(
                f"--{prefix}resign {self.resign}: this command plays no moves; omit it"
            )
