"""Local shapes: every 1x1, 2x2 and 3x3 window of a board, its contents, and the weight it uses.

The features of RLGO (Silver, Sutton & Müller 2007 and 2012; Gelly & Silver 2011, section 3.4). A
feature is a window at a place together with its contents: each point is black, white or empty, and
they are read as a number in base 3, the window's code. In any position exactly one feature of each
place is active.

Weights are shared. *Location dependent* features that a symmetry of the board maps to each other
share a weight; those that swapping the colours maps to each other use it with opposite signs, and
one that is its own opposite, such as an empty window, has none. *Location independent* features are
also shared over all places of a board. RLGO sums both kinds.

Places that are symmetric to each other share their rows of one **table**: a window is read through
the symmetry that maps it to the first of these places, which costs nothing, as it only decides
which point is which digit. An **entry** is the index of (that place, code) in the table, and its
value, the sum of its weights, is one number (`expand`). 9x9 has 197,685 entries.

Weight number 0 means "no weight" and is always 0.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from gozero.go import symmetry
from gozero.go.coords import MAX_SIZE, MIN_SIZE
from gozero.runs.settings import COUNT, Range, check_ranges

EMPTY, BLACK, WHITE = 0, 1, 2
"""Digits of a code."""

_MAX_SIDE = 3


@dataclasses.dataclass(frozen=True)
class Shapes:
    """Which features there are (static).

    Attributes:
      size: points on a side of the board.
      largest: windows have sides of 1 up to this, which is at most 3.
      anywhere: whether to add location independent features to the location dependent ones.

    Raises:
      ValueError: windows larger than the board, or than 3.
    """

    size: int = 9
    largest: int = 3
    anywhere: bool = True

    def __post_init__(self):
        check_ranges(self, size=Range(MIN_SIZE, MAX_SIZE, whole=True), largest=COUNT)
        max_side = min(_MAX_SIDE, self.size)
        if not 1 <= self.largest <= max_side:
            raise ValueError(
                f"largest: {self.largest} is not from 1 to {max_side} (for size {self.size})"
            )

    @property
    def num_windows(self) -> int:
        """P: the number of windows, and of active entries (those of empty windows included)."""
        return sum((self.size - side + 1) ** 2 for side in range(1, self.largest + 1))


class Windows(NamedTuple):
    """Where the windows are: P places with at most 9 points each (host arrays)."""

    points: np.ndarray  # i32[P, 9]: the points of each window, by digit; 0 beyond its last
    powers: np.ndarray  # i32[P, 9]: the place value 3^digit of each point; 0 beyond its last
    base: np.ndarray  # i32[P]: the entry of the empty window there
    num_entries: int  # E


class Slots(NamedTuple):
    """The windows that contain each point, at most 14 (host arrays). Unused slots have power 0."""

    window: np.ndarray  # i32[14, n * n]
    power: np.ndarray  # i32[14, n * n]: the place value of the point's digit there


class Sharing(NamedTuple):
    """Which weights each entry uses."""

    weight_index: Any
    """i32[S, E]: +k for weight k, -k for weight k with the opposite sign, 0 for none.

    Row 0 is for the location dependent weights, row 1 (if any) for the location independent ones.
    """
    num_weights: int  # K; arrays of weights have K + 1 numbers, the first of them 0


@functools.cache
def windows(shapes: Shapes) -> Windows:
    """The places of all windows, by increasing side, row-major."""
    points, powers, base, start = [], [], [], 0
    for side in range(1, shapes.largest + 1):
        area, firsts = side * side, _first_places(shapes.size, side)
        for cells, first, digits in _places(shapes.size, side):
            base.append(start + firsts.index(first) * 3**area)
            points.append(np.pad(cells, (0, 9 - area)))
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

    A cell's digit is its row-major index in the image.
    """
    images = []
    for inverse in symmetry.inverses(size):
        image = inverse[cells]
        first = int(image.min())
        digits = np.searchsorted(_cells(size, side, *divmod(first, size)), image)
        images.append((first, digits))
    return images


@functools.cache
def _places(size: int, side: int) -> list[tuple[np.ndarray, int, np.ndarray]]:
    """For each place: (its points, the first place symmetric to it, their digits there)."""
    places = []
    for row, col in np.ndindex(size - side + 1, size - side + 1):
        cells = _cells(size, side, row, col)
        first, digits = min(_images(size, side, cells), key=lambda image: image[0])
        places.append((cells, first, digits))
    return places


def _first_places(size: int, side: int) -> list[int]:
    """The places that are the first among those symmetric to them, in order."""
    return list(dict.fromkeys(first for _, first, _ in _places(size, side)))


@functools.cache
def slots(shapes: Shapes) -> Slots:
    """The windows that contain each point."""
    all_windows = windows(shapes)
    num_slots = sum(side * side for side in range(1, shapes.largest + 1))
    window = np.zeros((num_slots, shapes.size**2), np.int32)
    power, used = np.zeros_like(window), np.zeros(shapes.size**2, int)
    for w, (points, powers) in enumerate(zip(all_windows.points, all_windows.powers, strict=True)):
        for point, digit in zip(points[powers > 0], powers[powers > 0], strict=True):
            window[used[point], point], power[used[point], point] = w, digit
            used[point] += 1
    return Slots(window, power)


@functools.cache
def sharing(shapes: Shapes) -> Sharing:
    """Which weights the entries use (host arrays; pass them to jitted code as arguments)."""
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
"""For each set of places that share weights: (side, turns as for `_classes`, number of places)."""


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
    """(the weight +-k or 0 of each code, how many weights there are).

    Codes share a weight if one of the permutations of their digits maps them to each other.

    Args:
      side: the side of the window.
      turns: the permutations, a group: for each, where each digit goes.
    """
    area = side * side
    digits = np.arange(3**area)[:, None] // 3 ** np.arange(area) % 3
    swapped = np.array([EMPTY, WHITE, BLACK])[digits]
    least = lambda contents: np.min([contents @ 3**turn for turn in turns], axis=0)
    plain, opposite = least(digits), least(swapped)
    sign = np.sign(opposite - plain)
    canonical = np.minimum(plain, opposite)
    class_codes = np.unique(canonical[sign != 0])
    return sign * (np.searchsorted(class_codes, canonical) + 1), len(class_codes)


def expand(weight_index: Any, weights: Any) -> Any:
    """f32[E]: the value of each entry, the signed sum of its weights.

    Args:
      weight_index: i32[S, E], from `Sharing`.
      weights: f32[K + 1], the first 0.
    """
    xp = np if isinstance(weights, np.ndarray) else jnp
    parts = [xp.sign(row).astype(weights.dtype) * weights[abs(row)] for row in weight_index]
    return functools.reduce(lambda a, b: a + b, parts)
