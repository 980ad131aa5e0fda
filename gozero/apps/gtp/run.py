"""`gozero gtp`: the engine for GUIs and referees, and its commands.

A front end's first commands (name, version, known commands, size, komi) are answered without
importing JAX; the first play compiles the rules, the first genmove the search.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from gozero import __version__
from gozero.apps import flags, runtime, streams
from gozero.apps.gtp import analyze, front_ends
from gozero.apps.gtp import protocol as gtp_protocol
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.engine import Engine
from gozero.apps.gtp.protocol import Command, GtpFailure, Talk, colour_of
from gozero.go import coords, handicap
from gozero.go.coords import KOMI_EXPECTED, MAX_SIZE, MIN_SIZE

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,9}", re.ASCII)
_VERTEX = re.compile(r"[A-HJ-Z]([1-9]|1\d|2[0-5])", re.ASCII | re.IGNORECASE)


def commands(engine: Engine) -> dict[str, Command]:
    """The engine's commands by name; more can be added to the dict before it is served."""
    table = {
        "name": Command(lambda: "gozero"),
        "version": Command(lambda: __version__),
        "boardsize": Command(functools.partial(_boardsize, engine), "SIZE [SIZE]"),
        "clear_board": Command(lambda: engine.clear() or ""),
        "komi": Command(functools.partial(_komi, engine), "KOMI"),
        "play": Command(functools.partial(_play, engine), "COLOUR VERTEX"),
        "genmove": Command(functools.partial(_genmove, engine), "COLOUR", talks=True),
        "fixed_handicap": Command(functools.partial(_choose, engine, handicap.fixed), "NUMBER"),
        "place_free_handicap": Command(functools.partial(_choose, engine, handicap.free), "NUMBER"),
        "set_free_handicap": Command(
            functools.partial(_set_free_handicap, engine), "VERTEX VERTEX [VERTEX...]"
        ),
        "time_settings": Command(
            functools.partial(_time_settings, engine), "MAIN_TIME BYO_YOMI_TIME BYO_YOMI_STONES"
        ),
        "time_left": Command(functools.partial(_time_left, engine), "COLOUR TIME STONES"),
        "undo": Command(functools.partial(_undo, engine)),
        "showboard": Command(lambda: "\n" + engine.board_text()),
        "final_score": Command(engine.score_text),
        **front_ends.commands(engine),
        **analyze.commands(engine),
    }
    return table


def run(config: GtpConfig, stdin: Any = None, stdout: Any = None) -> int:
    """Serve GTP until quit or the end of input; the exit status is 0, or 130 after Ctrl-C.

    Raises:
      SystemExit: status 2 and one line for files that cannot be used, before any answer; status 1
        and one line if standard input or output is closed, or fails (a full disk, say).
    """
    runtime.divide_cores(config.trees)
    if config.selftest:
        from gozero.apps.gtp import ready

        return ready.selftest(config)
    try:
        with streams.serving("gozero gtp", stdin, stdout) as (stdin, stdout):
            engine = _engine(config)
            idle = engine.ponder if config.ponder else None
            gtp_protocol.serve(commands(engine), stdin, stdout, idle=idle)
    except KeyboardInterrupt:
        return runtime.STOPPED
    return 0


def _engine(config: GtpConfig) -> Engine:
    engine = Engine(config)
    if config.search == "gumbel" and config.player is None:
        print(
            "gumbel starts every search afresh: reuse is off",
            file=sys.stderr,
            flush=True,
        )
    if config.is_random:
        print(runtime.random_network_message(), file=sys.stderr, flush=True)
    if config.own_files:
        with flags.exit_on_error("gozero gtp"):
            engine.searcher  # noqa: B018 - bad files end the program here, not at a genmove
    return engine


@contextlib.contextmanager
def _failing_with(words: str) -> Iterator[None]:
    """Turn a ValueError into a GTP failure that begins with GTP's own words."""
    try:
        yield
    except ValueError as error:
        raise GtpFailure(f"{words}: {error}") from error


def _boardsize(engine: Engine, *numbers: str) -> str:
    if not all(_WHOLE.fullmatch(x) for x in numbers):
        raise GtpFailure(f"syntax error: expected a whole number from {MIN_SIZE} to {MAX_SIZE}")
    if len({int(x) for x in numbers}) > 1:
        raise GtpFailure("unacceptable size: only square boards can be played")
    with _failing_with("unacceptable size"):
        engine.set_size(int(numbers[0]))
    return ""


def _komi(engine: Engine, text: str) -> str:
    if not _NUMBER.fullmatch(text):
        raise GtpFailure(f"syntax error: komi {text} is not {KOMI_EXPECTED}")
    with _failing_with("syntax error"):
        engine.set_komi(float(text))
    return ""


def _play(engine: Engine, colour: str, vertex: str) -> str:
    player = colour_of(colour)
    try:
        action = coords.from_gtp(engine.size, vertex[:20])
    except ValueError as error:
        if _VERTEX.fullmatch(vertex):
            size = engine.size
            raise GtpFailure(f"illegal move: {vertex} is not on the {size}x{size} board") from error
        raise GtpFailure(f"syntax error: {error}") from error
    with _failing_with("illegal move"):
        engine.game.play(player, action)
    return ""


def _genmove(engine: Engine, talk: Talk, colour: str) -> str:
    action = engine.genmove(colour_of(colour), talk)
    return "resign" if action is None else coords.to_gtp(engine.size, action)


def _time_settings(engine: Engine, main: str, period: str, stones: str) -> str:
    seconds = _seconds(main), _seconds(period)
    with _failing_with("syntax error"):
        engine.set_time(*seconds, _stones(stones))
    return ""


def _time_left(engine: Engine, colour: str, seconds: str, stones: str) -> str:
    time_left = colour_of(colour), _seconds(seconds), _stones(stones)
    with _failing_with("syntax error"):
        engine.set_left(*time_left)
    return ""


def _seconds(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise GtpFailure(f"syntax error: {text} is not a number of seconds")
    return float(text)


def _stones(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise GtpFailure(f"syntax error: {text} is not a number of stones")
    return int(text)


def _choose(engine: Engine, placement: Callable[[int, int], list[int]], number: str) -> str:
    """Place handicap stones by `placement`, and answer with their vertices."""
    num_stones = _stones(number)
    _must_be_untouched(engine)
    with _failing_with("invalid number of stones"):
        actions = placement(engine.size, num_stones)
    engine.set_handicap(actions)
    return " ".join(coords.to_gtp(engine.size, action) for action in actions)


def _set_free_handicap(engine: Engine, *vertices: str) -> str:
    _must_be_untouched(engine)
    with _failing_with("bad vertex list"):
        engine.set_handicap([coords.from_gtp(engine.size, vertex[:20]) for vertex in vertices])
    return ""


def _must_be_untouched(engine: Engine) -> None:
    if not engine.untouched:
        raise GtpFailure("board not empty")


def _undo(engine: Engine) -> str:
    try:
        engine.game.undo()
    except ValueError as error:
        raise GtpFailure("cannot undo") from error
    engine.stop()
    return ""
