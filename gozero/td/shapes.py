"""Local shapes: every 1x1, 2x2 and 3x3 window of a board, what is in it, and whose weight it has.

The features of RLGO (Silver, Sutton & Müller 2007 and 2012; Gelly & Silver 2011, section 3.4). A
feature is a window at a place and what its points hold: black, white or empty, read as a number of
base 3, the window's code. Exactly one feature of each place is active in a position.

Weights are shared. *Location dependent* features that a symmetry of the board turns into one
another are one weight; those that swapping the colours turns into one another have it with the
opposite sign, and one that is its own opposite, such as an empty window, has none. *Location
independent* ones are also shared over all places of a board. RLGO sums over both.

Places that are symmetric to each other share their rows of one **table**: a window is read through
the symmetry that takes it to the first of these places, which costs nothing, as it only
decides which point is which digit. An **entry** is the index of (that place, code) in the table;
what an entry is worth, all of its weights, is one number (`expand`). 9x9 has 197,685 entries.

Of the weights, number 0 is none and is always 0.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from gozero.go import symmetry

EMPTY, BLACK, WHITE = 0, 1, 2
"""Digits of a code."""

_MOST_SIDES = 3


@dataclasses.dataclass(frozen=True)
class Shapes:
    """Which features there are (static).

    Attributes:
      size: points on a side of the board.
      largest: the windows' sides are 1 to this, at most 3.
      anywhere: location independent features too, beside the location dependent ones.

    Raises:
      ValueError: windows that are larger than the board, or than 3.
    """

    size: int = 9
    largest: int = 3
    anywhere: bool = True

    def __post_init__(self):
        most = min(_MOST_SIDES, self.size)
        if not 1 <= self.largest <= most:
            raise ValueError(f"largest: {self.largest}; expected 1 to {most} on {self.size}x*")

    @property
    def num_windows(self) -> int:
        """P: the places of all windows; as many features are active (empty ones among them)."""
        return sum((self.size - side + 1) ** 2 for side in range(1, self.largest + 1))


class Windows(NamedTuple):
    """Where the windows are. P places, of at most 9 points each (host arrays)."""

    points: np.ndarray  # i32[P, 9]: the points of each, by digit; 0 beyond its last
    powers: np.ndarray  # i32[P, 9]: what a digit counts for, 3^digit; 0 beyond its last
    base: np.ndarray  # i32[P]: the entry of the empty window there
    num_entries: int  # E


class Slots(NamedTuple):
    """Which windows a point is in, at most 14 (host arrays). A slot that is none has power 0."""

    window: np.ndarray  # i32[14, n * n]
    power: np.ndarray  # i32[14, n * n]: what the point's digit counts for there


class Sharing(NamedTuple):
    """Whose weights an entry has."""

    weight: Any
    """i32[S, E]: +k for weight k, -k for weight k with the opposite sign, 0 for none.

    Row 0 is of the location dependent weights, row 1 (if any) of the location independent ones.
    """
    num_weights: int  # K; arrays of weights have K + 1 numbers, the first 0


@functools.cache
def windows(shapes: Shapes) -> Windows:
    """The places, squares of one size after the other, row-major."""
    points, powers, base, start = [], [], [], 0
    for side in range(1, shapes.largest + 1):
        area, firsts = side * side, _first_places(shapes.size, side)
        for here, first, digits in _places(shapes.size, side):
            base.append(start + firsts.index(first) * 3**area)
            points.append(np.pad(here, (0, 9 - area)))
            powers.append(np.pad(3**digits, (0, 9 - area)))
        start += len(firsts) * 3**area
    as_array = lambda rows: np.array(rows, np.int32)
    return Windows(as_array(points), as_array(powers), as_array(base), start)


def _cells(size: int, side: int, row: int, col: int) -> np.ndarray:
    """i32[side^2]: the points of the window at (row, col), row-major."""
    rows, cols = np.divmod(np.arange(side * side), side)
    return (row + rows) * size + col + cols


def _images(size: int, side: int, cells: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """For each symmetry of the board: (the first point of the window's image, digit of each cell).

    A cell's digit is its place in the image, row-major.
    """
    found = []
    for moved in symmetry.inverses(size):
        image = moved[cells]
        first = int(image.min())
        digits = np.searchsorted(_cells(size, side, *divmod(first, size)), image)
        found.append((first, digits))
    return found


@functools.cache
def _places(size: int, side: int) -> list[tuple[np.ndarray, int, np.ndarray]]:
    """For each place: (its points, the first place symmetric to it, the digits there)."""
    found = []
    for row, col in np.ndindex(size - side + 1, size - side + 1):
        cells = _cells(size, side, row, col)
        first, digits = min(_images(size, side, cells), key=lambda image: image[0])
        found.append((cells, first, digits))
    return found


def _first_places(size: int, side: int) -> list[int]:
    """The places that are the first of those symmetric to them, as they come."""
    return list(dict.fromkeys(first for _, first, _ in _places(size, side)))


@functools.cache
def slots(shapes: Shapes) -> Slots:
    """The windows of each point."""
    found = windows(shapes)
    most = sum(side * side for side in range(1, shapes.largest + 1))
    window = np.zeros((most, shapes.size**2), np.int32)
    power, used = np.zeros_like(window), np.zeros(shapes.size**2, int)
    for w, (points, powers) in enumerate(zip(found.points, found.powers, strict=True)):
        for point, digit in zip(points[powers > 0], powers[powers > 0], strict=True):
            window[used[point], point], power[used[point], point] = w, digit
            used[point] += 1
    return Slots(window, power)


@functools.cache
def sharing(shapes: Shapes) -> Sharing:
    """Which weights the entries share (host arrays; give them to jitted code as arguments)."""
    rows, count = [], 0
    for groups in (_location_dependent, _location_independent)[: 1 + shapes.anywhere]:
        parts = []
        for side, turns, num_places in groups(shapes):
            part, number = _classes(side, turns)
            parts += [np.sign(part) * (np.abs(part) + count * (part != 0))] * num_places
            count += number
        rows.append(np.concatenate(parts))
    return Sharing(np.stack(rows).astype(np.int32), count)


Groups = Iterator[tuple[int, list[np.ndarray], int]]
"""For each set of places that share weights: (side, the turns of `_classes`, how many places)."""


def _location_dependent(shapes: Shapes) -> Groups:
    for side in range(1, shapes.largest + 1):
        for first in _first_places(shapes.size, side):
            cells = _cells(shapes.size, side, *divmod(first, shapes.size))
            images = _images(shapes.size, side, cells)
            yield side, [digits for image, digits in images if image == first], 1


def _location_independent(shapes: Shapes) -> Groups:
    for side in range(1, shapes.largest + 1):
        images = _images(side, side, np.arange(side * side))
        yield side, [digits for _, digits in images], len(_first_places(shapes.size, side))


def _classes(side: int, turns: list[np.ndarray]) -> tuple[np.ndarray, int]:
    """Codes that are one weight if digits may be moved in any of these ways: (+-k or 0, how many).

    Args:
      side: of the window.
      turns: for each way, where each digit goes; they are a group.
    """
    area = side * side
    digits = np.arange(3**area)[:, None] // 3 ** np.arange(area) % 3
    swapped = np.array([EMPTY, WHITE, BLACK])[digits]
    least = lambda held: np.min([held @ 3**turn for turn in turns], axis=0)
    plain, opposite = least(digits), least(swapped)
    sign = np.sign(opposite - plain)
    named = np.minimum(plain, opposite)
    names = np.unique(named[sign != 0])
    return sign * (np.searchsorted(names, named) + 1), len(names)


def expand(weight: Any, weights: Any) -> Any:
    """f32[E]: what each entry is worth: the sum of its weights, with their signs.

    Args:
      weight: i32[S, E], of `Sharing`.
      weights: f32[K + 1], the first 0.
    """
    xp = np if isinstance(weights, np.ndarray) else jnp
    parts = [xp.sign(row).astype(weights.dtype) * weights[abs(row)] for row in weight]
    return functools.reduce(lambda a, b: a + b, parts)
