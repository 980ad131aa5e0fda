"""What a playout may play, as boards and as packed moves: functions of one game, except
`no_own_eyes`.

A playout plays a uniformly random legal point that is not an own eye. It does not list these
points: it picks one of the `candidates`, and its policy determines whether that is legal.
A **packed move** is one u32 that two shifts turn into a board (an action would need divisions in
every stage that uses the board):

    bits 0-4 bit in the word, bits 5-9 word, bit 10 "is a point", bit 11 "is a pass"

so 0 is no move at all.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.go import bitboard as bb
from gozero.go import floods
from gozero.go import rules as go

NO_MOVE = np.uint32(0)
IS_POINT = np.uint32(1 << 10)
PASS_MOVE = np.uint32(1 << 11)

# The result of trying a move: a word of these flags.
FLAGS = PLAY, REJECT, PENDING, CAPTURE, KO = tuple(np.uint32(1 << bit) for bit in range(5))

_FIVE_BITS = np.uint32(31)
_RANDOM_BITS = 22  # times 625 points, still fits a word


def flags(*conditions: tuple[jax.Array, np.uint32]) -> jax.Array:
    """u32[]: the flags whose conditions hold, combined in one word."""
    words = [jnp.where(condition, flag, np.uint32(0)) for condition, flag in conditions]
    return functools.reduce(lambda x, y: x | y, words)


# --- sets of points -------------------------------------------------------------------


def eyes(lay: bb.Layout, own: bb.Board, opponent: bb.Board) -> bb.Board:
    """The empty points that are eyes of `own`, which no playout fills.

    All their neighbours are own stones, and fewer than two diagonal points are the opponent's (on
    the first line, none). So no eye has an empty neighbour.
    """
    not_own = bb.complement(lay, own)
    surrounded = bb.difference(bb.difference(not_own, opponent), bb.beside(lay, not_own))
    return bb.difference(surrounded, _false_eyes(lay, opponent))


def _false_eyes(lay: bb.Layout, opponent: bb.AnyBoard) -> bb.AnyBoard:
    """Points with too many opponent diagonals to be an eye; may have bits off the board."""
    above, below = bb.south(lay, opponent), bb.north(lay, opponent)
    diagonals = [side(row) for row in (above, below) for side in (bb.east, bb.west)]
    on_edge = bb.masked(lay.edge, bb.union_all(diagonals))
    return bb.union(bb.each_word(_two_of, *diagonals), on_edge)


def _two_of(a, b, c, d):
    """The bits set in two or more of four words."""
    return (a & b) | (c & d) | ((a | b) & (c | d))


def obvious_suicides(lay: bb.Layout, own: bb.Board, opponent: bb.Board) -> bb.Board:
    """Points whose neighbours are all enemy stones of chains known to have two liberties.

    A play there is suicide. Most suicides are of this kind, and late in a game most tries would be
    such suicides; excluding them in advance saves trying them one by one. A chain is recognised if
    one of its stones has two liberties itself; one or two flood sweeps spread that to the others.
    """
    one = np.uint32(1)
    vacant = bb.complement(lay, bb.union(own, opponent))
    rows = zip(vacant, bb.south(lay, vacant), bb.north(lay, vacant), strict=True)
    with_two = tuple(_two_of(word << one, word >> one, above, below) for word, above, below in rows)
    safe, joined = bb.intersection(with_two, opponent), bb.joints(lay, opponent)
    for _ in range(2 if lay.rows_per_word > 1 else 1):  # the best of 1 to 3 on a CPU
        safe = floods.sweep(lay, safe, joined)
    return bb.difference(vacant, bb.beside(lay, bb.complement(lay, safe)))


def candidates(lay: bb.Layout, own: bb.Board, opponent: bb.Board, banned: bb.Board) -> bb.Board:
    """The points that a uniform playout may try: empty, not an own eye, not banned, not an
    obvious suicide.

    These include every point it may play, and a few suicides, which are found when tried.
    """
    vacant = bb.complement(lay, bb.union(own, opponent))
    excluded = bb.union(eyes(lay, own, opponent), obvious_suicides(lay, own, opponent))
    return bb.difference(bb.difference(vacant, excluded), banned)


def no_own_eyes(rules: go.Rules, positions: go.Position, legal: jax.Array) -> jax.Array:
    """bool[B, A]: the legal points, bool[B, n * n], that fill no own eye; if none, the pass."""
    own, opponent = go.own_and_opponent(positions)
    lay = rules.layout
    in_eyes = jax.vmap(lambda a, b: bb.unpack(lay, eyes(lay, a, b)))(own, opponent)
    points = legal & ~in_eyes
    return jnp.concatenate([points, ~jnp.any(points, axis=1, keepdims=True)], axis=1)


# --- packed moves ------------------------------------------------------------------------


def pick(lay: bb.Layout, points: bb.Board, random: jax.Array) -> jax.Array:
    """A uniformly random point as a packed move, or `PASS_MOVE` if there is none.

    By rank selection: first the word in which the rank falls, then the bit, by halving.

    Args:
      lay: the layout.
      points: the points to pick from.
      random: u32[]; uniform bits, of which the upper 22 are used: the relative error of a point's
        probability is at most 625 / 2^22.

    Returns:
      u32[], a packed move.
    """
    total = bb.count(points).astype(jnp.uint32)
    rank = ((random >> np.uint32(32 - _RANDOM_BITS)) * total) >> np.uint32(_RANDOM_BITS)
    return jnp.where(total > 0, nth(lay, points, rank), PASS_MOVE)


def nth(lay: bb.Layout, points: bb.Board, rank: jax.Array) -> jax.Array:
    """u32[]: the rank-th point, counted from 0, as a packed move; meaningless beyond the last.

    Args:
      lay: the layout.
      points: the points, in the order of words and within a word from the lowest bit.
      rank: u32[].
    """
    if not isinstance(points, tuple):
        return _nth_of_array(points, rank)
    counts = [lax.population_count(word) for word in points]
    word, index, before = points[0], jnp.zeros_like(rank), counts[0]
    rank_in_word = rank
    for w in range(1, lay.num_words):
        is_beyond = rank >= before
        word = jnp.where(is_beyond, points[w], word)
        index = jnp.where(is_beyond, np.uint32(w), index)
        rank_in_word = jnp.minimum(rank_in_word, rank - before)  # wraps to a large one below 0
        before = before + counts[w]
    bit = _nth_bit(word, rank_in_word)
    return bit | (index << np.uint32(5)) | IS_POINT


def _nth_of_array(points: jax.Array, rank: jax.Array) -> jax.Array:
    """`nth` for points u32[W, ...]."""
    counts = lax.population_count(points)
    up_to = lax.cumsum(counts, 0)
    before = up_to - counts
    index = lax.broadcasted_iota(jnp.uint32, points.shape, 0)
    is_word = (rank[None] >= before) & (rank[None] < up_to)
    word, index, before = (
        bb.or_words(jnp.where(is_word, x, np.uint32(0))) for x in (points, index, before)
    )
    return _nth_bit(word, rank - before) | (index << np.uint32(5)) | IS_POINT


def _nth_bit(word: jax.Array, rank: jax.Array) -> jax.Array:
    """u32[]: the position of the rank-th set bit of a word, by halving."""
    bit = jnp.zeros_like(rank)
    for half in (16, 8, 4, 2, 1):
        low = word & np.uint32((1 << half) - 1)
        below = lax.population_count(low)
        upper = rank >= below
        rank = jnp.where(upper, rank - below, rank)
        bit = jnp.where(upper, bit + np.uint32(half), bit)
        word = jnp.where(upper, word >> np.uint32(half), low)
    return bit & _FIVE_BITS


def board_of(lay: bb.Layout, move: jax.Array, as_array: bool = False) -> Any:
    """The board with the move's point set; empty for a pass and for no move."""
    bit = jnp.where((move & IS_POINT) != 0, np.uint32(1) << (move & _FIVE_BITS), np.uint32(0))
    return spread(lay, word_of(move), bit, as_array)


