"""A whole game of two programs, refereed."""

from __future__ import annotations

from gozero.apps.gtp.client import GtpClient
from gozero.apps.host_game import roomy_limit
from gozero.apps.match.referee import Referee
from gozero.apps.sgf import GameRecord
from gozero.go.rules import Rules


def play_game(
    black: GtpClient, white: GtpClient, size: int, komi: float, max_moves=None, handicap=()
) -> GameRecord:
    """The record of a game; its comment says why it ended, if not by passes."""
    rules = Rules(size, "positional", max_moves=max_moves or roomy_limit(size))
    referee = Referee(rules, komi, (black, white), handicap)
    referee.set_up()
    while referee.outcome is None:
        referee.ask()
    return referee.record(black.name, white.name)
