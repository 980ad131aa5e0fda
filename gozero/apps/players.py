"""``gozero players``: the named players and their strength. Imports no JAX."""

from __future__ import annotations

import dataclasses
import typing

from gozero.apps import runtime
from gozero.go.coords import MAX_SIZE, MIN_SIZE
from gozero.play import players
from gozero.play.player_config import DEFAULT_SIZE, PlayerConfig
from gozero.runs.settings import setting


@dataclasses.dataclass(frozen=True)
class PlayersConfig:
    """List the players that --player accepts, with their settings, strength and time per move.

    Scores and times come from recorded matches (in experiments/ of a checkout), played on two
    cores, many games at once; times only from those against another program, whose turns leave
    fewer games to search at a time.
    """

    size: int = setting(DEFAULT_SIZE, least=MIN_SIZE, most=MAX_SIZE, group="game")
    """Points on a side of the board."""

    EXAMPLES = ("gozero players", "gozero players --size 19")


def run(config: PlayersConfig) -> int:
    """Print two lines for each player and one for each of its matches."""
    names = typing.get_args(players.PlayerName)
    width = 2 + max(map(len, names))
    lines = []
    for name in names:
        description = PlayerConfig(**players.settings_of(name, config.size)).text
        lines.append(f"{name:{width}}{description}{' (the default)' * (name == players.DEFAULT)}")
        lines.append(" " * width + players.ABOUT[name])
        rows = [row for row in players.MEASURED if (row.player, row.size) == (name, config.size)]
        of_matches = [_match_text(row) for row in rows] or ["not measured on this board"]
        lines += [" " * width + text for text in of_matches]
    runtime.print_result("\n".join(lines))
    return 0


def _match_text(row: players.Measured) -> str:
    low, score, high = (f"{100 * x:.1f}%" for x in (row.low, row.score, row.high))
    seconds = f", {row.seconds:.2f} s a move" * row.opponent.startswith("GNU Go")
    return f"{score} [{low}, {high}] of {row.games} games against {row.opponent}{seconds}"
