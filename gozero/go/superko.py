"""Past positions of a game and the points they ban, exactly.

A play puts one stone of the mover on the board and removes whole chains of the opponent, or,
where suicide is allowed, leaves the opponent's stones and removes whole chains of the mover.
Either way an earlier board can be recreated by **at most one point**. Board j is recreated by
playing p, which is no suicide, if and only if

  * the mover's stones on board j are his stones now and exactly one more, p;
  * the opponent's stones on board j are a subset of his stones now; call D the rest;
  * no opponent stone outside D touches D (D is made of whole chains), and no empty point
    except p touches D (p is their last liberty).

(No chain of board j is without liberties, so a p that passes is no suicide.) Board j is
recreated by suicide at p if and only if

  * the opponent's stones on board j are his stones now;
  * the mover's stones on board j are a proper subset of his stones now; call R the rest;
  * no stone of the mover outside R touches R or p (R is made of whole chains, all that p
    joins), and no empty point except p touches R (p is their last liberty);
  * a play at p is suicide.

To find such boards among hundreds, each colour of each past board has a fingerprint of two
linear sums: the sum of its bit indices, and the sum of its words times odd constants. If
board j has one stone more, the difference of the first sums *names* p, and the difference
of the second must be that bit times its word's constant; what a suicide recreates has the
opponent's sums of now. The few boards that pass are then compared stone by stone: no hash is
trusted.

Situational superko bans a board only with the same player to move. Who was to move is
written in the top bit of the first sum, which the sum itself never reaches: where the movers
differ, so do the sums, and telling them apart costs nothing.
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
_TO_PLAY_BIT = np.uint32(31)  # of an index sum, which is below 2^19 even at 25x25


class Past(flax.struct.PyTreeNode):
    """The boards of one game so far. Its length is the game's: a reset costs nothing."""

    boards: jax.Array  # u32[T, 2, W]: black and white words after each ply; 0 is the start
    fingerprints: jax.Array  # u32[2, 2, T]: colour, (index sum, word sum), ply
    situational: bool = flax.struct.field(pytree_node=False)  # does it matter who is to move?


class Fingerprint(NamedTuple):
    """Two linear sums over the stones of one colour; fields of any common shape."""

    index_sum: jax.Array  # u32: sum of 32 * word + bit over the stones; see `_with_turn`
    word_sum: jax.Array  # u32: sum of word * word_constant(w), modulo 2^32


def start(lay: bb.Layout, capacity: int, situational: bool = False) -> Past:
    """The past of a game from the empty board, Black to play, with room for `capacity` boards."""
    return Past(
        boards=jnp.zeros((capacity, 2, lay.num_words), jnp.uint32),
        fingerprints=jnp.zeros((2, 2, capacity), jnp.uint32),
        situational=situational,
    )


def record(
    lay: bb.Layout, past: Past, ply: jax.Array, black: bb.Board, white: bb.Board, to_play: jax.Array
) -> Past:
    """Write the board after `ply` moves and who is to move then; 0 <= ply < capacity."""
    turn = to_play if past.situational else None
    both = jnp.stack([jnp.stack(black), jnp.stack(white)])
    sums = jnp.stack(
        [jnp.stack(_with_turn(fingerprint(lay, stones), turn)) for stones in (black, white)]
    )
    ply = jnp.asarray(ply, jnp.int32)
    return past.replace(
        boards=past.boards.at[ply].set(both),
        fingerprints=past.fingerprints.at[:, :, ply].set(sums),
    )


def record_turn(past: Past, ply: jax.Array, to_play: jax.Array) -> Past:
    """Change who is to move after `ply` moves; the board stays."""
    if not past.situational:
        return past
    ply = jnp.asarray(ply, jnp.int32)
    sums = past.fingerprints[:, 0, ply] & ~(np.uint32(1) << _TO_PLAY_BIT)
    turned = sums | (jnp.asarray(to_play).astype(jnp.uint32) << _TO_PLAY_BIT)
    return past.replace(fingerprints=past.fingerprints.at[:, 0, ply].set(turned))


