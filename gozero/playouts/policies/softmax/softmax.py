"""Playouts that play a point in proportion to its strength: a softmax over learnt features.

    pi(a | s) = strength(a) / sum of the strengths of what may be played

where the strength of a point is the product of those of its features (Coulom 2007): its 3x3
shape, and whether it is contiguous to the move before. What may be played is what a uniform
playout may: legal points that fill no own eye, and a pass only if there are none.

Strengths are whole numbers here, so that their sums, and with them the games, are the same on
every device. The lanes are those of `whole_board`: a point is drawn among the candidates, and one
that proves to be suicide is drawn no more this turn. That is the softmax over the legal ones.

More features come in as more factors of `_weights`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import stages
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.playouts import engine, playable
from gozero.playouts.engine import Clock, PlayoutPolicy, Playouts
from gozero.playouts.first_plays import Wanted
from gozero.playouts.policies import whole_board
from gozero.playouts.policies.softmax import neighbourhoods
from gozero.playouts.policies.softmax.strengths import Strengths
from gozero.playouts.policies.whole_board import Lanes

_FACTOR_BITS = 9  # of the strength of a contiguity
_FACTOR_ONE = 16  # the strength 1 among them


class Softmax(NamedTuple):
    """A playout policy, made by `softmax_policy`.

    An argument of the program, not a constant in it: other strengths compile nothing anew.
    """

    shape: jax.Array  # u32[65536]: the strength of each code of `neighbourhoods`
    contiguity: jax.Array  # u32[3]: of a point not next to the move before, beside it, diagonal


def softmax_policy(strengths: Strengths, size: int) -> Softmax:
    """The strengths as whole numbers, as many bits as sums over size x size points leave.

    A contiguity's is a multiple of 1/16 from 1/16 to 31.9, one beyond counts as the nearest. A
    shape's is a whole number of parts of the strongest, at least one: of 65,535 on 9x9, 16,383 on
    19x19 and 8,191 on 25x25, so the weakest are least exact.

    Args:
      strengths: of the features.
      size: points on a side.
    """
    most = 2 ** (32 - _FACTOR_BITS - math.ceil(math.log2(size * size + 1))) - 1
    shape = jnp.asarray(strengths.shape, jnp.float32)
    factors = _FACTOR_ONE * jnp.asarray(strengths.contiguity, jnp.float32)
    whole = _whole(shape * (most / jnp.max(shape)), most)
    none = jnp.full(1, _FACTOR_ONE, jnp.uint32)
    contiguity = jnp.concatenate([none, _whole(factors, 2**_FACTOR_BITS - 1)])
    return Softmax(whole[neighbourhoods.classes()], contiguity)


def softmax_playouts(
    rules: go.Rules, positions: go.Position, key: jax.Array, policy: Softmax, **options: Any
) -> Playouts:
    """Plays each position to the end by a policy.

    Args:
      rules, positions, key: as of `uniform_playouts`.
      policy: how they choose.
      options: of `engine.play_out`: `last`, to which the first move of a playout may be contiguous,
        `lanes`, `max_moves`, `ends`, `first_plays`, `ids`.

    Raises:
      ValueError: as `engine.play_out`.
    """
    return engine.play_out(as_policy(policy), rules, positions, key, **options)


def _whole(x: jax.Array, most: int) -> jax.Array:
    """u32: rounded, and at least 1: no move is ruled out."""
    return jnp.clip(jnp.round(x), 1, most).astype(jnp.uint32)


def init(
    rules: go.Rules, positions: go.Position, clock: Clock, first_plays: Wanted, last: jax.Array
) -> Lanes:
    """The lanes before the first iteration; `last` is i32[B], the last moves."""
    lanes = whole_board.init(rules, positions, clock, first_plays)
    return lanes._replace(last=playable.packed_point(rules.layout, last))


def _choose(lay: bb.Layout, policy: Softmax, lanes: Lanes) -> jax.Array:
    """u32[B]: the pending move, or one drawn among the candidates."""

    def stage(function: Callable, *args):
        return stages.once(functools.partial(function, lay), *args)

    boards = (lanes.own, lanes.opponent, lanes.banned)
    may = stage(playable.candidates, *boards)
    around = stage(_look, *boards[:2], may, lanes.last)
    # Apart: within the look-up XLA would ask for each code by its place in all of the array,
    # which takes five times as long where the number of lanes is no power of 2.
    codes = stage(_codes, around)
    weights = stage(_weights, around, codes, policy)
    fresh = stage(draw, weights, engine.random_bits(lanes.clock))
    return jnp.where(lanes.clock.trying != playable.NO_MOVE, lanes.clock.trying, fresh)


def as_policy(policy: Softmax) -> PlayoutPolicy:
    """How lanes play by it."""
    advance = engine.repeated(functools.partial(whole_board.step, _choose))
    return PlayoutPolicy(init, advance, cpu_lanes=128, params=policy, takes_last=True)


# --- weights --------------------------------------------------------------------------


class _Around(NamedTuple):
    """All that the weights depend on, a row of the board a word."""

    own: jax.Array  # u32[size + 2, B], framed
    opponent: jax.Array  # u32[size + 2, B], framed
    may: jax.Array  # u32[size, B]: the candidates
    beside: jax.Array  # u32[size, B]: the points beside the move before
    diagonal: jax.Array  # u32[size, B]: those diagonal to it


def weights(
    policy: Softmax,
    lay: bb.Layout,
    own: bb.Board,
    opponent: bb.Board,
    may: bb.Board,
    previous: jax.Array,
) -> jax.Array:
    """u32[size, size, B]: the strengths of the points that B players may play, 0 of the others."""
    around = _look(lay, own, opponent, may, previous)
    return _weights(lay, around, _codes(lay, around), policy)


def logits(policy: Softmax, rules: go.Rules, positions: go.Position, last: jax.Array) -> jax.Array:
    """f32[B, A]: log strengths of the actions of B positions, for their players to move.

    The weakest count as one part; so do the pass and what no playout tries, own eyes among them.
    `last` is i32[B], the last moves.
    """
    lay, (own, opponent) = rules.layout, go.own_and_opponent(positions)
    banned = jax.vmap(lambda ko: bb.at(lay, ko))(positions.ko)
    may = playable.candidates(lay, own, opponent, banned)
    found = weights(policy, lay, own, opponent, may, playable.packed_point(lay, last))
    points = jnp.moveaxis(found, -1, 0).reshape(last.shape[0], lay.num_points)
    return jnp.pad(jnp.log(jnp.maximum(points, 1).astype(jnp.float32)), ((0, 0), (0, 1)))


def _look(lay, own, opponent, may, previous) -> _Around:
    beside, diagonal = contiguous(lay, previous)
    return _Around(
        neighbourhoods.framed(lay, neighbourhoods.rows(lay, own)),
        neighbourhoods.framed(lay, neighbourhoods.rows(lay, opponent)),
        neighbourhoods.rows(lay, may),
        neighbourhoods.rows(lay, beside),
        neighbourhoods.rows(lay, diagonal),
    )


def contiguous(lay: bb.Layout, move: jax.Array) -> tuple[bb.Board, bb.Board]:
    """The points beside a move, and those diagonal to it; none of a pass and of no move."""
    point = playable.board_of(lay, move)
    one, column = np.uint32(1), bb.union(bb.north(lay, point), bb.south(lay, point))
    diagonal = tuple((word << one) | (word >> one) for word in column)
    on_board = tuple(full & word for full, word in zip(lay.full, diagonal, strict=True))
    return bb.neighbours(lay, point), on_board


def _codes(lay: bb.Layout, around: _Around) -> jax.Array:
    """i32[size, size, B]: of the 3x3 shapes."""
    return neighbourhoods.codes(lay, around.own, around.opponent).astype(jnp.int32)


def _weights(lay: bb.Layout, around: _Around, codes: jax.Array, policy: Softmax) -> jax.Array:
    may, beside, diagonal = (neighbourhoods.bits(lay, rows) for rows in around[2:])
    shape = policy.shape.at[codes].get(mode="promise_in_bounds")
    apart, next_to, across = policy.contiguity
    factor = jnp.where(beside != 0, next_to, jnp.where(diagonal != 0, across, apart))
    return jnp.where(may != 0, shape * factor, np.uint32(0))


# --- the draw -------------------------------------------------------------------------


def draw(lay: bb.Layout, weights: jax.Array, random: jax.Array) -> jax.Array:
    """A point in proportion to its weight as a packed move, or `PASS_MOVE` if all weights are 0.

    First a row by the sums of the rows, then a point of it.

    Args:
      lay: the layout.
      weights: u32[size, size, B]; what they sum to over a board is below 2^32.
      random: u32[B]; uniform bits. A probability is out by 2^-32 at most.

    Returns:
      u32[B], packed moves.
    """
    by_row = jnp.sum(weights, axis=1, dtype=jnp.uint32)
    total = jnp.sum(by_row, axis=0, dtype=jnp.uint32)
    row, rank = _interval(list(by_row), _scaled(random, total))
    chosen = lax.broadcasted_iota(jnp.uint32, weights.shape, 0) == row[None, None]
    in_row = jnp.sum(jnp.where(chosen, weights, np.uint32(0)), axis=0, dtype=jnp.uint32)
    column, _ = _interval(list(in_row), rank)
    word, place = row // np.uint32(lay.rows_per_word), row % np.uint32(lay.rows_per_word)
    bit = place * np.uint32(lay.stride) + column
    move = bit | (word << np.uint32(5)) | playable.IS_POINT
    return jnp.where(total > 0, move, playable.PASS_MOVE)


def _interval(lengths: list[jax.Array], rank: jax.Array) -> tuple[jax.Array, jax.Array]:
    """In which of the intervals laid end to end `rank` falls, and how far into it; u32[B] each."""
    index, start, end = jnp.zeros_like(rank), jnp.zeros_like(rank), jnp.zeros_like(rank)
    for length in lengths:
        end = end + length
        beyond = rank >= end
        index = index + beyond.astype(jnp.uint32)
        start = jnp.where(beyond, end, start)
    return index, rank - start


def _scaled(random: jax.Array, total: jax.Array) -> jax.Array:
    """floor(random * total / 2^32): a uniform number below `total`. No 64-bit words on a TPU."""
    half, low = np.uint32(16), np.uint32(0xFFFF)
    a, b = random >> half, random & low
    c, d = total >> half, total & low
    middle = a * d + ((b * d) >> half)  # below 2^32: (2^16 - 1)^2 + 2^16 - 1
    other = b * c + (middle & low)
    return a * c + (middle >> half) + (other >> half)
