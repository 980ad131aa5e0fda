"""Flags of commands that search as a named player, or as other flags say. Imports no JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from gozero.play import players
from gozero.play.player_config import FILES, PlayerConfig, board_size, is_of_katago
from gozero.play.players import PlayerName
from gozero.runs.settings import setting

_REFINING = {"simulations", "leaves", "resign"}
"""Flags that adjust a player without making it a different one."""


@dataclasses.dataclass(frozen=True)
class NamedPlayerConfig(PlayerConfig):
    """A named player, with its settings for each board size; other flags override them one by one.

    If no flag defines the player, it is `strong`.
    """

    player: PlayerName | None = setting(
        None,
        group="player",
        unset=f"{players.DEFAULT}, or none if a flag of evaluation, search or heuristic other than "
        "--simulations, --leaves and --resign is given",
    )
    """The player whose settings for the board size are used; every other flag overrides one."""

    @classmethod
    def of_flags(cls, given: Mapping[str, Any]) -> Self:
        """Build the settings from the flags given; the player supplies those that they leave out.

        Raises:
          ValueError: as for the class.
        """
        return cls._on_board(given, None)

    @classmethod
    def _size_of(cls, given: Mapping[str, Any]) -> int:
        """The board size that the flags are for."""
        return board_size(given.get("size"), given.get("weights"), given.get("shapes"))

    @classmethod
    def _settings_of(cls, name: PlayerName, size: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """The player's settings, before the flags given override them."""
        return players.settings_of(name, size)

    @classmethod
    def _on_board(cls, given: Mapping[str, Any], size: int | None) -> Self:
        """Build the settings from the flags, for a board size; None: the size that they are for."""
        own = {field.name for field in dataclasses.fields(PlayerConfig)} - _REFINING
        name = given.get("player") or (None if own & given.keys() else players.DEFAULT)
        values = dict(given)
        if name is not None:
            size = size or cls._size_of(given)
            values = {**cls._settings_of(name, size, given), **given, "player": name}
            if any(field.name == "size" for field in dataclasses.fields(cls)):
                values["size"] = size
        if is_of_katago(given.get("weights")):  # only a network can have such weights
            values.setdefault("evaluator", "network")
        made = cls(**values)
        object.__setattr__(made, "_given", dict(given))
        object.__setattr__(made, "_board", size)
        return made

    def on(self, size: int) -> Self:
        """The same settings on another board size, with the player's values for that size.

        Raises:
          ValueError: flags that do not go with those values, or with the size.
        """
        given, board = self.given, self.__dict__.get("_board")
        if self.player is None or given is None or size == board or self.own_files:
            return self
        more = {"size": size} if hasattr(self, "size") else {}
        return self._on_board({**given, "player": self.player, **more}, size)

    @property
    def given(self) -> Mapping[str, Any] | None:
        """The flags that were given, without the player's settings; None if not built by flags."""
        return self.__dict__.get("_given")

    @property
    def own_files(self) -> list[str]:
        """The names of the file flags that were given, rather than supplied by a player."""
        known = {name: getattr(self, name) for name in FILES} if self.given is None else self.given
        return [name for name in FILES if known.get(name) is not None]


class AnalystConfig(NamedPlayerConfig):
    """Settings of commands that report a search: a tree read by its visits, and no move played."""

    @classmethod
    def _settings_of(cls, name: PlayerName, size: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """The player's settings, but with the command's own number of simulations."""
        found = dict(super()._settings_of(name, size, given))
        found.pop("simulations", None)
        return found

    def check(self, prefix: str = "") -> None:
        """Check as `PlayerConfig.check` does, and refuse `resign`.

        Raises:
          ValueError: as `PlayerConfig.check` does, or if `resign` is set.
        """
        super().check(prefix)
        if self.resign is not None:
            raise ValueError(f"--{prefix}resign {self.resign}: no move is played here")
