"""Boards as tuples of 32-bit words, for one game.

A board of n x n points is W uint32 scalars. A word holds ``rows_per_word`` rows of the
board, lowest row first, each row n bits and one guard bit that is never set, so that a
shift by one never carries a stone into the next row:

    point (row, col)  ->  word row // R, bit (row % R) * (n + 1) + col

Every function here is written for one game on scalars. Under ``vmap`` each word becomes a
vector over games and every operation stays elementwise: the batch is the vector axis, and
nothing is gathered. The same functions work on words of any common shape, which is how a
list of T past boards is handled in one go (words of shape [T]).

The functions on sets of points and on neighbours also take arrays u32[W, ...] (`stacked`), and
then return arrays: one operation handles all words, where dozens of separate words a board would
take long to compile.

Growing stones along their chains (flood fill) is in `floods`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import batching, mode

Board = tuple[jax.Array, ...]
"""W uint32 words, scalars for one game."""

AnyBoard = TypeVar("AnyBoard", Board, jax.Array)
"""A `Board`, or an array u32[W, ...]."""

NO_POINT = -1
"""Sentinel for "no point": no ko, or `point_of` an empty board."""

WORD_BITS = 32


@dataclasses.dataclass(frozen=True)
class Layout:
    """How the points of an n x n board are laid out in words (static; made by `layout`)."""

    size: int
    stride: int  # bits from a point to the one below it in the same word
    rows_per_word: int  # R
    num_words: int  # W
    full: tuple[np.uint32, ...]  # words with every point of the board set
    edge: tuple[np.uint32, ...]  # words with the points of the first line (the border) set

    @property
    def num_points(self) -> int:
        return self.size * self.size

    @property
    def last_row_shift(self) -> np.uint32:
        """The shift, in bits, from a word's first row to its last."""
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
    # A separate array for each word: a state that holds one array many times cannot be donated.
    return tuple(jnp.zeros((), jnp.uint32) for _ in range(lay.num_words))


def each_word(function: Callable, *boards: Any) -> Any:
    """``function(*words)`` for each word of the boards; on arrays, for all words at once."""
    if isinstance(boards[0], tuple):
        return tuple(function(*words) for words in zip(*boards, strict=True))
    return function(*boards)


def masked(words: tuple[np.uint32, ...], a: AnyBoard) -> AnyBoard:
    """The points of `a` that are set in constant words, such as `Layout.full`."""
    if isinstance(a, tuple):
        return each_word(lambda mask, x: mask & x, words, a)
    all_equal = len(set(words)) == 1
    return a & (words[0] if all_equal else np.array(words).reshape(-1, *[1] * (a.ndim - 1)))


def union(a: AnyBoard, b: AnyBoard) -> AnyBoard:
    return each_word(lambda x, y: x | y, a, b)


def union_all(boards: Sequence[AnyBoard]) -> AnyBoard:
    return functools.reduce(union, boards)


def intersection(a: AnyBoard, b: AnyBoard) -> AnyBoard:
    return each_word(lambda x, y: x & y, a, b)


def difference(a: AnyBoard, b: AnyBoard) -> AnyBoard:
    return each_word(lambda x, y: x & ~y, a, b)


def complement(lay: Layout, a: AnyBoard) -> AnyBoard:
    """The points of the board that are not in `a`."""
    return masked(lay.full, each_word(lambda x: ~x, a))


def where(condition: jax.Array, a: AnyBoard, b: AnyBoard) -> AnyBoard:
    condition = condition if isinstance(a, tuple) else condition[None]
    return each_word(lambda x, y: jnp.where(condition, x, y), a, b)


def swapped(condition: jax.Array, a: AnyBoard, b: AnyBoard) -> tuple[AnyBoard, AnyBoard]:
    """(b, a) where the condition holds, else (a, b): turns (black, white) into (own, opponent)."""
    return where(condition, b, a), where(condition, a, b)


def keep(condition: jax.Array, a: AnyBoard) -> AnyBoard:
    """`a` where the condition holds, the empty board elsewhere."""
    condition = condition if isinstance(a, tuple) else condition[None]
    return each_word(lambda x: jnp.where(condition, x, np.uint32(0)), a)


def any_of(a: Board | jax.Array) -> jax.Array:
    """bool[]: whether any point of `a` is set."""
    return or_words(a) != 0


def or_words(a: Board | jax.Array) -> jax.Array:
    """u32[]: the OR of all words."""
    # In one kernel of a CPU, LLVM does not vectorise the loop of a reduction over words.
    if isinstance(a, tuple) or mode.writes_sequentially():
        return functools.reduce(lambda x, y: x | y, a)
    return lax.reduce(a, np.uint32(0), lax.bitwise_or, (0,))


def count(a: Board | jax.Array) -> jax.Array:
    """i32[]: the number of points in `a`."""
    counts = each_word(lax.population_count, a)
    # As in `or_words`.
    if isinstance(a, tuple) or mode.writes_sequentially():
        return functools.reduce(lambda x, y: x + y, counts).astype(jnp.int32)
    return jnp.sum(counts, axis=0, dtype=jnp.uint32).astype(jnp.int32)


# --- points ---------------------------------------------------------------------------


def at(lay: Layout, point: jax.Array) -> Board:
    """The board with one point set; empty for a pass, `NO_POINT` or anything else off the board."""
    point = jnp.asarray(point, jnp.int32)
    row, col = point // lay.size, point % lay.size
    word = row // lay.rows_per_word
    shift = (row % lay.rows_per_word) * lay.stride + col
    on_board = (point >= 0) & (point < lay.num_points)
    bit = jnp.where(on_board, np.uint32(1) << shift.astype(jnp.uint32), np.uint32(0))
    return tuple(jnp.where(word == w, bit, np.uint32(0)) for w in range(lay.num_words))


