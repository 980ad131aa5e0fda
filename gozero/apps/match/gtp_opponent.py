"""The GTP programs of a match: finding them, and checking that they can play it."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil

from gozero.apps.gtp.client import EngineFailed, GtpClient, GtpError, shortened
from gozero.apps.match.config import SIDES, MatchConfig

_GAMES = "/usr/games"
"""Where Debian installs GNU Go; this folder is often not on the PATH."""

_HOW_TO_INSTALL = {
    "gnugo": "install GNU Go: apt-get install gnugo (Debian, Ubuntu) or brew install gnu-go"
}


_FILES = 256
"""Open files besides those of the programs: JAX's, the folder's."""

_FILES_OF_PROGRAM = 4
_FILES_OF_START = 6
"""Additional open files of a program while it is being started; all may start at the same time."""


def allow_open_files(config: MatchConfig) -> None:
    """Let this process open as many files as the programs running at once need.

    Raises:
      ValueError: the system does not allow so many.
    """
    games = min(config.parallel, config.games)
    programs = games * sum(side.command is not None for side in config.sides)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = hard if hard != resource.RLIM_INFINITY else 2**20
    needed = _FILES + programs * _FILES_OF_PROGRAM
    if programs and needed > limit:
        raise ValueError(
            f"parallel: {games} games at once need {needed:,} open files, but the system allows "
            f"{limit:,} (ulimit -Hn); use {max((limit - _FILES) * games // (needed - _FILES), 1)}"
        )
    target = min(needed + programs * _FILES_OF_START, limit)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def with_program_path(words: list[str]) -> list[str]:
    """A command line with the path of its program, looked up on the PATH and in `_GAMES`."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), _GAMES])
    return [shutil.which(words[0], path=path) or words[0], *words[1:]]


def player_names(config: MatchConfig) -> tuple[str, str]:
    """The names of the sides; each program is started once and asked whether it plays this game.

    Raises:
      ValueError: a program is missing, does not answer, or refuses the game.
    """
    player, opponent = (_name(config, i) for i in (0, 1))
    return player, opponent


def _name(config: MatchConfig, i: int) -> str:
    side = config.sides[i]
    if side.command is None:
        return f"gozero {side.text}"
    words = with_program_path(side.words())
    program = words[0]
    if shutil.which(program) is None:
        instructions = _HOW_TO_INSTALL.get(os.path.basename(program))
        hint = f"; {instructions}" if instructions else ""
        raise ValueError(f"{SIDES[i]}.command: {program!r} is not a program on the PATH{hint}")
    try:
        with GtpClient(words, timeout=config.timeout) as client:
            for command in (f"boardsize {config.size}", "clear_board", f"komi {config.komi:g}"):
                client.send(command)
            if side.main_time is not None:
                _check_clock(client)
            version = ""
            with contextlib.suppress(GtpError):
                version = shortened(client.send("version"))
            clock = "" if side.main_time is None else f", {side.main_time} s a game"
            return f"{client.name} {version}".strip() + clock
    except (EngineFailed, GtpError) as error:
        raise ValueError(f"{SIDES[i]}.command: {error}") from error


def _check_clock(client: GtpClient) -> None:
    """Check that a program has the commands of GTP's clock.

    Raises:
      GtpError: it has not.
    """
    for command in ("time_settings", "time_left"):
        if client.send(f"known_command {command}").strip().lower() != "true":
            raise GtpError(f"{client.name} has no {command}, which --main-time needs")
