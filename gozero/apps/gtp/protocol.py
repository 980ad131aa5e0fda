"""The Go Text Protocol, version 2: lines in, answers out. Of Go it knows only the colours.

Specification: https://www.lysator.liu.se/~gunnar/gtp/ (Farnebäck, draft 2 of version 2).

Lines are read on a separate thread, so that a long-running command can check for input.
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
from gozero.runs.memory import DoesNotFit

PROTOCOL_VERSION = 2
LONGEST_LINE = 2**16  # bytes or characters; longer lines are refused
_LONGEST_ANSWER = 300  # characters of a `?` answer, which may quote the command
_MAX_UNREAD = 64  # unread lines; beyond these, the controller must wait
_POLL_S = 0.02  # seconds between two checks for input while waiting
_INTERRUPT = "# interrupt"  # GoGui's, a comment


class GtpFailure(Exception):
    """A command failed; the message is its `?` answer, which begins with GTP's own words."""


class Command(NamedTuple):
    """A command: what runs it, and the arguments it takes.

    `run` gets the arguments as strings and returns the answer's text; it raises `GtpFailure`.
    `usage` names the arguments: ``COLOUR VERTEX``; those in square brackets are optional,
    and one with dots may be repeated. If `talks`, `run` gets a `Talk` as its first argument.
    """

    run: Callable[..., str]
    usage: str = ""
    talks: bool = False


def colour_of(text: str) -> int:
    """The colour that a GTP word names: 0 Black, 1 White.

    Raises:
      GtpFailure: the word is not a colour.
    """
    colours = {"b": 0, "black": 0, "w": 1, "white": 1}
    if text.lower() not in colours:
        raise GtpFailure(f"syntax error: {text} is not a colour; expected b, w, black or white")
    return colours[text.lower()]


class Request(NamedTuple):
    """A parsed command line."""

    id: str  # as it was sent; "" for none
    name: str  # "" for an id alone
    arguments: tuple[str, ...]


def parse_line(line: bytes | str) -> Request | None:
    """Parse a line; None for a blank line or a comment.

    GTP 2, 3.1: control characters except tab are removed, `#` starts a comment, a tab is a space.

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

    Non-ASCII characters are escaped, and empty lines, which would end the answer early, removed.
    """
    lines = [line.rstrip() for line in text.splitlines()]
    body_lines = [line for i, line in enumerate(lines) if line or i == 0]
    if failed:
        body_lines = [" ".join(" ".join(body_lines).split())[:_LONGEST_ANSWER]]
    body = "\n".join(body_lines).encode("ascii", "backslashreplace").decode()
    space = " " if body and not body.startswith("\n") else ""
    return f"{'?' if failed else '='}{number}{space}{body}\n\n"


class Inbox:
    """The lines of a stream, read ahead on a separate thread, up to a limit.

    Args:
      stream: text or binary; if a text stream has a buffer, the buffer is read instead.
      longest: the most bytes or characters of a line; of a longer one, the first part is delivered
        as soon as it has arrived, and the rest is skipped.
    """

    def __init__(self, stream: Any, longest: int = LONGEST_LINE):
        self._lines: collections.deque[tuple[bytes | str, bool]] = collections.deque()
        self._changed = threading.Condition()
        self._ended, self._error = False, None
        threading.Thread(
            target=self._read, args=(_byte_stream(stream), longest), daemon=True
        ).start()

    def _read(self, stream: Any, longest: int) -> None:
        error = None
        try:
            for line in streams.lines(stream, longest):
                with self._changed:
                    self._changed.wait_for(lambda: len(self._lines) < _MAX_UNREAD)
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
        """(the next line, whether it is whole), once it has arrived; None at the end of the stream.

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
        """Whether a line, or the end of the stream, has arrived or arrives within `seconds`."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self._lines or self._ended, timeout=seconds))

    def has(self, predicate: Callable[[bytes | str], bool]) -> bool:
        """Whether the predicate holds for any of the unread lines."""
        with self._changed:
            return any(predicate(line) for line, _ in self._lines)