def point_of(lay: Layout, a: Board) -> jax.Array:
    """i32[]: the only point of `a`, or `NO_POINT` if `a` is empty. At most one may be set."""
    index, word = jnp.zeros(jnp.shape(a[0]), jnp.int32), or_words(a)
    for w in range(1, lay.num_words):
        index = jnp.where(a[w] != 0, w, index)
    bit = (WORD_BITS - 1) - lax.clz(word).astype(jnp.int32)
    row = index * lay.rows_per_word + bit // lay.stride
    return jnp.where(word != 0, row * lay.size + bit % lay.stride, NO_POINT)


# --- neighbours -----------------------------------------------------------------------


def south(lay: Layout, a: AnyBoard) -> AnyBoard:
    """Every point moved one row down. Bits that leave the board are not cleared: mask them."""
    return _south(lay, a)


def north(lay: Layout, a: AnyBoard) -> AnyBoard:
    """Every point moved one row up. Bits that leave the board are not cleared: mask them."""
    return _north(lay, a)


def _south(lay: Layout, a: Any) -> Any:
    stride, rest, in_words = np.uint32(lay.stride), lay.last_row_shift, isinstance(a, tuple)
    if lay.rows_per_word == 1:
        return (jnp.zeros_like(a[0]), *a[:-1]) if in_words else _previous(a)
    moved = each_word(lambda word: word << stride, a)
    if not in_words:
        return moved | (_previous(a) >> rest)
    return moved[:1] + each_word(lambda x, above: x | (above >> rest), moved[1:], a[:-1])


def _north(lay: Layout, a: Any) -> Any:
    stride, rest, in_words = np.uint32(lay.stride), lay.last_row_shift, isinstance(a, tuple)
    if lay.rows_per_word == 1:
        return (*a[1:], jnp.zeros_like(a[0])) if in_words else _next(a)
    moved = each_word(lambda word: word >> stride, a)
    if not in_words:
        return moved | (_next(a) << rest)
    return each_word(lambda x, below: x | (below << rest), moved[:-1], a[1:]) + moved[-1:]


def _previous(a: jax.Array) -> jax.Array:
    """Each word of u32[W, ...] replaced by the one before it, the first by 0."""
    return jnp.concatenate([jnp.zeros_like(a[:1]), a[:-1]])


def _next(a: jax.Array) -> jax.Array:
    """Each word of u32[W, ...] replaced by the one after it, the last by 0."""
    return jnp.concatenate([a[1:], jnp.zeros_like(a[:1])])


def east(a: AnyBoard) -> AnyBoard:
    """Every point moved one column right; a point that leaves the board lands on a guard bit."""
    return each_word(lambda x: x << np.uint32(1), a)


def west(a: AnyBoard) -> AnyBoard:
    """Every point moved one column left; a point that leaves the board lands on a guard bit."""
    return each_word(lambda x: x >> np.uint32(1), a)


def neighbours(lay: Layout, a: AnyBoard) -> AnyBoard:
    """The points of the board adjacent to a point of `a`, whether in `a` themselves or not."""
    return masked(lay.full, beside(lay, a))


def beside(lay: Layout, a: AnyBoard) -> AnyBoard:
    """`neighbours`, unmasked: may have bits off the board, so intersect it with points on it."""
    one = np.uint32(1)
    return each_word(
        lambda word, up, down: (word << one) | (word >> one) | up | down,
        *(a, north(lay, a), south(lay, a)),
    )


def joints(lay: Layout, a: AnyBoard) -> tuple[AnyBoard, AnyBoard]:
    """(points of `a` whose east neighbour is in `a`, those whose south neighbour is in `a`)."""
    return intersection(a, west(a)), intersection(a, north(lay, a))


def joints_of_both(lay: Layout, own: AnyBoard, opponent: AnyBoard) -> tuple[AnyBoard, AnyBoard]:
    """As `joints`, for the stones of both colours: joined to a neighbour of the same colour."""
    own_east, own_south = joints(lay, own)
    their_east, their_south = joints(lay, opponent)
    return union(own_east, their_east), union(own_south, their_south)


# --- conversion to and from masks -----------------------------------------------------


def unpack(lay: Layout, a: Board) -> jax.Array:
    """Board -> bool[n * n], row-major from the top left. Words of shape [] only.

    Behind a fusion barrier: otherwise each of the n * n points would recompute the board.
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
        """Each point tests its bit in every word: no gather, and one pass over all points."""
        masked_words = [word & mask for word, mask in zip(a, masks, strict=True)]
        return functools.reduce(lambda x, y: x | y, masked_words) != 0

    return batching.behind_barrier(points)


def pack(lay: Layout, mask: jax.Array) -> Board:
    """bool[n * n] or bool[n, n] -> Board; the inverse of `unpack`."""
    rows = jnp.asarray(mask).reshape(lay.size, lay.size).astype(jnp.uint32)
    columns = np.arange(lay.size, dtype=np.uint32)[None, :]
    row_bits = jnp.sum(rows << columns, axis=1, dtype=jnp.uint32)
    words = [jnp.uint32(0)] * lay.num_words
    for row in range(lay.size):
        w, r = divmod(row, lay.rows_per_word)
        words[w] = words[w] | (row_bits[row] << np.uint32(r * lay.stride))
    return tuple(words)
