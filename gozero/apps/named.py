"""Flags of commands that search as a named player does, or as their other flags say. No JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from gozero.play import players
from gozero.play.player_config import FILES, PlayerConfig, board_size, is_of_katago
from gozero.play.players import PlayerName
from gozero.runs.settings import setting

_REFINING = {"simulations", "leaves", "resign"}
"""Flags of a player that leave it what it is."""


@dataclasses.dataclass(frozen=True)
class NamedPlayerConfig(PlayerConfig):
    """A search player by name, on each board size; every other flag changes one of its settings.

    Without flags that say how it thinks, it is the player `strong`.
    """

    player: PlayerName | None = setting(
        None,
        group="player",
        unset=f"{players.DEFAULT}; none, if a flag of evaluation, search or heuristic is given but "
        "--simulations, --leaves and --resign",
    )
    """Where its settings come from, on each board size; every other flag changes one of them."""

    @classmethod
    def of_flags(cls, given: Mapping[str, Any]) -> Self:
        """Of the flags that were given: what a player says, and they do not, is the player's.

        Raises:
          ValueError: as the class.
        """
        return cls._on_board(given, None)

    @classmethod
    def _size_of(cls, given: Mapping[str, Any]) -> int:
        """The board that the flags are for."""
        return board_size(given.get("size"), given.get("weights"), given.get("shapes"))

    @classmethod
    def _settings_of(cls, name: PlayerName, size: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """A player's, where the flags say nothing else."""
        return players.settings_of(name, size)

    @classmethod
    def _on_board(cls, given: Mapping[str, Any], size: int | None) -> Self:
        """Of the flags for a board; None: the one that they are for."""
        own = {field.name for field in dataclasses.fields(PlayerConfig)} - _REFINING
        name = given.get("player") or (None if own & given.keys() else players.DEFAULT)
        values = dict(given)
        if name is not None:
            size = size or cls._size_of(given)
            values = {**cls._settings_of(name, size, given), **given, "player": name}
            if any(field.name == "size" for field in dataclasses.fields(cls)):
                values["size"] = size
        if is_of_katago(given.get("weights")):  # which nothing but a network can have
            values.setdefault("evaluator", "network")
        made = cls(**values)
        object.__setattr__(made, "_given", dict(given))
        object.__setattr__(made, "_board", size)
        return made

    def on(self, size: int) -> Self:
        """The same on another board, with the player's settings for that.

        Raises:
          ValueError: flags that do not go with those, or with the size.
        """
        given, board = self.given, self.__dict__.get("_board")
        if self.player is None or given is None or size == board or self.own_files:
            return self
        more = {"size": size} if hasattr(self, "size") else {}
        return self._on_board({**given, "player": self.player, **more}, size)

    @property
    def given(self) -> Mapping[str, Any] | None:
        """The flags of a command line that a player's settings were added to."""
        return self.__dict__.get("_given")

    @property
    def own_files(self) -> list[str]:
        """Flags with files that were given, and do not come of a player."""
        known = {name: getattr(self, name) for name in FILES} if self.given is None else self.given
        return [name for name in FILES if known.get(name) is not None]


def with_puct(found: dict[str, Any]) -> dict[str, Any]:
    """A player's settings with PUCT in place of a Gumbel root."""
    return found | ({"search": "puct"} if found.get("search") == "gumbel" else {})


class AnalystConfig(NamedPlayerConfig):
    """The same for commands that tell what a search finds: a tree by visits, and no move played."""

    @classmethod
    def _settings_of(cls, name: PlayerName, size: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """A player's, with the command's own number of simulations, and PUCT's tree: the visits of
        a Gumbel root only say what it would play."""
        found = dict(super()._settings_of(name, size, given))
        found.pop("simulations", None)
        return with_puct(found)

    def check(self, prefix: str = "") -> None:
        """As `PlayerConfig.check`; there is nothing to resign.

        Raises:
          ValueError: as that.
        """
        super().check(prefix)
        if self.resign is not None:
            raise ValueError(f"--{prefix}resign {self.resign}: no move is played here")
