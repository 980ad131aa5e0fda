"""3x3 shapes: the contents of the eight points around a point, for the player to move.

A shape has a **code** of 16 bits, eight for the mover's stones and eight for the opponent's; a
point off the board has both bits set. The neighbours are numbered in reading order:

    0 1 2
    3 . 4
    5 6 7

Shapes that a symmetry of the board maps to each other form one **class**, and a policy has one
strength per class. Colours are relative to the mover, so swapping Black and White changes nothing.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb

NUM_CODES = 1 << 16
_PLACES = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2))
_FIELD = np.uint32(7)


# --- codes of a whole board -----------------------------------------------------------


def rows(lay: bb.Layout, board: bb.Board) -> jax.Array:
    """W words u32[...] -> u32[size, ...]: one row of the board each, column c at bit c."""
    full, split = np.uint32((1 << lay.size) - 1), []
    for row in range(lay.size):
        word, place = divmod(row, lay.rows_per_word)
        split.append((board[word] >> np.uint32(place * lay.stride)) & full)
    return jnp.stack(split)


def framed(lay: bb.Layout, rows: jax.Array) -> jax.Array:
    """u32[size, ...] -> u32[size + 2, ...]: adds a frame of points off the board, all set."""
    edge = jnp.full_like(rows[:1], np.uint32(0xFFFFFFFF))
    sides = np.uint32(1 | (1 << (lay.size + 1)))
    return jnp.concatenate([edge, (rows << np.uint32(1)) | sides, edge])


def codes(lay: bb.Layout, own: jax.Array, opponent: jax.Array) -> jax.Array:
    """The code of every point, including occupied ones.

    Args:
      lay: the layout.
      own, opponent: u32[size + 2, ...]; `framed` rows.

    Returns:
      u32[size, size, ...].
    """
    return _neighbours(lay, own) | (_neighbours(lay, opponent) << np.uint32(8))


def _neighbours(lay: bb.Layout, rows: jax.Array) -> jax.Array:
    """u32[size + 2, ...] -> u32[size, size, ...]: which of the eight neighbours are set."""
    size = lay.size
    column = np.arange(size, dtype=np.uint32).reshape(1, size, *[1] * (rows.ndim - 1))

    def three(first):
        """West, middle and east of each point, in the row above (0), its own (1) or below (2)."""
        return (rows[first : first + size, None] >> column) & _FIELD

    above, beside, below = three(0), three(1), three(2)
    west, east = beside & np.uint32(1), beside & np.uint32(4)
    return above | (west << np.uint32(3)) | (east << np.uint32(2)) | (below << np.uint32(5))


def bits(lay: bb.Layout, rows: jax.Array) -> jax.Array:
    """u32[size, ...] -> u32[size, size, ...]: 1 where the point is set, else 0."""
    column = np.arange(lay.size, dtype=np.uint32).reshape(1, lay.size, *[1] * (rows.ndim - 1))
    return (rows[:, None] >> column) & np.uint32(1)


# --- classes --------------------------------------------------------------------------


@functools.cache
def class_codes() -> np.ndarray:
    """i32[C]: the lowest code of each class, in ascending order. There are 1107 classes."""
    return np.unique(_least_codes()[_on_boards()])


@functools.cache
def classes() -> np.ndarray:
    """i32[65536]: the class of each code; 0 for codes that occur on no board."""
    least = _least_codes()
    class_of = np.searchsorted(class_codes(), least)
    return np.where(_on_boards(), class_of, 0).astype(np.int32)


@functools.cache
def _least_codes() -> np.ndarray:
    """i32[65536]: the lowest code among the eight symmetric images of each code."""
    all_codes = np.arange(NUM_CODES)
    return np.min([_moved(all_codes, places) for places in _symmetries()], axis=0)


def _moved(codes: np.ndarray, places: list[int]) -> np.ndarray:
    """Permutes codes: neighbour places[k] moves to k."""
    out = np.zeros_like(codes)
    for k, source in enumerate(places):
        out |= (codes >> source & 1) << k | (codes >> source + 8 & 1) << (k + 8)
    return out


def _symmetries() -> list[list[int]]:
    """For each of the eight symmetries, which neighbour moves to 0, 1, ... 7."""
    numbers = np.full((3, 3), -1)
    for k, place in enumerate(_PLACES):
        numbers[place] = k
    turned = [np.rot90(x, turn) for x in (numbers, numbers.T) for turn in range(4)]
    return [[int(x[place]) for place in _PLACES] for x in turned]


@functools.cache
def _on_boards() -> np.ndarray:
    """bool[65536]: the points off the board are none, one side, or two sides that meet."""
    all_codes = np.arange(NUM_CODES)
    off = all_codes & (all_codes >> 8)
    sides = [0b00000111, 0b00101001, 0b10010100, 0b11100000]  # north, west, east, south
    corners = [sides[a] | sides[b] for a in (0, 3) for b in (1, 2)]
    return np.isin(off, [0, *sides, *corners])