def _with_turn(sums: Fingerprint, to_play: jax.Array | None) -> Fingerprint:
    """A board's fingerprint with who is to move; as it is without, under positional superko."""
    if to_play is None:
        return sums
    turn = jnp.asarray(to_play).astype(jnp.uint32) << _TO_PLAY_BIT
    return sums._replace(index_sum=sums.index_sum | turn)


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
    lay: bb.Layout,
    past: Past,
    length: jax.Array,
    black: bb.Board,
    white: bb.Board,
    to_play: jax.Array,
    suicides: bb.Board | None = None,
) -> bb.Board:
    """Points where a play would recreate one of the first `length` boards of a game.

    Args:
      lay: the layout.
      past: the game's boards.
      length: i32[]; boards 0 .. length - 1 count.
      black, white: the board now.
      to_play: i32[], 0 Black or 1 White.
      suicides: the points where a play is suicide, if that is allowed; None if it is not.
    """
    white_moves = to_play != 0
    own_sums = jnp.where(white_moves, past.fingerprints[1], past.fingerprints[0])
    opponent_sums = None
    if suicides is not None:
        other = jnp.where(white_moves, past.fingerprints[0], past.fingerprints[1])
        opponent_sums = Fingerprint(*other)
    own, opponent = _by_mover(white_moves, black, white)

    def fetch(j):
        board = lax.dynamic_index_in_dim(past.boards, j, keepdims=False)
        own_words = jnp.where(white_moves, board[1], board[0])
        opponent_words = jnp.where(white_moves, board[0], board[1])
        return tuple(own_words), tuple(opponent_words)

    counts = jnp.arange(past.boards.shape[0]) < length
    next_to_play = 1 - to_play if past.situational else None
    return _banned(
        lay,
        _Now(own, opponent, suicides, next_to_play),
        _Boards(Fingerprint(*own_sums), opponent_sums, counts, fetch),
    )


def banned_by_boards(
    lay: bb.Layout,
    past_black: bb.Board,
    past_white: bb.Board,
    past_to_play: jax.Array | None,
    length: jax.Array,
    black: bb.Board,
    white: bb.Board,
    to_play: jax.Array,
    suicides: bb.Board | None = None,
) -> bb.Board:
    """As `banned_by_past`, for past boards given as words of shape [T] (a tree's trail).

    `past_to_play`, i8[T], makes it situational superko; None makes it positional.
    """
    white_moves = to_play != 0
    own, opponent = _by_mover(white_moves, black, white)
    past_own, past_opponent = _by_mover(white_moves, past_black, past_white)

    def sums(stones):
        return _with_turn(fingerprint(lay, stones), past_to_play)

    def fetch(j):
        pick = lambda word: lax.dynamic_index_in_dim(word, j, keepdims=False)
        return tuple(map(pick, past_own)), tuple(map(pick, past_opponent))

    counts = jnp.arange(past_black[0].shape[0]) < length
    next_to_play = None if past_to_play is None else 1 - to_play
    opponent_sums = None if suicides is None else sums(past_opponent)
    return _banned(
        lay,
        _Now(own, opponent, suicides, next_to_play),
        _Boards(sums(past_own), opponent_sums, counts, fetch),
    )


def _by_mover(white_moves, black: bb.Board, white: bb.Board) -> tuple[bb.Board, bb.Board]:
    return bb.where(white_moves, white, black), bb.where(white_moves, black, white)


class _Now(NamedTuple):
    """The board that a play would change, from the mover's side."""

    own: bb.Board
    opponent: bb.Board
    suicides: bb.Board | None  # where a play is suicide; None if that is not allowed
    next_to_play: jax.Array | None  # who moves after the play; None under positional superko


