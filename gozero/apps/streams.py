"""Lines that come by a stream, from whom nobody knows, and streams that are closed or fail."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from gozero.apps import flags


def lines(stream: Any, longest: int) -> Iterator[tuple[bytes | str, bool]]:
    """(a line, whether that is all of it); of one that is too long the first part alone.

    Args:
      stream: text or binary; of a text stream that has a buffer, that is read.
      longest: bytes or characters of a line, at most; more is not taken into memory.

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
    """(where a program reads, where it writes): the streams given, or the standard ones.

    That nobody reads the answers any more is as good as the end of input.

    Raises:
      SystemExit: status 1 and one line where there is no standard input or output, or it fails (a
        full disk, say).
    """
    stdin, stdout = stdin or sys.stdin, stdout or sys.stdout
    for name, stream in (("input", stdin), ("output", stdout)):
        if stream is None:
            flags.fail(prog, f"standard {name} is closed", status=1)
    try:
        yield stdin, stdout
    except OSError as error:
        if stdout is sys.stdout:  # or Python complains when it flushes at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            flags.fail(prog, f"standard input or output: {error}", status=1)
