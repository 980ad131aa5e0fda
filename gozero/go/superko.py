"""Past positions of a game and the points they ban, exactly.

A play puts one stone of the mover on the board and removes whole chains of the opponent,
so with suicide illegal an earlier board can be recreated by **at most one point**. Board j
is recreated by playing p if and only if

  * the mover's stones on board j are his stones now and exactly one more, p;
  * the opponent's stones on board j are a subset of his stones now; call D the rest;
  * no opponent stone outside D touches D (D is made of whole chains), and no empty point
    except p touches D (p is their last liberty).

To find such boards among hundreds, each colour of each past board has a fingerprint of two
linear sums: the sum of its bit indices, and the sum of its words times odd constants. If
board j has one stone more, the difference of the first sums *names* p, and the difference
of the second must be that bit times its word's constant. The few boards that pass are then
compared stone by stone: no hash is trusted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.go import bitboard as bb
from gozero.go import fusion

_NO_HIT = np.int32(2**31 - 1)


class Past(flax.struct.PyTreeNode):
    """The boards of one game so far. Its length is the game's: a reset costs nothing."""

    boards: jax.Array  # u32[T, 2, W]: black and white words after each ply; 0 is the start
    fingerprints: jax.Array  # u32[2, 2, T]: colour, (index sum, word sum), ply


class Fingerprint(NamedTuple):
    """Two linear sums over the stones of one colour; fields of any common shape."""

    index_sum: jax.Array  # u32: sum of 32 * word + bit over the stones
    word_sum: jax.Array  # u32: sum of word * word_constant(w), modulo 2^32


def start(lay: bb.Layout, capacity: int) -> Past:
    """The past of a game that starts on the empty board, with room for `capacity` boards."""
    return Past(
        boards=jnp.zeros((capacity, 2, lay.num_words), jnp.uint32),
        fingerprints=jnp.zeros((2, 2, capacity), jnp.uint32),
    )


def record(lay: bb.Layout, past: Past, ply: jax.Array, black: bb.Board, white: bb.Board) -> Past:
    """Write the board after `ply` moves; 0 <= ply < capacity."""
    both = jnp.stack([jnp.stack(black), jnp.stack(white)])
    sums = jnp.stack([jnp.stack(fingerprint(lay, stones)) for stones in (black, white)])
    ply = jnp.asarray(ply, jnp.int32)
    return Past(
        boards=past.boards.at[ply].set(both),
        fingerprints=past.fingerprints.at[:, :, ply].set(sums),
    )


def fingerprint(lay: bb.Layout, stones: bb.Board) -> Fingerprint:
    """The linear sums of a board of one colour; words of any shape."""
    index_sum = jnp.zeros_like(stones[0])
    word_sum = jnp.zeros_like(stones[0])
    for w, word in enumerate(stones):
        index_sum += lax.population_count(word) * np.uint32(bb.WORD_BITS * w)
        for k in range(5):
            bits = sum(1 << b for b in range(bb.WORD_BITS) if b >> k & 1)
            index_sum += lax.population_count(word & np.uint32(bits)) << np.uint32(k)
        word_sum += word * np.uint32(_word_constant(w))
    return Fingerprint(index_sum, word_sum)


def _word_constant(w):
    """An odd constant for each word, from the golden ratio; w an int or u32 array."""
    if isinstance(w, int):
        return (w * 0x9E3779B9 + 0x7F4A7C15) & 0xFFFFFFFF | 1
    return (w * np.uint32(0x9E3779B9) + np.uint32(0x7F4A7C15)) | np.uint32(1)


def banned_by_past(
    lay: bb.Layout, past: Past, length: jax.Array, black: bb.Board, white: bb.Board, to_play
) -> bb.Board:
    """Points where a play would recreate one of the first `length` boards of a game.

    Args:
      lay: the layout.
      past: the game's boards.
      length: i32[]; boards 0 .. length - 1 count.
      black, white: the board now.
      to_play: i32[], 0 Black or 1 White.
    """
    white_moves = to_play != 0
    sums = jnp.where(white_moves, past.fingerprints[1], past.fingerprints[0])
    own, opponent = _by_mover(white_moves, black, white)

    def fetch(j):
        board = lax.dynamic_index_in_dim(past.boards, j, keepdims=False)
        own_words = jnp.where(white_moves, board[1], board[0])
        opponent_words = jnp.where(white_moves, board[0], board[1])
        return tuple(own_words), tuple(opponent_words)

    counts = jnp.arange(past.boards.shape[0]) < length
    return _banned(lay, own, opponent, Fingerprint(*sums), counts, fetch)


