"""The scalar C engine of ``yardstick.c``: built for a board size, and run."""

from __future__ import annotations

import functools
import json
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable

SOURCE = pathlib.Path(__file__).with_suffix(".c")


def installed() -> bool:
    """Is there a compiler to build it with?"""
    return shutil.which("gcc") is not None


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="gozero-yardstick-")


@functools.cache
def build(size: int) -> pathlib.Path:
    """The program for boards of this size; it is gone when Python ends."""
    program = pathlib.Path(_folder().name) / f"yardstick-{size}"
    flags = ["-O3", "-march=native", f"-DSIZE={size}"]
    subprocess.run(["gcc", *flags, str(SOURCE), "-o", str(program), "-lm"], check=True)
    return program


def play(size: int, playouts: int, seed: int, *, amaf: bool = False) -> dict:
    """Plays games from the empty board and returns what the program reports.

    Args:
      size: points on a side.
      playouts: games.
      seed: of the games.
      amaf: also keep, for each colour, the points where it was the first to play.
    """
    return _run(str(build(size)), playouts, seed, amaf)


def make_rate(program: str, playouts: int, amaf: bool) -> Callable[[], float]:
    """A function that plays and gives the playouts a second: the task of a `Worker`.

    The program has been built by the parent, whose temporary folder it lies in.
    """
    return lambda: _run(program, playouts, 0, amaf)["playouts_per_second"]


def _run(program: str, playouts: int, seed: int, amaf: bool) -> dict:
    command = [program, str(playouts), str(seed), *(["--amaf"] if amaf else [])]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
