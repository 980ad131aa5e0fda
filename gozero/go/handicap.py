"""Where handicap stones go. Plain Python; `setup.with_handicap` makes a game of them.

Specification: GTP version 2, draft 2, section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from gozero.go.coords import to_gtp

_CORNERS = ((2, 0), (0, 2), (0, 0), (2, 2))
_LEFT_AND_RIGHT = ((1, 0), (1, 2))
_BELOW_AND_ABOVE = ((2, 1), (0, 1))
_CENTRE = ((1, 1),)
_PATTERNS = {
    2: _CORNERS[:2],
    3: _CORNERS[:3],
    4: _CORNERS,
    5: _CORNERS + _CENTRE,
    6: _CORNERS + _LEFT_AND_RIGHT,
    7: _CORNERS + _LEFT_AND_RIGHT + _CENTRE,
    8: _CORNERS + _LEFT_AND_RIGHT + _BELOW_AND_ABOVE,
    9: _CORNERS + _LEFT_AND_RIGHT + _BELOW_AND_ABOVE + _CENTRE,
}
"""For each number of stones, their (row, col), in order, on lines 0, 1, 2 from the top left."""


def most_fixed(size: int) -> int:
    """The most stones of a fixed handicap: 9, but 4 on 7x7 and even boards, and 0 below 7x7."""
    if size < 7:
        return 0
    return 4 if size == 7 or size % 2 == 0 else 9


def fixed(size: int, number: int) -> list[int]:
    """The actions of a fixed handicap, in the order of GTP's table.

    The stones are on the third line up to 12x12, on the fourth from 13x13.

    >>> [to_gtp(9, action) for action in fixed(9, 5)]
    ['C3', 'G7', 'C7', 'G3', 'E5']

    Raises:
      ValueError: a number of stones without a fixed placement on this board.
    """
    max_stones = most_fixed(size)
    if not 2 <= number <= max_stones:
        if not max_stones:
            raise ValueError(f"number: {number}; there is no fixed handicap on {size}x{size}")
        raise ValueError(
            f"number: {number} stones; a fixed handicap on {size}x{size} has 2 to {max_stones}"
        )
    edge = 3 if size >= 13 else 2
    lines = (edge, size // 2, size - 1 - edge)
    return [lines[row] * size + lines[col] for row, col in _PATTERNS[number]]


def free(size: int, number: int) -> list[int]:
    """The actions of a free handicap, as this library places it.

    The fixed placement as far as it goes; then each further stone on the empty point farthest from
    all stones, off the first line if possible.

    Raises:
      ValueError: fewer than 2 stones, or no empty point left.
    """
    _check_number(size, number)
    start = min(number, most_fixed(size))
    placed = fixed(size, start) if start else []
    empty = [action for action in range(size * size) if action not in placed]
    nearest = {
        action: min((_distance(size, action, p) for p in placed), default=0) for action in empty
    }
    while len(placed) < number:
        best = max(nearest, key=lambda a: (_line(size, a) > 0, nearest[a], _line(size, a), -a))
        del nearest[best]
        placed.append(best)
        for action in nearest:
            distance = _distance(size, action, best)
            nearest[action] = distance if len(placed) == 1 else min(nearest[action], distance)
    return placed


def check_free(size: int, actions: Sequence[int]) -> None:
    """Check that points are a valid free handicap.

    Raises:
      ValueError: fewer than 2 stones, no empty point left, a pass or a repeated point.
    """
    _check_number(size, len(actions))
    for place, action in enumerate(actions):
        if not 0 <= action < size * size:
            raise ValueError(f"actions: {action} is not a point of a {size}x{size} board")
        if action in actions[:place]:
            raise ValueError(f"actions: {to_gtp(size, action)} occurs twice")


def _check_number(size: int, number: int) -> None:
    if not 2 <= number < size * size:
        raise ValueError(
            f"number: {number} stones; a free handicap on {size}x{size} has 2 to {size * size - 1}"
        )


def _line(size: int, action: int) -> int:
    """0 for the first line, 1 for the second, ..."""
    row, col = divmod(action, size)
    return min(row, col, size - 1 - row, size - 1 - col)


def _distance(size: int, a: int, b: int) -> int:
    """Squared distance between two points."""
    return (a // size - b // size) ** 2 + (a % size - b % size) ** 2
