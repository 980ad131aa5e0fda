"""Games by name, for commands, with the names of their actions: ``make_game("hex", 7)``."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # imports JAX; commands do that only after they have checked the name
    from gozero.search.game import Game

PLAYERS = ("the first player", "the second player")
"""The players' names in a game without Black and White."""


class NamedGame(NamedTuple):
    """A game that a command can play and record.

    Attributes:
      name, size: the arguments it was made with; the size is None if the game has only one.
      game: the game.
      action_names: the name of each action in a game record.
    """

    name: str
    size: int | None
    game: Game
    action_names: tuple[str, ...]

    def record(self, actions: list[int]) -> str:
        """The moves of a game as one line."""
        return " ".join(self.action_names[action] for action in actions)


def result_text(outcome: float) -> str:
    """The result as text. `outcome` is from the perspective of the player who began."""
    return "drawn" if outcome == 0 else f"{PLAYERS[outcome < 0]} won"


def make_game(name: str, size: int | None = None) -> Game:
    """The game of this name, imported on first use; the same object each time.

    Args:
      name: "go", "connect4", "hex", or "pgx:NAME" for a game from pgx.
      size: points on a side of the board; None: the usual one.

    Raises:
      ValueError: an unknown name, or a size that the game does not support.
    """
    return named_game(name, size).game


def named_game(name: str, size: int | None = None) -> NamedGame:
    """The game of this name, imported on first use; the same object each time.

    Args:
      name: one of `NAMES`, or "pgx:NAME" for a game from pgx, see `pgx.pgx_game`.
      size: the board size; None: the usual one.

    Raises:
      ValueError: an unknown name, or a size that the game does not support.
    """
    kind = check(name, size)
    return _named_game(name, _USUAL_SIZES.get(kind) if size is None else size)


def check(name: str, size: int | None = None) -> str:
    """Checks a name without importing the game; returns its kind (the part before the colon).

    Raises:
      ValueError: an unknown name, or a size for a game that has only one.
    """
    kind, colon, of_pgx = name.partition(":")
    if kind not in _MAKERS or (kind == "pgx") != bool(of_pgx) or (colon and not of_pgx):
        raise ValueError(f"game: {name!r} is not one of {', '.join(NAMES)}, pgx:NAME")
    if kind in ("connect4", "pgx") and size is not None:
        raise ValueError(f"size: {name} comes in one size; leave it out")
    return kind


@functools.lru_cache(maxsize=None, typed=True)  # typed: 3.0 must not find the game of 3
def _named_game(name: str, size: int | None) -> NamedGame:
    """One object per name and size: compiled programs are cached by the game."""
    return _MAKERS[name.partition(":")[0]](name, size)


def _go(name: str, size: int) -> NamedGame:
    rules = importlib.import_module("gozero.go.rules")
    coords = importlib.import_module("gozero.go.coords")
    own_rules = rules.Rules(size=size)
    game = importlib.import_module("gozero.games.go").go_game(own_rules)
    names = tuple(coords.to_gtp(size, action) for action in range(own_rules.num_actions))
    return NamedGame(name, size, game, names)


def _connect_four(name: str, size: None) -> NamedGame:
    game = importlib.import_module("gozero.games.connect_four").connect_four_game()
    names = tuple(str(column + 1) for column in range(game.num_actions))
    return NamedGame(name, size, game, names)


def _hex(name: str, size: int) -> NamedGame:
    game = importlib.import_module("gozero.games.hex").hex_game(size)
    letters = "abcdefghijklm"[:size]
    names = tuple(f"{letter}{row + 1}" for row in range(size) for letter in letters)
    return NamedGame(name, size, game, names)


def _pgx(name: str, size: None) -> NamedGame:
    pgx = importlib.import_module("gozero.games.pgx")
    game = pgx.pgx_game(pgx.make(name.partition(":")[2]))
    names = tuple(map(str, range(game.num_actions)))
    return NamedGame(name, size, game, names)


_MAKERS: dict[str, Callable[[str, Any], NamedGame]] = {
    "go": _go,
    "connect4": _connect_four,
    "hex": _hex,
    "pgx": _pgx,
}

NAMES = tuple(name for name in _MAKERS if name != "pgx")
ALL_NAMES = f"{', '.join(NAMES)}, or pgx:NAME for a game of pgx"
_USUAL_SIZES = {"go": 9, "hex": 11}
