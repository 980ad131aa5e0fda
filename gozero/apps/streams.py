"""Lines read from untrusted streams, and streams that are closed or fail."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from gozero.apps import flags


def lines(stream: Any, longest: int) -> Iterator[tuple[bytes | str, bool]]:
    """Yields (line, whether it is whole); only the first part of a line that is too long.

    Args:
      stream: text or binary; if a text stream has a buffer, the buffer is read instead.
      longest: the most bytes or characters of a line; the rest is skipped, not kept in memory.

    Raises:
      OSError: a line cannot be read.
    """
    stream = getattr(stream, "buffer", stream)
    while line := stream.readline(longest + 1):
        is_whole = len(line) <= longest
        yield line, is_whole
        while not is_whole and line and line[-1:] not in (b"\n", "\n"):
            line = stream.readline(longest)


@contextlib.contextmanager
def serving(prog: str, stdin: Any, stdout: Any) -> Iterator[tuple[Any, Any]]:
    """Yields (input, output): the streams given, or the standard ones.

    An output that nobody reads any more (a broken pipe) counts as the end of input.

    Raises:
      SystemExit: status 1 and one line on stderr if standard input or output is closed, or if
        reading or writing fails (a full disk, say).
    """
    stdin, stdout = stdin or sys.stdin, stdout or sys.stdout
    for name, stream in (("input", stdin), ("output", stdout)):
        if stream is None:
            flags.fail(prog, f"standard {name} is closed", status=1)
    try:
        yield stdin, stdout
    except OSError as error:
        if stdout is sys.stdout:  # else Python complains when it flushes at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            flags.fail(prog, f"standard input or output: {error}", status=1)
