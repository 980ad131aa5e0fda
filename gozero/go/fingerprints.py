"""Fingerprints of boards, and the search for boards that a play could recreate among hundreds.

The fingerprint of the stones of one colour is two linear sums: of their bit indices, and of
their words times odd constants. If a board has one stone more than another, the difference of
the first sums *names* it, and the difference of the second must be that bit times its word's
constant.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import batching
from gozero.go import bitboard as bb

_TO_PLAY_BIT = np.uint32(31)  # of an index sum, which is below 2^19 even at 25x25


class Fingerprint(NamedTuple):
    """Two linear sums over the stones of one colour; fields of any common shape."""

    index_sum: jax.Array  # u32: sum of 32 * word + bit over the stones; see `with_turn`
    word_sum: jax.Array  # u32: sum of word * word_constant(w), modulo 2^32


class Sought(NamedTuple):
    """What past boards are compared with, from the mover's side."""

    own: Fingerprint  # fields u32[]
    opponent: Fingerprint | None  # of the opponent, if suicide is allowed, and
    can_suicide: jax.Array | None  # bool[]: is there a point where the mover can


def with_turn(sums: Fingerprint, to_play: jax.Array | None) -> Fingerprint:
    """A board's fingerprint with who is to move; as it is without, under positional superko.

    The mover is the top bit of the index sum: where the movers differ, so do the sums.
    """
    if to_play is None:
        return sums
    turn = jnp.asarray(to_play).astype(jnp.uint32) << _TO_PLAY_BIT
    return sums._replace(index_sum=sums.index_sum | turn)


def turned(index_sums: jax.Array, to_play: jax.Array) -> jax.Array:
    """Index sums with another player to move."""
    without = index_sums & ~(np.uint32(1) << _TO_PLAY_BIT)
    return without | (jnp.asarray(to_play).astype(jnp.uint32) << _TO_PLAY_BIT)


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


def behind_wall(lay: bb.Layout, stones: bb.Board, to_play: jax.Array | None) -> Fingerprint:
    """Compared with T past boards: without the wall it would be computed T times."""
    turn = () if to_play is None else (to_play,)
    return Fingerprint(*_behind_wall(lay)(stones, *turn))


@functools.cache
def _behind_wall(lay: bb.Layout) -> Callable:
    def sums(stones: bb.Board, to_play: jax.Array | None = None):
        return tuple(with_turn(fingerprint(lay, stones), to_play))

    return batching.walled(sums)


# --- the search -----------------------------------------------------------------------


class Hits(NamedTuple):
    """Some of T boards, as bits: bit b of word w is the board 32 * w + b."""

    words: jax.Array  # u32[ceil(T / 32)]

    def first(self) -> jax.Array:
        """i32[]: the least board of them; 2^31 - 1 if there is none."""
        below = (self.words & (~self.words + np.uint32(1))) - np.uint32(1)
        board = bb.WORD_BITS * lax.iota(jnp.int32, self.words.shape[0])
        board = board + lax.population_count(below).astype(jnp.int32)
        return jnp.min(jnp.where(self.words != 0, board, np.int32(2**31 - 1)))

    def without(self, board: jax.Array) -> Hits:
        """The others."""
        word, bit = board // bb.WORD_BITS, (board % bb.WORD_BITS).astype(jnp.uint32)
        here = lax.iota(jnp.int32, self.words.shape[0]) == word
        return Hits(jnp.where(here, self.words & ~(np.uint32(1) << bit), self.words))

    def any(self) -> jax.Array:
        """bool[]: are there some?"""
        return jnp.any(self.words != 0)


def hits(found: jax.Array) -> Hits:
    """bool[T] -> the boards found."""
    missing = -found.shape[0] % bb.WORD_BITS
    bits = jnp.pad(found, (0, missing)).astype(jnp.uint32).reshape(-1, bb.WORD_BITS)
    return Hits(jnp.sum(bits << lax.iota(jnp.uint32, bb.WORD_BITS)[None], axis=1, dtype=jnp.uint32))


def fits(
    lay: bb.Layout, sought: Sought, own: Fingerprint, opponent: Fingerprint | None
) -> jax.Array:
    """bool[...]: the boards that a play may recreate as far as the fingerprints tell.

    Args:
      lay: the layout.
      sought: the board now.
      own, opponent: of past boards; fields of a shape that broadcasts with the sought ones.
    """
    p = own.index_sum - sought.own.index_sum
    difference = own.word_sum - sought.own.word_sum
    bit = _word_constant(p >> np.uint32(5)) << (p & np.uint32(31))
    one_more = (p < np.uint32(bb.WORD_BITS * lay.num_words)) & (difference == bit)
    if sought.opponent is None or sought.can_suicide is None or opponent is None:
        return one_more
    same_opponent = (opponent.index_sum == sought.opponent.index_sum) & (
        opponent.word_sum == sought.opponent.word_sum
    )
    # Boards since which the mover has lost stones and gained none differ in one sum at least:
    # a set of stones whose indices sum to 0 is empty, or the one of index 0.
    fewer = (p != 0) | (difference != 0)
    return one_more | (sought.can_suicide & same_opponent & fewer)


def capacity_for(boards: int) -> int:
    """The capacity of a store of fingerprints that has room for so many boards."""
    return -(-boards // bb.WORD_BITS) * bb.WORD_BITS


def search(
    lay: bb.Layout, past: jax.Array, length: jax.Array, mover: jax.Array, sought: Sought
) -> Hits:
    """Those of a game's first `length` boards that fit.

    All T are compared, however short the game: elementwise with static shapes that is less
    work than a loop over some of them.

    Args:
      lay: the layout.
      past: u32[2, 2, T], fingerprints: colour, (index sum, word sum), board; T of `capacity_for`.
      length: i32[]; boards 0 .. length - 1 count.
      mover: i32[], 0 Black or 1 White.
      sought: what to look for.
    """
    capacity = past.shape[-1]
    own = Fingerprint(*jnp.where(mover != 0, past[1], past[0]))
    opponent = None
    if sought.opponent is not None:
        opponent = Fingerprint(*jnp.where(mover != 0, past[0], past[1]))
    counts = lax.iota(jnp.int32, capacity) < length
    return hits(counts & fits(lay, sought, own, opponent))
