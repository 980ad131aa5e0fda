"""3x3 shapes: what stands on the eight points around a point, as the player to move sees it.

A shape has a **code** of 16 bits, eight for the mover's stones and eight for the opponent's; a
point off the board has both. The neighbours are numbered in reading order:

    0 1 2
    3 . 4
    5 6 7

Shapes that a symmetry of the board carries into each other are one **class**, and a policy has
one strength a class. Colours are those of the mover, so to swap them changes nothing.
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
    """W words u32[...] -> u32[size, ...]: a row of the board each, column c at bit c."""
    full, split = np.uint32((1 << lay.size) - 1), []
    for row in range(lay.size):
        word, place = divmod(row, lay.rows_per_word)
        split.append((board[word] >> np.uint32(place * lay.stride)) & full)
    return jnp.stack(split)


def framed(lay: bb.Layout, rows: jax.Array) -> jax.Array:
    """u32[size, ...] -> u32[size + 2, ...]: with a frame of points off the board set around it."""
    edge = jnp.full_like(rows[:1], np.uint32(0xFFFFFFFF))
    sides = np.uint32(1 | (1 << (lay.size + 1)))
    return jnp.concatenate([edge, (rows << np.uint32(1)) | sides, edge])


def codes(lay: bb.Layout, own: jax.Array, opponent: jax.Array) -> jax.Array:
    """The code of every point, of occupied ones too.

    Args:
      lay: the layout.
      own, opponent: u32[size + 2, ...], framed rows.

    Returns:
      u32[size, size, ...].
    """
    return _neighbours(lay, own) | (_neighbours(lay, opponent) << np.uint32(8))


def _neighbours(lay: bb.Layout, rows: jax.Array) -> jax.Array:
    """u32[size + 2, ...] -> u32[size, size, ...]: which of the eight neighbours are set."""
    size = lay.size
    column = np.arange(size, dtype=np.uint32).reshape(1, size, *[1] * (rows.ndim - 1))

    def three(first):
        """West, middle and east of each point, in the row so far from its own."""
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
    """i32[C]: the least code of each class, in ascending order. 1107 classes."""
    return np.unique(_least_codes()[_on_boards()])


@functools.cache
def classes() -> np.ndarray:
    """i32[65536]: the class of each code; 0 of those that are on no board."""
    least = _least_codes()
    found = np.searchsorted(class_codes(), least)
    return np.where(_on_boards(), found, 0).astype(np.int32)


@functools.cache
def _least_codes() -> np.ndarray:
    """i32[65536]: the least code among those that the eight symmetries make of each."""
    every = np.arange(NUM_CODES)
    return np.min([_moved(every, places) for places in _symmetries()], axis=0)


def _moved(codes: np.ndarray, places: list[int]) -> np.ndarray:
    """Codes with neighbour places[k] at k."""
    out = np.zeros_like(codes)
    for k, source in enumerate(places):
        out |= (codes >> source & 1) << k | (codes >> source + 8 & 1) << (k + 8)
    return out


def _symmetries() -> list[list[int]]:
    """Eight times: which neighbour comes to stand at 0, 1, ... 7."""
    numbers = np.full((3, 3), -1)
    for k, place in enumerate(_PLACES):
        numbers[place] = k
    turned = [np.rot90(x, turn) for x in (numbers, numbers.T) for turn in range(4)]
    return [[int(x[place]) for place in _PLACES] for x in turned]


@functools.cache
def _on_boards() -> np.ndarray:
    """bool[65536]: what is off the board is nothing, a side, or two sides that meet."""
    every = np.arange(NUM_CODES)
    off = every & (every >> 8)
    sides = [0b00000111, 0b00101001, 0b10010100, 0b11100000]  # north, west, east, south
    corners = [sides[a] | sides[b] for a in (0, 3) for b in (1, 2)]
    return np.isin(off, [0, *sides, *corners])
