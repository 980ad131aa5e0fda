"""Boards as arrays u32[..., W, B], for stages that hold many boards of one game.

Elsewhere a board is a tuple of words (`bitboard`). That is fastest for a stage with a dozen boards,
but fifty planes would be a thousand arrays. The 38 line planes of 19x19 compile in 20 s as words
and in 0.1 s as one array, which also runs three times as fast. Conversely, playout lanes whose
boards are arrays take 1.05 times as long on 9x9 and 1.09 times on 19x19, and nine times as long
where a separately compiled stage (`stages.once`) returns the array beside a flag, because XLA:CPU
then computes the whole array once for each word. (jaxlib 0.10.1, AVX-512.)

The last axis is the batch of games. `compile.batching.over_games` turns such a stage into a
function of one game.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import mode, stages
from gozero.go import bitboard as bb

FEW_WORDS = 3
"""Boards of at most this many words (up to 9x9) are compiled word by word, whatever the batch."""

_FEW_GAMES = 32
"""Larger boards stay arrays for at most this many games: for more, words run faster."""


def words(tree: Any) -> Any:
    """The pytree with every board u32[W, B] split into W words u32[B]."""
    return jax.tree.map(lambda x: unstack(x) if x.ndim > 1 else x, tree)


def words_or_array(lay: bb.Layout, tree: Any) -> Any:
    """As `words`, except that large boards of few games stay arrays, which compile faster."""
    return tree if is_array(lay, jax.tree.leaves(tree)[0]) else words(tree)


def is_array(lay: bb.Layout, a: jax.Array) -> bool:
    """Whether boards u32[..., B] stay arrays; see `words_or_array`."""
    if mode.plain() or mode.inside_kernel() or lay.num_words <= FEW_WORDS:
        return False
    return a.shape[-1] <= _FEW_GAMES


def stack(board: bb.Board | jax.Array) -> jax.Array:
    """W words [...] -> u32[W, ...]; an array is returned unchanged."""
    return jnp.stack(board) if isinstance(board, tuple) else board


def unstack(a: jax.Array) -> bb.Board:
    """u32[W, ...] -> W words [...]."""
    return tuple(a[w] for w in range(a.shape[0]))


def full(lay: bb.Layout, ndim: int = 2) -> jax.Array:
    """Every point of the board, u32[1, ..., W, 1]: a mask for arrays [..., W, B] of `ndim` axes."""
    return jnp.array(lay.full, jnp.uint32).reshape(*[1] * (ndim - 2), -1, 1)


@functools.cache
def row_masks(lay: bb.Layout) -> np.ndarray:
    """u32[size, W, 1]: the points of each row."""
    return line_masks(lay, lambda row, col: row, lay.size)


@functools.cache
def column_masks(lay: bb.Layout) -> np.ndarray:
    """u32[size, W, 1]: the points of each column."""
    return line_masks(lay, lambda row, col: col, lay.size)


def line_masks(lay: bb.Layout, line: Callable[[int, int], int], count: int) -> np.ndarray:
    """u32[count, W, 1]: mask k holds the points (row, col) with ``line(row, col) == k``."""
    masks = np.zeros((count, lay.num_words, 1), np.uint32)
    for row in range(lay.size):
        for col in range(lay.size):
            bit = (row % lay.rows_per_word) * lay.stride + col
            masks[line(row, col), row // lay.rows_per_word, 0] |= np.uint32(1 << bit)
    return masks


def at(lay: bb.Layout, point: jax.Array) -> jax.Array:
    """i32[B] -> u32[W, B]: the boards with one point set; empty for anything off the board."""
    row, col = point // lay.size, point % lay.size
    shift = (row % lay.rows_per_word) * lay.stride + col
    on_board = (point >= 0) & (point < lay.num_points)
    bit = jnp.where(on_board, np.uint32(1) << shift.astype(jnp.uint32), np.uint32(0))
    words = np.arange(lay.num_words, dtype=np.int32)[:, None]
    return jnp.where((row // lay.rows_per_word)[None] == words, bit[None], np.uint32(0))


def count(a: jax.Array) -> jax.Array:
    """u32[..., W, B] -> u32[..., B]: the number of points."""
    return functools.reduce(lambda x, y: x + y, _words(lax.population_count(a)))


def any_of(a: jax.Array) -> jax.Array:
    """u32[..., W, B] -> bool[..., B]: whether any point is set."""
    return _or_words(a) != 0


def any_at_all(a: jax.Array) -> jax.Array:
    """u32[..., W, B] -> bool[]: whether any point is set on any board.

    The words are ORed first, which leaves little for the reduction, slow on a CPU.
    """
    return jnp.any(_or_words(a) != 0)


def _or_words(a: jax.Array) -> jax.Array:
    """u32[..., W, B] -> u32[..., B]."""
    return functools.reduce(lambda x, y: x | y, _words(a))


def _words(a: jax.Array) -> bb.Board:
    """u32[..., W, B] -> W words u32[..., B]."""
    return tuple(a[..., w, :] for w in range(a.shape[-2]))


def on_sides(lay: bb.Layout, a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The points whose west, east, north, south neighbour is in `a`: four arrays like `a`.

    Bits that leave the board are not cleared: mask them.
    """
    one, stride, rest = np.uint32(1), np.uint32(lay.stride), lay.last_row_shift
    none = jnp.zeros_like(a[..., :1, :])
    above = jnp.concatenate([none, a[..., :-1, :]], axis=-2)
    below = jnp.concatenate([a[..., 1:, :], none], axis=-2)
    if lay.rows_per_word == 1:
        return a << one, a >> one, above, below
    return a << one, a >> one, (a << stride) | (above >> rest), (a >> stride) | (below << rest)