class _Boards(NamedTuple):
    """Past boards, from the mover's side."""

    own_sums: Fingerprint  # fields u32[T]
    opponent_sums: Fingerprint | None  # fields u32[T]; only suicide asks for it
    counts: jax.Array  # bool[T]: which of them count
    fetch: Callable  # index -> (own, opponent) of that board


def _banned(lay: bb.Layout, now: _Now, past: _Boards) -> bb.Board:
    """Union of the points banned by the boards that count.

    The loop runs once per board whose fingerprint fits, most often not at all. Trip bound: T.
    Under ``vmap`` it carries one index and one small board a game; the past is only read.
    """
    fits = past.counts & _fits(lay, now, past)
    index = jnp.arange(fits.shape[0], dtype=jnp.int32)

    def next_hit(after):
        return jnp.min(jnp.where(fits & (index > after), index, _NO_HIT))

    def body(carry):
        j, banned = carry
        past_own, past_opponent = past.fetch(j)
        recreated = _recreating_point(lay, now.own, now.opponent, past_own, past_opponent)
        if now.suicides is not None:
            suicide = _recreating_suicide(lay, now, now.suicides, past_own, past_opponent)
            recreated = bb.union(recreated, suicide)
        return next_hit(j), bb.union(banned, recreated)

    first = (next_hit(np.int32(-1)), bb.empty(lay))
    return lax.while_loop(lambda carry: carry[0] != _NO_HIT, body, first)[1]


def _fits(lay: bb.Layout, now: _Now, past: _Boards) -> jax.Array:
    """bool[T]: the boards that a play may recreate as far as the fingerprints tell."""
    own = _fingerprint_now(lay, now.own, now.next_to_play)
    p = past.own_sums.index_sum - own.index_sum
    difference = past.own_sums.word_sum - own.word_sum
    bit = _word_constant(p >> np.uint32(5)) << (p & np.uint32(31))
    fits = (p < np.uint32(bb.WORD_BITS * lay.num_words)) & (difference == bit)
    if now.suicides is None or past.opponent_sums is None:
        return fits
    opponent = _fingerprint_now(lay, now.opponent, now.next_to_play)
    same_opponent = (past.opponent_sums.index_sum == opponent.index_sum) & (
        past.opponent_sums.word_sum == opponent.word_sum
    )
    # Boards since which the mover has lost stones and gained none differ in one sum at least:
    # a set of stones whose indices sum to 0 is empty, or the one of index 0.
    return fits | (bb.any_of(now.suicides) & same_opponent & ((p != 0) | (difference != 0)))


def _fingerprint_now(lay: bb.Layout, own: bb.Board, next_to_play: jax.Array | None) -> Fingerprint:
    """Compared with T past boards: without the wall it would be computed T times."""
    turn = () if next_to_play is None else (next_to_play,)
    return Fingerprint(*_fingerprint_behind_wall(lay)(own, *turn))


@functools.cache
def _fingerprint_behind_wall(lay: bb.Layout) -> Callable:
    def sums(own: bb.Board, to_play: jax.Array | None = None):
        return tuple(_with_turn(fingerprint(lay, own), to_play))

    return fusion.walled(sums)


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


def _recreating_suicide(
    lay: bb.Layout, now: _Now, suicides: bb.Board, past_own: bb.Board, past_opponent: bb.Board
) -> bb.Board:
    """The point where suicide recreates the past board, or the empty board."""
    removed = bb.difference(now.own, past_own)
    vacant = bb.complement(lay, bb.union(now.own, now.opponent))
    point = bb.intersection(bb.neighbours(lay, removed), vacant)
    touched = bb.neighbours(lay, bb.union(removed, point))
    wrong = (
        bb.difference(past_own, now.own),
        bb.difference(past_opponent, now.opponent),
        bb.difference(now.opponent, past_opponent),
        bb.difference(bb.intersection(touched, now.own), removed),
        bb.difference(point, suicides),
    )
    return bb.keep(~bb.any_of(bb.union_all(wrong)) & (bb.count(point) == 1), point)
