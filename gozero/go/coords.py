"""Notation for host code, without JAX: names of points, board sizes, ko rules, komi, results.

Points: action <-> (row, col) <-> GTP vertex <-> SGF point.

Actions are row-major from the top left; the pass is size * size. GTP skips the letter I and
counts rows from the bottom; SGF uses two letters, column then row, from the top left.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

MIN_SIZE, MAX_SIZE = 2, 25
"""Board sizes that can be played; defined here so that host code can check one without JAX."""

KoRule = Literal["simple", "positional", "situational"]
KO_RULES: tuple[KoRule, ...] = get_args(KoRule)

MAX_KOMI = 1000
KOMI_EXPECTED = f"a multiple of 0.5 from -{MAX_KOMI} to {MAX_KOMI}"

GTP_COLUMNS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"


def row_col(size: int, action: int) -> tuple[int, int]:
    """(row, col) of a point, row 0 at the top.

    Raises:
      ValueError: the action is a pass or not an action of this board.
    """
    if not 0 <= action < size * size:
        raise ValueError(f"action {action} is not a point of a {size}x{size} board")
    return divmod(action, size)


def to_gtp(size: int, action: int) -> str:
    """`action` as a GTP vertex: ``A1`` is the bottom left corner, ``pass`` the pass.

    >>> to_gtp(9, 0), to_gtp(9, 80), to_gtp(9, 81)
    ('A9', 'J1', 'pass')
    """
    if action == size * size:
        return "pass"
    row, col = row_col(size, action)
    return f"{GTP_COLUMNS[col]}{size - row}"


def from_gtp(size: int, vertex: str) -> int:
    """The action of a GTP vertex, in upper or lower case.

    >>> from_gtp(9, 'd4'), from_gtp(9, 'PASS')
    (48, 81)

    Raises:
      ValueError: not a vertex of this board.
    """
    name = vertex.strip().upper()
    if name == "PASS":
        return size * size
    last = f"{GTP_COLUMNS[size - 1]}{size}"
    if len(name) < 2 or not (name[1:].isascii() and name[1:].isdigit()):
        raise ValueError(f"invalid vertex {vertex!r}: expected A1 to {last}, or pass")
    col, row = GTP_COLUMNS.find(name[0]), size - int(name[1:])
    if not (0 <= col < size and 0 <= row < size):
        raise ValueError(f"invalid vertex {vertex!r}: expected A1 to {last}, or pass")
    return row * size + col


def to_sgf(size: int, action: int) -> str:
    """`action` as an SGF point: ``aa`` is the top left, the empty string the pass."""
    if action == size * size:
        return ""
    row, col = row_col(size, action)
    return chr(ord("a") + col) + chr(ord("a") + row)


def from_sgf(size: int, point: str) -> int:
    """The action of an SGF point; the empty string, and ``tt`` up to 19x19, are the pass.

    Raises:
      ValueError: not a point of this board.
    """
    if point == "" or (point == "tt" and size <= 19):
        return size * size
    if len(point) == 2:
        col, row = (ord(letter) - ord("a") for letter in point)
        if 0 <= col < size and 0 <= row < size:
            return row * size + col
    raise ValueError(f"invalid SGF point {point!r} for a {size}x{size} board")


def star_points(size: int) -> list[tuple[int, int]]:
    """(row, col) of the star points.

    The corners from 7x7 up; on boards of odd size also the centre from 5x5, the sides from 13x13.
    """
    middle = size // 2
    if size < 7:
        return [(middle, middle)] if size == 5 else []
    edge = 3 if size >= 13 else 2
    lines = [edge, size - 1 - edge]
    stars = [(row, col) for row in lines for col in lines]
    if size % 2:
        stars.append((middle, middle))
    if size % 2 and size >= 13:
        stars += [(middle, line) for line in lines] + [(line, middle) for line in lines]
    return stars


def is_komi(komi: float) -> bool:
    """Whether a game can be played with this komi."""
    return math.isfinite(komi) and abs(komi) <= MAX_KOMI and komi * 2 % 1 == 0


def result_text(score: float) -> str:
    """A score for Black, as SGF and GTP write it.

    >>> result_text(3.5), result_text(-7.0), result_text(0.0)
    ('B+3.5', 'W+7', '0')
    """
    if score == 0:
        return "0"
    return f"{'B' if score > 0 else 'W'}+{abs(score):g}"
