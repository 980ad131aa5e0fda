"""GTP from the other side: another program's engine as a player, and a referee for two."""

from __future__ import annotations

import collections
import contextlib
import queue
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import IO, NamedTuple, cast

from gozero.apps.host_game import HostGame, IllegalMove, roomy_limit
from gozero.apps.sgf import GameRecord
from gozero.go import coords
from gozero.go.coords import result_text
from gozero.go.rules import Rules

_LETTERS = "BW"
_COLOURS = ("Black", "White")
_STDERR_LINES = 10  # the last ones are kept, to be shown with an error
_GRACE = 2.0  # seconds that a program gets to end by itself


class GtpError(Exception):
    """The engine answered `?`: it will not or cannot do what was asked."""


class EngineFailed(RuntimeError):
    """The engine is of no more use; what it last wrote on stderr is in the text."""


class EngineDied(EngineFailed):
    """It could not be started, or ended."""


class EngineTimeout(EngineFailed, TimeoutError):
    """It gave no answer in time."""


class EngineConfused(EngineFailed):
    """It sent something that is not GTP."""


class GtpClient:
    """An engine in a process of its own, spoken to over GTP. A context manager.

    Args:
      command: the program and its arguments.
      name: what to call it; None to ask it.
      timeout: seconds that each answer may take.

    Raises:
      EngineFailed: it cannot be started, or does not answer when asked for its name.
    """

    def __init__(self, command: list[str], name: str | None = None, timeout: float = 60.0):
        self.command, self.timeout = command, timeout
        self.name = name or command[0]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise EngineDied(f"{self.name}: cannot be started: {error}") from error
        self._stdin = cast(IO[str], self._process.stdin)
        self._lines: queue.Queue[str | None] = queue.Queue()  # None: no more will come
        self._complaints: collections.deque[str] = collections.deque(maxlen=_STDERR_LINES)
        self._readers = [
            _start_reader(self._process.stdout, self._lines.put, at_end=None),
            _start_reader(self._process.stderr, self._complaints.append),
        ]
        if name is None:
            with contextlib.suppress(GtpError):
                self.name = self.send("name") or self.name

    def __enter__(self) -> GtpClient:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def send(self, command: str) -> str:
        """The answer to a command, without its `=`.

        Raises:
          GtpError: the engine answered `?`.
          EngineFailed: it died, hung or sent something else; it is stopped then.
          ValueError: a command that is not one line.
        """
        if not command.strip() or not command.isprintable():
            raise ValueError(f"{command!r} is not one line of GTP")
        try:
            self._stdin.write(command + "\n")
            self._stdin.flush()
        except (OSError, ValueError) as error:
            raise self._failed(EngineDied, f"ended before {command!r}") from error
        lines = self._answer(command)
        kind, text = lines[0][:1], "\n".join([lines[0][1:].lstrip(" "), *lines[1:]])
        if kind == "=":
            return text
        if kind == "?":
            raise GtpError(f"{self.name}: {command!r} answered: {text}")
        raise self._failed(EngineConfused, f"answered {command!r} with {lines[0]!r}, not = or ?")

    def _answer(self, command: str) -> list[str]:
        """The lines of one answer; empty lines before it do not count."""
        deadline, lines = time.monotonic() + self.timeout, []
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                late = f"gave no answer to {command!r} in {self.timeout:g} s"
                raise self._failed(EngineTimeout, late) from None
            if line is None:
                raise self._failed(EngineDied, f"ended at {command!r}")
            if line:
                lines.append(line)
            elif lines:
                return lines

    def _failed(self, kind: type[EngineFailed], what: str) -> EngineFailed:
        """The error to raise; the process is stopped, for what it says later is of no use."""
        self._stop(grace=0.2)
        status = f" (exit status {self._process.returncode})" if kind is EngineDied else ""
        said = "".join(f"\n  {line}" for line in self._complaints)
        return kind(f"{self.name}: {what}{status}" + (said and f"; its stderr ends:{said}"))

    def close(self) -> None:
        """Quit, and end the process if it does not; may be called twice."""
        with contextlib.suppress(OSError, ValueError):
            self._stdin.write("quit\n")
            self._stdin.close()
        self._stop(_GRACE)

    def _stop(self, grace: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(_GRACE)
        with contextlib.suppress(OSError):
            self._stdin.close()


def _start_reader(stream: IO[str] | None, put, **last) -> threading.Thread:
    """A thread that puts each line of the stream, then `at_end` if that is given; it closes it."""

    def read():
        with contextlib.closing(cast(IO[str], stream)) as lines:
            for line in lines:
                put(line.rstrip())
        if last:
            put(last["at_end"])

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


class _Verdict(NamedTuple):
    """Why a game ends before its rules end it."""

    result: str
    comment: str


def play_game(
    black: GtpClient,
    white: GtpClient,
    size: int = 9,
    komi: float = 7.0,
    max_moves: int | None = None,
    ko: str = "positional",
    handicap: Sequence[int] = (),
) -> GameRecord:
    """Referee one game: our rules keep the board, decide what is legal, and count the area.

    It ends by two passes, at the move limit (scored as it stands), by resignation, or
    by forfeit (``B+F``): a move that our rules forbid or that is no move, a `?` to genmove, or
    a `?` to a move of the opponent that is legal. The record's comment says which.

    Args:
      black, white: the engines; their boards are cleared.
      size, komi, ko: the game's rules; the engines are told the first two.
      handicap: Black's handicap stones, 2 or more points; White begins. Engines are told with
        set_free_handicap.
      max_moves: the move limit; None for one that real games do not meet.

    Raises:
      GtpError: an engine refuses the board size, the komi, the handicap, or to clear its board.
      EngineFailed: one died, hung or talked nonsense.
      ValueError: a size, komi or ko that our rules refuse.
    """
    players = (black, white)
    limit = roomy_limit(size) if max_moves is None else max_moves
    rules = Rules(size=size, ko=ko, max_moves=limit)
    game = HostGame(rules, komi, handicap)
    setup = [f"boardsize {size}", "clear_board", f"komi {komi:g}"]
    if handicap:
        vertices = (coords.to_gtp(size, action) for action in handicap)
        setup.append(f"set_free_handicap {' '.join(vertices)}")
    for player in players:
        for command in setup:
            player.send(command)
    verdict = None
    while verdict is None and not game.ended:
        verdict = _turn(game, players)
    if verdict is None:
        verdict = _Verdict(result_text(game.score()), "move limit" if game.truncated else "")
    return GameRecord(
        size=size,
        komi=komi,
        moves=tuple(game.moves),
        result=verdict.result,
        black_stones=tuple(sorted(handicap)),
        handicap=len(handicap),
        black=black.name,
        white=white.name,
        comment=verdict.comment,
    )


def _turn(game: HostGame, players: tuple[GtpClient, GtpClient]) -> _Verdict | None:
    """One move, told to the opponent; a verdict if it ends the game against the rules."""
    colour, size = game.to_play, game.rules.size
    try:
        vertex = players[colour].send(f"genmove {_LETTERS[colour].lower()}").strip()
    except GtpError as error:
        return _forfeit(colour, f"gave no move: {error}")
    if vertex.lower() == "resign":
        return _Verdict(f"{_LETTERS[1 - colour]}+R", f"{_COLOURS[colour]} resigned")
    try:
        action = coords.from_gtp(size, vertex)
        game.play(colour, action)
    except IllegalMove as error:
        return _forfeit(colour, f"made an illegal move: {error}")
    except ValueError as error:
        return _forfeit(colour, f"made no move: {error}")
    try:
        players[1 - colour].send(f"play {_LETTERS[colour].lower()} {coords.to_gtp(size, action)}")
    except GtpError as error:
        return _forfeit(1 - colour, f"refused a legal move: {error}")
    return None


def _forfeit(colour: int, why: str) -> _Verdict:
    return _Verdict(f"{_LETTERS[1 - colour]}+F", f"{_COLOURS[colour]} {why}")
