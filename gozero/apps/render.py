"""A board as text."""

from __future__ import annotations

import numpy as np

from gozero.go import coords

_MARKS = {1: "X", -1: "O"}


def ascii_board(stones: np.ndarray, last: int | None = None) -> str:
    """The board as GTP's showboard draws it: X Black, O White, + a star point, (X) the last move.

    Args:
      stones: i8[size, size]; +1 Black, -1 White, 0 empty; row 0 at the top.
      last: the action of the last move; None, or a pass, for no mark.

    Raises:
      ValueError: stones that are not a square board of 1 to 25 points on a side.

    >>> print(ascii_board(np.array([[0, 1], [-1, 0]]), last=1))
       A B
     2 .(X)2
     1 O . 1
       A B
    """
    stones = np.asarray(stones)
    size = len(stones) if stones.ndim else 0
    if stones.shape != (size, size) or not 1 <= size <= len(coords.GTP_COLUMNS):
        raise ValueError(f"stones: shape {stones.shape} is not a square board")
    header = "   " + " ".join(coords.GTP_COLUMNS[:size])
    stars = coords.star_points(size)
    lines = [
        _row(stones[row], size - row, {col for r, col in stars if r == row}) for row in range(size)
    ]
    if last is not None and 0 <= last < size * size:
        row, col = coords.row_col(size, last)
        at = 3 + 2 * col
        line = lines[row]
        lines[row] = f"{line[: at - 1]}({line[at]}){line[at + 2 :]}"
    return "\n".join([header, *lines, header])


def _row(stones: np.ndarray, number: int, stars: set[int]) -> str:
    points = [_MARKS.get(int(x), "+" if col in stars else ".") for col, x in enumerate(stones)]
    return f"{number:2d} {' '.join(points)} {number}"