def banned_by_boards(
    lay: bb.Layout,
    past_black: bb.Board,
    past_white: bb.Board,
    length: jax.Array,
    black: bb.Board,
    white: bb.Board,
    to_play,
) -> bb.Board:
    """As `banned_by_past`, for past boards given as words of shape [T] (a tree's trail)."""
    white_moves = to_play != 0
    own, opponent = _by_mover(white_moves, black, white)
    past_own, past_opponent = _by_mover(white_moves, past_black, past_white)

    def fetch(j):
        pick = lambda word: lax.dynamic_index_in_dim(word, j, keepdims=False)
        return tuple(map(pick, past_own)), tuple(map(pick, past_opponent))

    counts = jnp.arange(past_black[0].shape[0]) < length
    return _banned(lay, own, opponent, fingerprint(lay, past_own), counts, fetch)


def _by_mover(white_moves, black: bb.Board, white: bb.Board) -> tuple[bb.Board, bb.Board]:
    return bb.where(white_moves, white, black), bb.where(white_moves, black, white)


def _banned(
    lay: bb.Layout,
    own: bb.Board,
    opponent: bb.Board,
    past_own: Fingerprint,
    counts: jax.Array,
    fetch: Callable,
) -> bb.Board:
    """Union of the points banned by the boards that `counts` (bool[T]) admits.

    The loop runs once per board whose fingerprint fits, most often not at all. Trip bound: T.
    Under ``vmap`` it carries one index and one small board a game; the past is only read.
    """
    now = Fingerprint(*_fingerprint_behind_wall(lay)(own))
    p = past_own.index_sum - now.index_sum
    bit = _word_constant(p >> np.uint32(5)) << (p & np.uint32(31))
    fits = (
        counts
        & (p < np.uint32(bb.WORD_BITS * lay.num_words))
        & (past_own.word_sum - now.word_sum == bit)
    )
    index = jnp.arange(fits.shape[0], dtype=jnp.int32)

    def next_hit(after):
        return jnp.min(jnp.where(fits & (index > after), index, _NO_HIT))

    def body(carry):
        j, banned = carry
        recreated = _recreating_point(lay, own, opponent, *fetch(j))
        return next_hit(j), bb.union(banned, recreated)

    first = (next_hit(np.int32(-1)), bb.empty(lay))
    return lax.while_loop(lambda carry: carry[0] != _NO_HIT, body, first)[1]


@functools.cache
def _fingerprint_behind_wall(lay: bb.Layout) -> Callable:
    """Compared with T past boards: without the wall it would be computed T times."""
    return fusion.walled(lambda own: tuple(fingerprint(lay, own)))


def _recreating_point(
    lay: bb.Layout, own: bb.Board, opponent: bb.Board, past_own: bb.Board, past_opponent: bb.Board
) -> bb.Board:
    """The point that recreates the past board from the present one, or the empty board."""
    recreates = _recreates(lay)(own, opponent, past_own, past_opponent)
    return bb.keep(recreates, bb.difference(past_own, own))


@functools.cache
def _recreates(lay: bb.Layout) -> Callable:
    """Does the one stone that the past board has more recreate it? One bool behind a wall."""

    def recreates(
        own: bb.Board, opponent: bb.Board, past_own: bb.Board, past_opponent: bb.Board
    ) -> jax.Array:
        point = bb.difference(past_own, own)
        removed = bb.difference(opponent, past_opponent)
        vacant = bb.complement(lay, bb.union(own, opponent))
        touched = bb.neighbours(lay, removed)
        wrong = (
            bb.difference(own, past_own),
            bb.intersection(point, opponent),
            bb.difference(past_opponent, opponent),
            bb.difference(bb.intersection(touched, opponent), removed),
            bb.difference(bb.intersection(touched, vacant), point),
        )
        return ~bb.any_of(bb.union_all(wrong)) & (bb.count(point) == 1)

    return fusion.walled(recreates)
