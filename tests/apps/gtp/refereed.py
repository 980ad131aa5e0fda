"""A whole game of two programs with a referee."""

from __future__ import annotations

from gozero.apps.gtp.client import GtpClient
from gozero.apps.host_game import ample_move_limit
from gozero.apps.match.referee import Referee
from gozero.apps.sgf import GameRecord
from gozero.go.rules import Rules


def play_game(
    black: GtpClient, white: GtpClient, size: int, komi: float, max_moves=None, handicap=()
) -> GameRecord:
    """Play a game; the record's comment says why it ended, if not by two passes."""
    rules = Rules(size, "positional", max_moves=max_moves or ample_move_limit(size))
    referee = Referee(rules, komi, (black, white), handicap)
    referee.set_up()
    while referee.outcome is None:
        referee.ask()
    return referee.record(black.name, white.name)