def spread(lay: bb.Layout, index: jax.Array, bits: jax.Array, as_array: bool) -> Any:
    """The board with the given bits, u32[...], in the word of the given index, empty elsewhere."""
    if as_array:
        numbers = lax.broadcasted_iota(jnp.uint32, (lay.num_words, *index.shape), 0)
        return jnp.where(numbers == index[None], bits[None], np.uint32(0))
    return tuple(jnp.where(index == np.uint32(w), bits, np.uint32(0)) for w in range(lay.num_words))


def word_of(move: jax.Array) -> jax.Array:
    """u32[]: the index of the word that holds a move's point."""
    return (move >> np.uint32(5)) & _FIVE_BITS


def packed_point(lay: bb.Layout, point: jax.Array) -> jax.Array:
    """u32[]: a point, i32[], as a packed move; `NO_MOVE` if it is not a point."""
    row, column = point // lay.size, point % lay.size
    bit = (row % lay.rows_per_word) * lay.stride + column
    move = (bit | ((row // lay.rows_per_word) << 5)).astype(jnp.uint32) | IS_POINT
    return jnp.where((point >= 0) & (point < lay.num_points), move, NO_MOVE)


def action_of(lay: bb.Layout, move: jax.Array) -> jax.Array:
    """i32[]: the action of a packed move; size^2 for a pass, `bb.NO_POINT` for no move."""
    row, column = row_and_column(lay, move)
    point = row * lay.size + column
    other = jnp.where(move == PASS_MOVE, lay.num_points, bb.NO_POINT)
    return jnp.where((move & IS_POINT) != 0, point, other)


def row_and_column(lay: bb.Layout, move: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(row, column) of a packed move, i32[]; meaningless if it is not a point."""
    bit = (move & _FIVE_BITS).astype(jnp.int32)
    index = word_of(move).astype(jnp.int32)
    return index * lay.rows_per_word + bit // lay.stride, bit % lay.stride


def rows_around(rows: Any, word: jax.Array, reach: int) -> list[jax.Array]:
    """Rows word - reach .. word + reach of a board, empty beyond its edge.

    A barrel shifter: a round of selects for each bit of `word`, and no gather.
    """
    count = 2 * reach + 1
    if not isinstance(rows, (list, tuple)):
        numbers = lax.broadcasted_iota(jnp.uint32, rows.shape, 0) + np.uint32(reach)
        is_row = [numbers == (word + np.uint32(i))[None] for i in range(count)]
        return [bb.or_words(jnp.where(mask, rows, np.uint32(0))) for mask in is_row]
    none = jnp.zeros_like(word)
    shifted = [*[None] * reach, *rows, *[None] * reach]
    for step in (16, 8, 4, 2, 1):
        if step >= len(rows):
            continue  # `word` is the index of a row
        moves = (word & np.uint32(step)) != 0
        needed = count + step - 1
        shifted = [_select(moves, _get(shifted, i + step), _get(shifted, i)) for i in range(needed)]
    return [none if row is None else row for row in shifted]


def _get(rows: list, i: int):
    return rows[i] if i < len(rows) else None


def _select(condition, a, b):
    """where(condition, a, b) for rows, of which None stands for an empty one."""
    if a is None and b is None:
        return None
    return jnp.where(condition, np.uint32(0) if a is None else a, np.uint32(0) if b is None else b)
