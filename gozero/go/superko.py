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

To find such boards among hundreds, each colour of each past board has one of the
`fingerprints`; the few boards that fit are then compared stone by stone: no hash is trusted.
Situational superko bans a board only with the same player to move, who is part of the
fingerprint there, so that telling the boards apart costs nothing.
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

from gozero.compile import batching, stages
from gozero.go import bitboard as bb
from gozero.go import fingerprints, stacked
from gozero.go.fingerprints import Hits, Sought, fingerprint, with_turn


class Past(flax.struct.PyTreeNode):
    """The boards of one game so far. Its length is the game's: a reset costs nothing."""

    boards: jax.Array  # u32[T, 2, W]: black and white words after each ply; 0 is the start
    fingerprints: jax.Array  # u32[2, 2, T]: colour, (index sum, word sum), ply
    situational: bool = flax.struct.field(pytree_node=False)  # does it matter who is to move?


def start(lay: bb.Layout, capacity: int, situational: bool = False) -> Past:
    """The past of a game from the empty board, Black to play, with room for `capacity` boards."""
    return Past(
        boards=jnp.zeros((capacity, 2, lay.num_words), jnp.uint32),
        fingerprints=jnp.zeros((2, 2, fingerprints.capacity_for(capacity)), jnp.uint32),
        situational=situational,
    )


def record(
    lay: bb.Layout, past: Past, ply: jax.Array, black: bb.Board, white: bb.Board, to_play: jax.Array
) -> Past:
    """Write the board after `ply` moves and who is to move then; 0 <= ply < capacity."""
    turn = to_play if past.situational else None
    both = jnp.stack([jnp.stack(black), jnp.stack(white)])
    sums = jnp.stack(
        [jnp.stack(with_turn(fingerprint(lay, stones), turn)) for stones in (black, white)]
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
    sums = fingerprints.turned(past.fingerprints[:, 0, ply], to_play)
    return past.replace(fingerprints=past.fingerprints.at[:, 0, ply].set(sums))


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
    now = _Now(*_by_mover(white_moves, black, white), suicides)
    sought = _sought(lay, now, 1 - to_play if past.situational else None)

    def fetch(j):
        board = lax.dynamic_index_in_dim(past.boards, j, keepdims=False)
        return jnp.where(white_moves, board[::-1], board)

    hits = fingerprints.search(lay, past.fingerprints, length, to_play, sought)
    return _banned(lay, now, hits, fetch)


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
    now = _Now(*_by_mover(white_moves, black, white), suicides)
    past_own, past_opponent = _by_mover(white_moves, past_black, past_white)

    def sums(stones):
        return with_turn(fingerprint(lay, stones), past_to_play)

    def fetch(j):
        pick = lambda word: lax.dynamic_index_in_dim(word, j, keepdims=False)
        return jnp.stack([jnp.stack([*map(pick, past)]) for past in (past_own, past_opponent)])

    sought = _sought(lay, now, None if past_to_play is None else 1 - to_play)
    opponent_sums = None if suicides is None else sums(past_opponent)
    counts = jnp.arange(past_black[0].shape[0]) < length
    fits = counts & fingerprints.fits(lay, sought, sums(past_own), opponent_sums)
    return _banned(lay, now, fingerprints.hits(fits), fetch)


def _by_mover(white_moves, black: bb.Board, white: bb.Board) -> tuple[bb.Board, bb.Board]:
    return bb.where(white_moves, white, black), bb.where(white_moves, black, white)


class _Now(NamedTuple):
    """The board that a play would change, from the mover's side."""

    own: bb.Board
    opponent: bb.Board
    suicides: bb.Board | None  # where a play is suicide; None if that is not allowed


def _sought(lay: bb.Layout, now: _Now, next_to_play: jax.Array | None) -> Sought:
    """What the fingerprints of past boards are compared with.

    `next_to_play`, who moves after the play, is None under positional superko.
    """
    own = fingerprints.behind_wall(lay, now.own, next_to_play)
    if now.suicides is None:
        return Sought(own, None, None)
    opponent = fingerprints.behind_wall(lay, now.opponent, next_to_play)
    return Sought(own, opponent, bb.any_of(now.suicides))


def _banned(lay: bb.Layout, now: _Now, hits: Hits, fetch: Callable) -> bb.Board:
    """Union of the points that recreate one of some boards; fetch(j) -> u32[2, W] by mover.

    The loop runs once per board whose fingerprint fits, most often not at all. Trip bound: T.
    Under ``vmap`` it carries some bits and one small board a game; the past is only read.
    """
    recreated = _recreated(lay)
    boards = jnp.stack([stacked.stack(now.own), stacked.stack(now.opponent)])
    suicides = None if now.suicides is None else stacked.stack(now.suicides)

    def body(carry):
        hits, banned = carry
        j = hits.first()
        # Where there is none left any board will do: what it bans is dropped.
        past = fetch(jnp.where(hits.any(), j, 0))
        return hits.without(j), banned | recreated(boards, past, suicides)

    none = jnp.zeros(lay.num_words, jnp.uint32)
    return stacked.unstack(lax.while_loop(lambda carry: carry[0].any(), body, (hits, none))[1])


@functools.cache
def _recreated(lay: bb.Layout) -> Callable:
    """The point that recreates a past board from the present one, or no point.

    (now u32[2, W], past u32[2, W], suicides u32[W] or None) -> u32[W]; boards by mover.
    """

    def recreated(now: jax.Array, past: jax.Array, suicides: jax.Array | None) -> jax.Array:
        does = stages.once(functools.partial(_does_recreate, lay), *now, *past)
        point = jnp.where(does[None], past[0] & ~now[0], np.uint32(0))
        return point if suicides is None else point | _recreating_suicide(lay, now, past, suicides)

    return batching.over_games(recreated)


def _does_recreate(lay: bb.Layout, *boards: jax.Array) -> jax.Array:
    """bool[B]: does the one stone that the past board has more recreate it?

    Boards u32[W, B]: own, opponent, past own and past opponent; taken word by word, which is
    the faster where one bool comes of it.
    """
    own, opponent, past_own, past_opponent = map(stacked.unstack, boards)
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


def _recreating_suicide(lay: bb.Layout, now, past, suicides) -> jax.Array:
    """u32[W, B]: the point where suicide recreates the past board, or no point."""
    (own, opponent), (past_own, past_opponent) = now, past
    removed = own & ~past_own
    vacant = stacked.full(lay) & ~(own | opponent)
    point = stacked.neighbours(lay, removed) & vacant
    touched = stacked.neighbours(lay, removed | point)
    wrong = past_own & ~own
    wrong |= past_opponent ^ opponent
    wrong |= touched & own & ~removed
    wrong |= point & ~suicides
    does = ~stacked.any_of(wrong) & (stacked.count(point) == 1)
    return jnp.where(does[None], point, np.uint32(0))