def in_masks(lay: bb.Layout, sides: Sequence[jax.Array], masks: np.ndarray) -> jax.Array:
    """u32[P, W, B]: for each mask, the points with a marked neighbour that lies in the mask.

    As the union of `on_sides` of P masked boards; but the shifted masks are constants, so only one
    board a side is shifted at run time, not P.

    Args:
      lay: the layout.
      sides: four of u32[W, B]: the points whose west, east, north, south neighbour is marked.
      masks: u32[P, W, 1].
    """
    shifted = on_sides(lay, jnp.asarray(masks))
    by_side = [side[None] & mask for side, mask in zip(sides, shifted, strict=True)]
    return functools.reduce(lambda x, y: x | y, by_side)


def neighbours(lay: bb.Layout, a: jax.Array) -> jax.Array:
    """The points of the board adjacent to a point of `a`."""
    west, east, north, south = on_sides(lay, a)
    return full(lay, a.ndim) & (west | east | north | south)


def joints(lay: bb.Layout, a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """As `bitboard.joints`: the points of `a` joined to their east, and their south, neighbour."""
    return a & (a >> np.uint32(1)), a & on_sides(lay, a)[3]


def lowest_point(a: jax.Array) -> jax.Array:
    """u32[..., W, B]: only the lowest point of each board (words in order, then bits)."""
    bits = jnp.uint32(1) << lax.broadcasted_iota(jnp.uint32, a.shape, a.ndim - 2)  # one a word
    words = _or_words(jnp.where(a != 0, bits, np.uint32(0)))
    return jnp.where(_lowest_bit(words)[..., None, :] == bits, _lowest_bit(a), np.uint32(0))


def _lowest_bit(x: jax.Array) -> jax.Array:
    return x & (~x + np.uint32(1))


def in_at_least(count: int, planes: jax.Array) -> jax.Array:
    """u32[P, ...] -> u32[...]: the points in at least `count` of the planes.

    On a CPU a stage of its own: otherwise XLA would recompute it in every use, for each neighbour.
    """
    return stages.once(lambda planes: at_least(planes, count)[count - 1], planes)


def at_least(planes: Sequence[jax.Array] | jax.Array, max_count: int) -> list[jax.Array]:
    """The points in at least 1, 2, ... `max_count` of P planes.

    u32[P, ...] -> `max_count` arrays u32[...].
    """
    points = [jnp.zeros_like(planes[0]) for _ in range(max_count)]
    for plane in planes:
        for k in reversed(range(1, max_count)):
            points[k] = points[k] | (points[k - 1] & plane)
        points[0] = points[0] | plane
    return points
