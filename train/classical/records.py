"""The games of a folder of SGF files."""

from __future__ import annotations

import pathlib
import sys

from gozero.apps import sgf


def read(path: pathlib.Path, size: int) -> tuple[list[pathlib.Path], list[sgf.GameRecord]]:
    """(files, games) of a board size; files that cannot be read are named on stderr and left out.

    Args:
      path: a folder with *.sgf in it or below it, or one such file.
      size: points on a side.

    Raises:
      ValueError: no files, or no game of that size.
    """
    paths = [path] if path.is_file() else sorted(path.rglob("*.sgf"))
    if not paths:
        raise ValueError(f"--sgf {path}: no *.sgf there; give a folder of games")
    files, games = [], []
    for file in paths:
        try:
            record = sgf.read(file)
        except ValueError as error:
            print(f"left out: {error}", file=sys.stderr, flush=True)
            continue
        if record.size == size:
            files.append(file)
            games.append(record)
    if not games:
        raise ValueError(
            f"--sgf {path}: {len(paths)} files, but no game on {size}x{size} among them; --size "
            "says which to read"
        )
    return files, games
