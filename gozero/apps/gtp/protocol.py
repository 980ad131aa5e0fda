"""The Go Text Protocol, version 2: lines in, answers out. Knows no Go but its colours.

Specification: https://www.lysator.liu.se/~gunnar/gtp/ (Farnebäck, draft 2 of version 2).

Lines are read on a thread of their own, so that a command that takes long can see what has come.
"""

from __future__ import annotations

import collections
import contextlib
import math
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gozero.apps import runtime, streams

PROTOCOL_VERSION = 2
LONGEST_LINE = 2**16  # bytes or characters; what is longer is not taken in
_LONGEST_ANSWER = 300  # characters of a `?` answer, which may quote what was sent
_MOST_WAITING = 64  # lines that nobody has taken; with more, the controller has to wait
_LOOK = 0.02  # seconds between two looks at what has come, while something is waited for
_INTERRUPT = "# interrupt"  # GoGui's, a comment


class GtpFailure(Exception):
    """A command that fails: its text is the `?` answer, GTP's own words first."""


class Command(NamedTuple):
    """A command: what runs it, and the arguments it takes.

    `run` gets the arguments as strings and returns the answer's text; it raises `GtpFailure`.
    `usage` names the arguments: ``COLOUR VERTEX``, those in square brackets may be left out,
    and one with dots may be repeated. One that `talks` gets its `Talk` first.
    """

    run: Callable[..., str]
    usage: str = ""
    talks: bool = False


def colour_of(text: str) -> int:
    """GTP's colours: 0 Black, 1 White.

    Raises:
      GtpFailure: it is no colour.
    """
    colours = {"b": 0, "black": 0, "w": 1, "white": 1}
    if text.lower() not in colours:
        raise GtpFailure(f"syntax error: {text} is not a colour; expected b, w, black or white")
    return colours[text.lower()]


class Request(NamedTuple):
    """A line that asks for something."""

    id: str  # as it was sent; "" for none
    name: str  # "" for an id alone
    arguments: tuple[str, ...]


def parse_line(line: bytes | str) -> Request | None:
    """What a line asks for; None for a blank line or a comment.

    GTP 2, 3.1: control characters but tab go, `#` starts a comment, a tab is a space.

    >>> parse_line("12 play b\\tD4 # a comment\\r\\n")
    Request(id='12', name='play', arguments=('b', 'D4'))
    """
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    text = text.partition("#")[0].replace("\t", " ")
    text = "".join(x for x in text if x >= " " and x != "\x7f")
    words = [word for word in text.split(" ") if word]
    if not words:
        return None
    has_id = words[0].isascii() and words[0].isdigit()
    number = words.pop(0) if has_id else ""
    name, *arguments = words or [""]
    return Request(number, name, tuple(arguments))


def answer(number: str, text: str, failed: bool = False) -> str:
    """An answer as it is sent: ``=id text`` or ``?id text``, and an empty line.

    The text keeps to ASCII and has no empty line, which would end the answer early.
    """
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [line for i, line in enumerate(lines) if line or i == 0]
    if failed:
        kept = [" ".join(" ".join(kept).split())[:_LONGEST_ANSWER]]
    body = "\n".join(kept).encode("ascii", "backslashreplace").decode()
    space = " " if body and not body.startswith("\n") else ""
    return f"{'?' if failed else '='}{number}{space}{body}\n\n"


class Inbox:
    """Lines of a stream, read on a thread of its own, so many ahead at most.

    Args:
      stream: text or binary; of a text stream that has a buffer, that is read.
      longest: bytes or characters of a line; of a longer one the first part is given, as soon as it
        has come, and the rest passed over.
    """

    def __init__(self, stream: Any, longest: int = LONGEST_LINE):
        self._lines: collections.deque[tuple[bytes | str, bool]] = collections.deque()
        self._changed = threading.Condition()
        self._ended, self._error = False, None
        threading.Thread(target=self._read, args=(_own(stream), longest), daemon=True).start()

    def _read(self, stream: Any, longest: int) -> None:
        error = None
        try:
            for line in streams.lines(stream, longest):
                with self._changed:
                    self._changed.wait_for(lambda: len(self._lines) < _MOST_WAITING)
                    self._lines.append(line)
                    self._changed.notify_all()
        except OSError as failed:
            error = failed
        except ValueError:  # it was closed meanwhile
            pass
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def take(self) -> tuple[bytes | str, bool] | None:
        """(the next line, whether that is all of it), once it has come; None: there is no more.

        Raises:
          OSError: the stream cannot be read.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._ended)
            if self._lines:
                self._changed.notify_all()
                return self._lines.popleft()
        if self._error is not None:
            raise self._error
        return None

    def waits(self, seconds: float = 0.0) -> bool:
        """Whether a line, or the end, has come, or comes within some seconds."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self._lines or self._ended, timeout=seconds))

    def has(self, wanted: Callable[[bytes | str], bool]) -> bool:
        """Whether a line has come that is wanted."""
        with self._changed:
            return any(wanted(line) for line, _ in self._lines)


