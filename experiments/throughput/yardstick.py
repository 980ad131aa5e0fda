"""Builds and runs the scalar C engine of ``yardstick.c``."""

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
    """Whether a compiler to build it with is installed."""
    return shutil.which("gcc") is not None


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="gozero-yardstick-")


@functools.cache
def build(size: int) -> pathlib.Path:
    """Builds the program for boards of this size; it is deleted when Python ends."""
    program = pathlib.Path(_folder().name) / f"yardstick-{size}"
    flags = ["-O3", "-march=native", f"-DSIZE={size}"]
    subprocess.run(["gcc", *flags, str(SOURCE), "-o", str(program), "-lm"], check=True)
    return program


def play(size: int, playouts: int, seed: int, *, amaf: bool = False) -> dict:
    """Plays games from the empty board and returns the program's report.

    Args:
      size: points on a side.
      playouts: the number of games.
      seed: the seed of the games.
      amaf: also record, for each colour, the points where it played first.
    """
    return _run(str(build(size)), playouts, seed, amaf)


def make_rate(program: str, playouts: int, amaf: bool) -> Callable[[], float]:
    """A function that plays and returns playouts/s: the task of a `Worker`.

    The parent process has built the program, in its temporary folder.
    """
    return lambda: _run(program, playouts, 0, amaf)["playouts_per_second"]


def _run(program: str, playouts: int, seed: int, amaf: bool) -> dict:
    command = [program, str(playouts), str(seed), *(["--amaf"] if amaf else [])]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
