"""Ratings on a scale like CGOS's: GNU Go at level 10 has 1800, as in Gelly & Silver (2011).

A rating comes from the games against GNU Go alone, on the board of these games; whichever version
of it the player met has 1800.
"""

from __future__ import annotations

import itertools
import math
import os
import shlex

from gozero.runs import statistics

GNUGO_ELO = 1800.0
PROGRAMS = ("gnugo", "gnugo-3.7.10")
"""Names of GNU Go's executable: as installed, and of the paper's version."""
GNUGO_LEVEL = "10"
"""Also GNU Go's default."""

HEAD = "Elo, GNU Go = 1800 [95%]"


def is_gnugo(command: str | None) -> bool:
    """Whether a command line starts GNU Go at level 10."""
    words = shlex.split(command or "")
    if not words or os.path.basename(words[0]) not in PROGRAMS:
        return False
    levels = [word.partition("=")[2] for word in words if word.startswith("--level=")]
    levels += [value for flag, value in itertools.pairwise(words) if flag == "--level"]
    return all(level == GNUGO_LEVEL for level in levels)


def rating(score: float) -> float:
    """The rating of a player with this score against GNU Go; infinite if it is 0 or 1."""
    return GNUGO_ELO + statistics.elo(score)


def rating_text(command: str | None, score: float, low: float, high: float) -> str:
    """``1,912 [1,875, 1,948]``; empty if the opponent is not GNU Go at level 10. Of a player that
    won or lost all games, only the bound."""
    if not is_gnugo(command):
        return ""
    middle, least, most = (rating(x) for x in (score, low, high))
    if math.isinf(middle):
        return f"over {least:,.0f}" if middle > 0 else f"under {most:,.0f}"
    return f"{middle:,.0f} [{least:,.0f}, {most:,.0f}]"
