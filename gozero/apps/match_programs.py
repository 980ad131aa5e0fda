"""The programs of a match: where they are, and whether they will play."""

from __future__ import annotations

import contextlib
import os
import shutil

from gozero.apps.gtp_client import EngineFailed, GtpClient, GtpError
from gozero.apps.match_config import SIDES, MatchConfig

_GAMES = "/usr/games"
"""Where Debian installs GNU Go, a folder that is often not on the PATH."""

_HOW_TO_INSTALL = {
    "gnugo": "install GNU Go: apt-get install gnugo (Debian, Ubuntu) or brew install gnu-go"
}


def located(words: list[str]) -> list[str]:
    """A command line whose program is found, on the PATH or where games are."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), _GAMES])
    return [shutil.which(words[0], path=path) or words[0], *words[1:]]


def player_names(config: MatchConfig) -> tuple[str, str]:
    """What the sides are called; each program is started once and asked whether it plays this.

    Raises:
      ValueError: a program that is missing, that does not answer, or that refuses the game.
    """
    player, opponent = (_name(config, i) for i in (0, 1))
    return player, opponent


def _name(config: MatchConfig, i: int) -> str:
    side = config.sides[i]
    if side.command is None:
        return f"gozero {side.text}"
    words = located(side.words())
    program = words[0]
    if shutil.which(program) is None:
        how = _HOW_TO_INSTALL.get(os.path.basename(program))
        hint = f"; {how}" if how else ""
        raise ValueError(f"{SIDES[i]}.command: {program!r} is no program on the PATH{hint}")
    try:
        with GtpClient(words, timeout=config.timeout) as client:
            for command in (f"boardsize {config.size}", "clear_board", f"komi {config.komi:g}"):
                client.send(command)
            version = ""
            with contextlib.suppress(GtpError):
                version = client.send("version")
            return f"{client.name} {version}".strip()
    except (EngineFailed, GtpError) as error:
        raise ValueError(f"{SIDES[i]}.command: {error}") from error
