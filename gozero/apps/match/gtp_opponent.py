"""The GTP programs of a match: where they are, and whether they can play it."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil

from gozero.apps.gtp.client import EngineFailed, GtpClient, GtpError, shortened
from gozero.apps.match.config import SIDES, MatchConfig

_GAMES = "/usr/games"
"""Where Debian installs GNU Go, a folder that is often not on the PATH."""

_HOW_TO_INSTALL = {
    "gnugo": "install GNU Go: apt-get install gnugo (Debian, Ubuntu) or brew install gnu-go"
}


_FILES = 256
"""That may be open beside those of programs: JAX's, the folder's."""

_FILES_OF_PROGRAM = 4
_FILES_OF_START = 6
"""That a program needs more while it is being started; all may be at a time."""


def allow_open_files(config: MatchConfig) -> None:
    """Let this process open as many files as programs at a time need.

    Raises:
      ValueError: it may not.
    """
    games = min(config.parallel, config.games)
    programs = games * sum(side.command is not None for side in config.sides)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else 2**20
    least = _FILES + programs * _FILES_OF_PROGRAM
    if programs and least > most:
        raise ValueError(
            f"parallel: {games} games at once want {least:,} open files, and the system allows "
            f"{most:,} (ulimit -Hn); use {max((most - _FILES) * games // (least - _FILES), 1)}"
        )
    wanted = min(least + programs * _FILES_OF_START, most)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


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
                version = shortened(client.send("version"))
            return f"{client.name} {version}".strip()
    except (EngineFailed, GtpError) as error:
        raise ValueError(f"{SIDES[i]}.command: {error}") from error