class Talk:
    """What a command may do before it ends: say lines of its answer, and look at what has come."""

    def __init__(self, number: str, stdout: Any, inbox: Inbox):
        self._number, self._stdout, self._inbox = number, stdout, inbox
        self.begun = False
        self.broken = False  # nothing can be written

    def begin(self) -> None:
        """Say that the command is a good one: the answer begins."""
        if not self.begun:
            self.begun = True
            self._write(f"={self._number}\n")

    def say(self, line: str) -> None:
        """A line of the answer, of ASCII and not empty."""
        self.begin()
        self._write(line + "\n")

    def end(self, text: str, failed: bool = False) -> None:
        """The rest of the answer, or all of it."""
        if not self.begun:
            self._write(answer(self._number, text, failed))
        else:  # it cannot fail any more
            self._write("\n" if failed or not text else f"{text}\n\n")

    def is_interrupted(self, seconds: float = 0.0) -> bool:
        """Something has been sent, or is within some seconds: who analyses is to end."""
        return self._inbox.waits(seconds)

    def until(self, is_done: Callable[[float], bool]) -> bool:
        """Wait for something that says whether it is done within some seconds; False: something has
        been sent before."""
        while not is_done(_LOOK):
            if self.is_interrupted():
                return False
        return True

    def is_stopped(self) -> bool:
        """`stop`, or GoGui's interrupt, has been sent: who chooses a move is to play."""
        return self._inbox.has(_stops)

    def _write(self, text: str) -> None:
        try:
            self._stdout.write(text)
            self._stdout.flush()
        except OSError:
            self.broken = True
            raise


def serve(
    commands: Mapping[str, Command],
    stdin: Any,
    stdout: Any,
    stderr: Any = None,
    idle: Callable[[Callable[[], bool]], None] | None = None,
) -> None:
    """Answer every line of `stdin` until quit or its end.

    `commands` are the engine's own; protocol_version, list_commands, known_command and quit
    are added. No command can end the session by going wrong: what it raises is answered as an
    internal error, with a line on `stderr`. A line of more than `LONGEST_LINE` is refused as soon
    as so much of it has come, and the rest of it passed over.

    Args:
      commands: name -> command.
      stdin: a text or binary stream; of a text stream that has a buffer, that is read.
      stdout: a text stream, flushed after each answer.
      stderr: a text stream; None for ``sys.stderr``.
      idle: called when no line waits; it is to return soon after what it is given says that one
        does.

    Raises:
      OSError: of the streams: a line cannot be read, or an answer not be written.
    """
    table, inbox, stderr = _with_protocol(commands), Inbox(stdin), stderr or sys.stderr
    while True:
        if idle is not None and not inbox.waits():
            _survive("pondering", stderr, idle, inbox.waits)
        if (received := inbox.take()) is None:
            return
        line, is_whole = received
        request = parse_line(line)
        if request is None:
            continue
        number = request.id if is_whole else request.id[:_LONGEST_ANSWER]
        talk = Talk(number, stdout, inbox)
        if is_whole:
            _respond(table, request, talk, stderr)
        else:
            talk.end(f"syntax error: a line has at most {LONGEST_LINE} bytes", failed=True)
        if is_whole and request.name == "quit" and not request.arguments:
            return


def _stops(line: bytes | str) -> bool:
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    if text.strip() == _INTERRUPT:
        return True
    request = parse_line(text)
    return request is not None and request.name == "stop"


def _own(stream: Any) -> Any:
    """A stream's bytes by a reader of our own: a thread that waits in Python's for its next line
    would keep the interpreter from ending."""
    with contextlib.suppress(AttributeError, OSError):
        if stream is sys.stdin:
            return open(stream.fileno(), "rb", closefd=False)
    return getattr(stream, "buffer", stream)


def _with_protocol(commands: Mapping[str, Command]) -> dict[str, Command]:
    table = {
        "protocol_version": Command(lambda: str(PROTOCOL_VERSION)),
        "list_commands": Command(lambda: "\n".join(table)),
        "known_command": Command(lambda name: str(name in table).lower(), "NAME"),
        **commands,
        "quit": Command(lambda: ""),
    }
    return table


def _respond(table: Mapping[str, Command], request: Request, talk: Talk, stderr: Any) -> None:
    try:
        text, failed = _run(table, request, talk), False
    except GtpFailure as failure:
        text, failed = str(failure), True
        if talk.begun:  # the answer is a good one already
            print(f"gozero gtp: {request.name}: {text}"[:_LONGEST_ANSWER], file=stderr, flush=True)
    except Exception as error:
        if talk.broken:
            raise
        text, failed = _say_what_failed(request.name, error, stderr), True
    talk.end(text, failed)


def _survive(name: str, stderr: Any, function: Callable, *arguments: Any) -> None:
    try:
        function(*arguments)
    except Exception as error:
        _say_what_failed(name, error, stderr)


def _say_what_failed(name: str, error: Exception, stderr: Any) -> str:
    missing = runtime.missing_device(error)
    told = missing or " ".join(f"internal error: {type(error).__name__}: {error}".split())
    print(f"gozero gtp: {name}: {told}"[:_LONGEST_ANSWER], file=stderr, flush=True)
    return told


def _run(table: Mapping[str, Command], request: Request, talk: Talk) -> str:
    if not request.name:
        raise GtpFailure("syntax error: there is no command after the id")
    if request.name not in table:
        raise GtpFailure("unknown command")
    command = table[request.name]
    words = command.usage.split()
    needed = sum(not word.startswith("[") for word in words)
    most = math.inf if "..." in command.usage else len(words)
    if not needed <= len(request.arguments) <= most:
        raise GtpFailure(f"syntax error: expected {' '.join([request.name, *words])}")
    return command.run(*[talk] * command.talks, *request.arguments)