class Talk:
    """Lets a running command send lines of its answer, and check for input, before it ends."""

    def __init__(self, number: str, stdout: Any, inbox: Inbox):
        self._number, self._stdout, self._inbox = number, stdout, inbox
        self.begun = False
        self.broken = False  # the output cannot be written

    def begin(self) -> None:
        """Begin the answer of a successful command."""
        if not self.begun:
            self.begun = True
            self._write(f"={self._number}\n")

    def say(self, line: str) -> None:
        """Send a line of the answer; it must be ASCII and not empty."""
        self.begin()
        self._write(line + "\n")

    def end(self, text: str, failed: bool = False) -> None:
        """Send the rest of the answer, or all of it."""
        if not self.begun:
            self._write(answer(self._number, text, failed))
        else:  # too late to answer with a failure
            self._write("\n" if failed or not text else f"{text}\n\n")

    def is_interrupted(self, seconds: float = 0.0) -> bool:
        """Whether input has arrived, or arrives within `seconds`: an analysis then ends."""
        return self._inbox.waits(seconds)

    def until(self, is_done: Callable[[float], bool]) -> bool:
        """Wait until `is_done`, which is called with a timeout in seconds, returns True; False if
        input arrives first."""
        while not is_done(_POLL_S):
            if self.is_interrupted():
                return False
        return True

    def is_stopped(self) -> bool:
        """Whether `stop` or GoGui's interrupt has been sent: a genmove then plays at once."""
        return self._inbox.has(_is_stop)

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
    are added. No command can end the session by failing: an exception is answered as an internal
    error, with a line on `stderr`. A line longer than `LONGEST_LINE` is refused as soon as that
    much of it has arrived, and the rest is skipped.

    Args:
      commands: name -> command.
      stdin: a text or binary stream; if a text stream has a buffer, the buffer is read instead.
      stdout: a text stream, flushed after each answer.
      stderr: a text stream; None for ``sys.stderr``.
      idle: called when no line is waiting, with a function that returns whether one is; it
        must return soon after that becomes true.

    Raises:
      OSError: a line cannot be read, or an answer cannot be written.
    """
    table, inbox, stderr = _with_protocol(commands), Inbox(stdin), stderr or sys.stderr
    while True:
        if idle is not None and not inbox.waits():
            _run_safely("pondering", stderr, idle, inbox.waits)
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
            talk.end(f"syntax error: the line has more than {LONGEST_LINE} bytes", failed=True)
        if is_whole and request.name == "quit" and not request.arguments:
            return


def _is_stop(line: bytes | str) -> bool:
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    if text.strip() == _INTERRUPT:
        return True
    request = parse_line(text)
    return request is not None and request.name == "stop"


def _byte_stream(stream: Any) -> Any:
    """A stream's bytes; for standard input, from a separate reader: a thread that waits in Python's
    own reader would keep the interpreter from exiting."""
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
        if talk.begun:  # the answer has already begun as a success
            print(f"gozero gtp: {request.name}: {text}"[:_LONGEST_ANSWER], file=stderr, flush=True)
    except Exception as error:
        if talk.broken:
            raise
        text, failed = _report_failure(request.name, error, stderr), True
    talk.end(text, failed)


def _run_safely(name: str, stderr: Any, function: Callable, *arguments: Any) -> None:
    try:
        function(*arguments)
    except Exception as error:
        _report_failure(name, error, stderr)


def _report_failure(name: str, error: Exception, stderr: Any) -> str:
    message = str(error) if isinstance(error, DoesNotFit) else runtime.missing_device(error)
    message = message or " ".join(f"internal error: {type(error).__name__}: {error}".split())
    print(f"gozero gtp: {name}: {message}"[:_LONGEST_ANSWER], file=stderr, flush=True)
    return message


def _run(table: Mapping[str, Command], request: Request, talk: Talk) -> str:
    if not request.name:
        raise GtpFailure("syntax error: expected a command after the id")
    if request.name not in table:
        raise GtpFailure("unknown command")
    command = table[request.name]
    words = command.usage.split()
    min_arguments = sum(not word.startswith("[") for word in words)
    max_arguments = math.inf if "..." in command.usage else len(words)
    if not min_arguments <= len(request.arguments) <= max_arguments:
        raise GtpFailure(f"syntax error: expected {' '.join([request.name, *words])}")
    return command.run(*[talk] * command.talks, *request.arguments)
