"""Boards as tuples of 32-bit words, for one game.

A board of n x n points is W uint32 scalars. A word holds ``rows_per_word`` rows of the
board, lowest row first, each row n bits and one guard bit that is never set, so that a
shift by one never carries a stone into the next row:

    point (row, col)  ->  word row // R, bit (row % R) * (n + 1) + col

Every function here is written for one game on scalars. Under ``vmap`` each word becomes a
vector over games and every operation stays elementwise: the batch is the vector axis, and
nothing is gathered. The same functions work on words of any common shape, which is how a
list of T past boards is handled in one go (words of shape [T]).

What grows stones along their chains is in `floods`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import batching

Board = tuple[jax.Array, ...]
"""W uint32 words, scalars for one game."""

NO_POINT = -1
"""The point that is no point: sentinel of ko and of `point_of` on an empty board."""

WORD_BITS = 32


@dataclasses.dataclass(frozen=True)
class Layout:
    """How the points of an n x n board lie in words (static, made by `layout`)."""

    size: int
    stride: int  # bits from a point to the one below it in the same word
    rows_per_word: int  # R
    num_words: int  # W
    full: tuple[np.uint32, ...]  # every point of the board
    edge: tuple[np.uint32, ...]  # the points of the first line

    @property
    def num_points(self) -> int:
        return self.size * self.size

    @property
    def last_row_shift(self) -> np.uint32:
        """Bits from a word's first row to its last."""
        return np.uint32(self.stride * (self.rows_per_word - 1))


