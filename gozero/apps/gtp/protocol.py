"""The Go Text Protocol, version 2: lines in, answers out. Knows no Go.

Specification: https://www.lysator.liu.se/~gunnar/gtp/ (Farnebäck, draft 2 of version 2).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gozero.apps import runtime, streams

PROTOCOL_VERSION = 2
LONGEST_LINE = 2**16  # bytes or characters; what is longer is not taken in
_LONGEST_ANSWER = 300  # characters of a `?` answer, which may quote what was sent


class GtpFailure(Exception):
    """A command that fails: its text is the `?` answer, GTP's own words first."""


class Command(NamedTuple):
    """A command: what runs it, and the arguments it takes.

    `run` gets the arguments as strings and returns the answer's text; it raises `GtpFailure`.
    `usage` names the arguments: ``COLOUR VERTEX``, those in square brackets may be left out,
    and one with dots may be repeated.
    """

    run: Callable[..., str]
    usage: str = ""


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


def serve(commands: Mapping[str, Command], stdin: Any, stdout: Any, stderr: Any = None) -> None:
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

    Raises:
      OSError: of the streams: a line cannot be read, or an answer not be written.
    """
    table = _with_protocol(commands)
    for line, is_whole in streams.lines(stdin, LONGEST_LINE):
        request = parse_line(line)
        if request is None:
            continue
        if is_whole:
            said = _respond(table, request, stderr or sys.stderr)
        else:
            too_long = f"syntax error: a line has at most {LONGEST_LINE} bytes"
            said = answer(request.id[:_LONGEST_ANSWER], too_long, failed=True)
        stdout.write(said)
        stdout.flush()
        if is_whole and request.name == "quit" and not request.arguments:
            return


def _with_protocol(commands: Mapping[str, Command]) -> dict[str, Command]:
    table = {
        "protocol_version": Command(lambda: str(PROTOCOL_VERSION)),
        "list_commands": Command(lambda: "\n".join(table)),
        "known_command": Command(lambda name: str(name in table).lower(), "NAME"),
        **commands,
        "quit": Command(lambda: ""),
    }
    return table


def _respond(table: Mapping[str, Command], request: Request, stderr: Any) -> str:
    try:
        return answer(request.id, _run(table, request))
    except GtpFailure as failure:
        return answer(request.id, str(failure), failed=True)
    except Exception as error:
        missing = runtime.missing_device(error)
        told = missing or " ".join(f"internal error: {type(error).__name__}: {error}".split())
        print(f"gozero gtp: {request.name}: {told}"[:_LONGEST_ANSWER], file=stderr, flush=True)
        return answer(request.id, told, failed=True)


def _run(table: Mapping[str, Command], request: Request) -> str:
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
    return command.run(*request.arguments)