@functools.cache
def layout(size: int) -> Layout:
    """The layout of a size x size board."""
    stride = size + 1
    rows_per_word = min(size, WORD_BITS // stride)
    num_words = -(-size // rows_per_word)

    def words(points):
        out = [0] * num_words
        for row, col in points:
            out[row // rows_per_word] |= 1 << ((row % rows_per_word) * stride + col)
        return tuple(np.uint32(word) for word in out)

    points = [(row, col) for row in range(size) for col in range(size)]
    first_line = [p for p in points if {0, size - 1} & set(p)]
    return Layout(size, stride, rows_per_word, num_words, words(points), words(first_line))


# --- sets of points -------------------------------------------------------------------


def empty(lay: Layout) -> Board:
    # An array a word: a state made of one array many times could not be donated.
    return tuple(jnp.zeros((), jnp.uint32) for _ in range(lay.num_words))


def union(a: Board, b: Board) -> Board:
    return tuple(x | y for x, y in zip(a, b, strict=True))


def union_all(boards: Sequence[Board]) -> Board:
    return functools.reduce(union, boards)


def intersection(a: Board, b: Board) -> Board:
    return tuple(x & y for x, y in zip(a, b, strict=True))


def difference(a: Board, b: Board) -> Board:
    return tuple(x & ~y for x, y in zip(a, b, strict=True))


def complement(lay: Layout, a: Board) -> Board:
    """The points of the board that are not in `a`."""
    return tuple(full & ~x for full, x in zip(lay.full, a, strict=True))


def where(condition: jax.Array, a: Board, b: Board) -> Board:
    return tuple(jnp.where(condition, x, y) for x, y in zip(a, b, strict=True))


def swapped(condition: jax.Array, a: Board, b: Board) -> tuple[Board, Board]:
    """(a, b), or where the condition holds (b, a): Black's and White's, own and the opponent's."""
    return where(condition, b, a), where(condition, a, b)


def keep(condition: jax.Array, a: Board) -> Board:
    """`a` where the condition holds, the empty board elsewhere."""
    return tuple(jnp.where(condition, x, np.uint32(0)) for x in a)


def any_of(a: Board) -> jax.Array:
    """bool[]: is there a point in `a`?"""
    return functools.reduce(lambda x, y: x | y, a) != 0


def count(a: Board) -> jax.Array:
    """i32[]: the number of points in `a`."""
    counts = [lax.population_count(x) for x in a]
    return functools.reduce(lambda x, y: x + y, counts).astype(jnp.int32)


# --- points ---------------------------------------------------------------------------


def at(lay: Layout, point: jax.Array) -> Board:
    """The board with one point set; empty for a pass, `NO_POINT` or any other non-point."""
    point = jnp.asarray(point, jnp.int32)
    row, col = point // lay.size, point % lay.size
    word = row // lay.rows_per_word
    shift = (row % lay.rows_per_word) * lay.stride + col
    on_board = (point >= 0) & (point < lay.num_points)
    bit = jnp.where(on_board, np.uint32(1) << shift.astype(jnp.uint32), np.uint32(0))
    return tuple(jnp.where(word == w, bit, np.uint32(0)) for w in range(lay.num_words))


def point_of(lay: Layout, a: Board) -> jax.Array:
    """i32[]: the one point of `a`, or `NO_POINT` if `a` is empty. At most one may be set."""
    point = jnp.full(jnp.shape(a[0]), NO_POINT, jnp.int32)
    for w, word in enumerate(a):
        bit = (WORD_BITS - 1) - lax.clz(word).astype(jnp.int32)
        row = w * lay.rows_per_word + bit // lay.stride
        point = jnp.where(word != 0, row * lay.size + bit % lay.stride, point)
    return point


# --- neighbours -----------------------------------------------------------------------


def south(lay: Layout, a: Board) -> Board:
    """Every point moved one row down. What leaves the board is not cleared: mask it."""
    if lay.rows_per_word == 1:
        return (jnp.zeros_like(a[0]), *a[:-1])
    stride, rest = np.uint32(lay.stride), lay.last_row_shift
    moved = [word << stride for word in a]
    for w in range(1, lay.num_words):
        moved[w] = moved[w] | (a[w - 1] >> rest)
    return tuple(moved)


def north(lay: Layout, a: Board) -> Board:
    """Every point moved one row up. What leaves the board is not cleared: mask it."""
    if lay.rows_per_word == 1:
        return (*a[1:], jnp.zeros_like(a[0]))
    stride, rest = np.uint32(lay.stride), lay.last_row_shift
    moved = [word >> stride for word in a]
    for w in range(lay.num_words - 1):
        moved[w] = moved[w] | (a[w + 1] << rest)
    return tuple(moved)


def neighbours(lay: Layout, a: Board) -> Board:
    """The points of the board next to a point of `a` (points of `a` among them or not)."""
    return _on_board(lay, beside(lay, a))


def beside(lay: Layout, a: Board) -> Board:
    """`neighbours`, and what lies off the board there: to be met with points of the board."""
    one = np.uint32(1)
    return tuple(
        (word << one) | (word >> one) | up | down
        for word, up, down in zip(a, north(lay, a), south(lay, a), strict=True)
    )


def _on_board(lay: Layout, a: Board) -> Board:
    return tuple(full & x for full, x in zip(lay.full, a, strict=True))


def joints(lay: Layout, a: Board) -> tuple[Board, Board]:
    """Which points of `a` are joined to their east, and which to their south, neighbour."""
    east = tuple(word & (word >> np.uint32(1)) for word in a)
    return east, intersection(a, north(lay, a))


def joints_of_both(lay: Layout, own: Board, opponent: Board) -> tuple[Board, Board]:
    """Stones joined to their (east, south) neighbour of the same colour."""
    own_east, own_south = joints(lay, own)
    their_east, their_south = joints(lay, opponent)
    return union(own_east, their_east), union(own_south, their_south)


# --- in and out -----------------------------------------------------------------------


def unpack(lay: Layout, a: Board) -> jax.Array:
    """Board -> bool[n * n], row-major from the top left. Words of shape [] only.

    Behind a fusion barrier, or every one of the n * n points would compute the board anew.
    """
    return _unpack(lay)(a)


@functools.cache
def _unpack(lay: Layout) -> Callable:
    rows, cols = np.divmod(np.arange(lay.num_points), lay.size)
    bits = (rows % lay.rows_per_word) * lay.stride + cols
    masks = [
        np.where(rows // lay.rows_per_word == w, 1 << bits, 0).astype(np.uint32)
        for w in range(lay.num_words)
    ]

    def points(a: Board) -> jax.Array:
        """Each point tests its bit in every word: no gather, and one pass for all points."""
        found = [word & mask for word, mask in zip(a, masks, strict=True)]
        return functools.reduce(lambda x, y: x | y, found) != 0

    return batching.behind_barrier(points)


def pack(lay: Layout, mask: jax.Array) -> Board:
    """bool[n * n] or bool[n, n] -> Board, the inverse of `unpack`."""
    rows = jnp.asarray(mask).reshape(lay.size, lay.size).astype(jnp.uint32)
    columns = np.arange(lay.size, dtype=np.uint32)[None, :]
    row_bits = jnp.sum(rows << columns, axis=1, dtype=jnp.uint32)
    words = [jnp.uint32(0)] * lay.num_words
    for row in range(lay.size):
        w, r = divmod(row, lay.rows_per_word)
        words[w] = words[w] | (row_bits[row] << np.uint32(r * lay.stride))
    return tuple(words)
