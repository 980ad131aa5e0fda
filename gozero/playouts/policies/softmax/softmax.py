"""Playouts that choose points in proportion to their strength: a softmax over learnt features.

    pi(a | s) = strength(a) / sum of the strengths of the points that may be played

where the strength of a point is the product of the strengths of its features (Coulom 2007): its 3x3
shape, and whether it is contiguous to the last move. The points that may be played are those of a
uniform playout: legal points that fill no own eye; a player passes only if there are none.

Strengths are integers here, so that their sums, and therefore the games, are the same on every
device. The lanes are those of `whole_board`: a point is drawn among the candidates, and one that
turns out to be suicide is not drawn again this turn. The result is the softmax over legal points.

To add a feature, add a factor to `_weights`.
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
from gozero.playouts.first_plays import FirstPlayKind
from gozero.playouts.policies import whole_board
from gozero.playouts.policies.softmax import neighbourhoods
from gozero.playouts.policies.softmax.strengths import Strengths
from gozero.playouts.policies.whole_board import BoardLanes

_FACTOR_BITS = 9  # bits of the strength of a contiguity
_FACTOR_ONE = 16  # the integer that stands for a contiguity of strength 1


class Softmax(NamedTuple):
    """A playout policy, made by `softmax_policy`.

    It is an argument of the program, not a constant in it: other strengths cause no recompilation.
    """

    shape: jax.Array  # u32[65536]: the strength of each code of `neighbourhoods`
    contiguity: jax.Array  # u32[3]: for points not next to the last move, beside it, diagonal


def softmax_policy(strengths: Strengths, size: int) -> Softmax:
    """The strengths as integers, with as many bits as keep sums over size x size points in 32 bits.

    A contiguity's strength is rounded to a multiple of 1/16 and clipped to 1/16 .. 31.9. A shape's
    is rounded to a positive multiple of a fraction of the strongest: 1/65,535 on 9x9, 1/16,383 on
    19x19, 1/8,191 on 25x25. So the weakest are least exact.

    Args:
      strengths: the strengths of the features.
      size: points on a side.
    """
    max_shape = 2 ** (32 - _FACTOR_BITS - math.ceil(math.log2(size * size + 1))) - 1
    shape = jnp.asarray(strengths.shape, jnp.float32)
    factors = _FACTOR_ONE * jnp.asarray(strengths.contiguity, jnp.float32)
    shape_integers = _to_integers(shape * (max_shape / jnp.max(shape)), max_shape)
    not_contiguous = jnp.full(1, _FACTOR_ONE, jnp.uint32)
    contiguity = jnp.concatenate([not_contiguous, _to_integers(factors, 2**_FACTOR_BITS - 1)])
    return Softmax(shape_integers[neighbourhoods.classes()], contiguity)


def softmax_playouts(
    rules: go.Rules, positions: go.Position, key: jax.Array, policy: Softmax, **options: Any
) -> Playouts:
    """Play each position to the end with a softmax policy.

    Args:
      rules, positions, key: as for `uniform_playouts`.
      policy: the strengths.
      options: those of `engine.play_out`: `last`, the move to which a playout's first move may be
        contiguous, `lanes`, `max_moves`, `ends`, `first_plays`, `ids`.

    Raises:
      ValueError: as `engine.play_out`.
    """
    return engine.play_out(as_policy(policy), rules, positions, key, **options)


def _to_integers(x: jax.Array, highest: int) -> jax.Array:
    """u32: rounded and clipped to 1 .. `highest`; at least 1, so that no move is ruled out."""
    return jnp.clip(jnp.round(x), 1, highest).astype(jnp.uint32)


def init(
    rules: go.Rules,
    positions: go.Position,
    clock: Clock,
    first_plays: FirstPlayKind,
    last: jax.Array,
) -> BoardLanes:
    """The lanes before the first iteration; `last` is i32[B], the last moves."""
    lanes = whole_board.init(rules, positions, clock, first_plays)
    return lanes._replace(last=playable.packed_point(rules.layout, last))


def _choose(lay: bb.Layout, policy: Softmax, lanes: BoardLanes) -> jax.Array:
    """u32[B]: the pending move, or one drawn from the candidates."""

    def stage(function: Callable, *args):
        return stages.once(functools.partial(function, lay), *args)

    boards = (lanes.own, lanes.opponent, lanes.banned)
    candidates = stage(playable.candidates, *boards)
    around = stage(_look, *boards[:2], candidates, lanes.last)
    # A stage of its own: fused into the lookup, XLA would compute each code from its flat index,
    # which takes five times as long if the number of lanes is not a power of 2.
    codes = stage(_codes, around)
    weights = stage(_weights, around, codes, policy)
    new_move = stage(draw, weights, engine.random_bits(lanes.clock))
    return jnp.where(lanes.clock.trying != playable.NO_MOVE, lanes.clock.trying, new_move)


def as_policy(policy: Softmax) -> PlayoutPolicy:
    """The playout policy for these strengths."""
    advance = engine.repeated(functools.partial(whole_board.step, _choose))
    return PlayoutPolicy(init, advance, cpu_lanes=128, params=policy, takes_last=True)


# --- weights --------------------------------------------------------------------------


class _Around(NamedTuple):
    """All that the weights depend on; each word is a row of the board."""

    own: jax.Array  # u32[size + 2, B], framed
    opponent: jax.Array  # u32[size + 2, B], framed
    candidates: jax.Array  # u32[size, B]: the candidates
    beside: jax.Array  # u32[size, B]: the points beside the last move
    diagonal: jax.Array  # u32[size, B]: those diagonal to it


def weights(
    policy: Softmax,
    lay: bb.Layout,
    own: bb.Board,
    opponent: bb.Board,
    candidates: bb.Board,
    previous: jax.Array,
) -> jax.Array:
    """u32[size, size, B]: the strengths of the candidates, 0 elsewhere."""
    around = _look(lay, own, opponent, candidates, previous)
    return _weights(lay, around, _codes(lay, around), policy)


def logits(policy: Softmax, rules: go.Rules, positions: go.Position, last: jax.Array) -> jax.Array:
    """f32[B, A]: log strengths of the actions in B positions, for the player to move.

    The pass, and points that no playout tries, such as own eyes, count as one part, the minimum.
    `last` is i32[B], the last moves.
    """
    lay, (own, opponent) = rules.layout, go.own_and_opponent(positions)
    banned = jax.vmap(lambda ko: bb.at(lay, ko))(positions.ko)
    candidates = playable.candidates(lay, own, opponent, banned)
    point_weights = weights(
        policy, lay, own, opponent, candidates, playable.packed_point(lay, last)
    )
    points = jnp.moveaxis(point_weights, -1, 0).reshape(last.shape[0], lay.num_points)
    return jnp.pad(jnp.log(jnp.maximum(points, 1).astype(jnp.float32)), ((0, 0), (0, 1)))


def _look(lay, own, opponent, candidates, previous) -> _Around:
    beside, diagonal = contiguous(lay, previous)
    return _Around(
        neighbourhoods.framed(lay, neighbourhoods.rows(lay, own)),
        neighbourhoods.framed(lay, neighbourhoods.rows(lay, opponent)),
        neighbourhoods.rows(lay, candidates),
        neighbourhoods.rows(lay, beside),
        neighbourhoods.rows(lay, diagonal),
    )


def contiguous(lay: bb.Layout, move: jax.Array) -> tuple[bb.Board, bb.Board]:
    """(points beside a move, points diagonal to it); both empty for a pass or no move."""
    point = playable.board_of(lay, move)
    one, column = np.uint32(1), bb.union(bb.north(lay, point), bb.south(lay, point))
    diagonal = tuple((word << one) | (word >> one) for word in column)
    on_board = tuple(full & word for full, word in zip(lay.full, diagonal, strict=True))
    return bb.neighbours(lay, point), on_board


def _codes(lay: bb.Layout, around: _Around) -> jax.Array:
    """i32[size, size, B]: the codes of the 3x3 shapes."""
    return neighbourhoods.codes(lay, around.own, around.opponent).astype(jnp.int32)


def _weights(lay: bb.Layout, around: _Around, codes: jax.Array, policy: Softmax) -> jax.Array:
    candidates, beside, diagonal = (neighbourhoods.bits(lay, rows) for rows in around[2:])
    shape = policy.shape.at[codes].get(mode="promise_in_bounds")
    elsewhere_factor, beside_factor, diagonal_factor = policy.contiguity
    factor = jnp.where(
        beside != 0, beside_factor, jnp.where(diagonal != 0, diagonal_factor, elsewhere_factor)
    )
    return jnp.where(candidates != 0, shape * factor, np.uint32(0))


# --- the draw -------------------------------------------------------------------------


def draw(lay: bb.Layout, weights: jax.Array, random: jax.Array) -> jax.Array:
    """Draw a point in proportion to its weight, as a packed move; `PASS_MOVE` if all weights are 0.

    First a row is chosen by the sums of the rows, then a point in it.

    Args:
      lay: the layout.
      weights: u32[size, size, B]; their sum over a board must be below 2^32.
      random: u32[B]; uniform bits. The error of a probability is at most 2^-32.

    Returns:
      u32[B], packed moves.
    """
    by_row = jnp.sum(weights, axis=1, dtype=jnp.uint32)
    total = jnp.sum(by_row, axis=0, dtype=jnp.uint32)
    row, rank = _interval(list(by_row), _scaled(random, total))
    is_row = lax.broadcasted_iota(jnp.uint32, weights.shape, 0) == row[None, None]
    in_row = jnp.sum(jnp.where(is_row, weights, np.uint32(0)), axis=0, dtype=jnp.uint32)
    column, _ = _interval(list(in_row), rank)
    word, place = row // np.uint32(lay.rows_per_word), row % np.uint32(lay.rows_per_word)
    bit = place * np.uint32(lay.stride) + column
    move = bit | (word << np.uint32(5)) | playable.IS_POINT
    return jnp.where(total > 0, move, playable.PASS_MOVE)


def _interval(lengths: list[jax.Array], rank: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(index of the interval, laid end to end, that `rank` falls in; offset in it), each u32[B]."""
    index, start, end = jnp.zeros_like(rank), jnp.zeros_like(rank), jnp.zeros_like(rank)
    for length in lengths:
        end = end + length
        beyond = rank >= end
        index = index + beyond.astype(jnp.uint32)
        start = jnp.where(beyond, end, start)
    return index, rank - start


def _scaled(random: jax.Array, total: jax.Array) -> jax.Array:
    """floor(random * total / 2^32): a uniform number below `total`, without 64-bit words."""
    half, low = np.uint32(16), np.uint32(0xFFFF)
    a, b = random >> half, random & low
    c, d = total >> half, total & low
    middle = a * d + ((b * d) >> half)  # below 2^32: (2^16 - 1)^2 + 2^16 - 1
    other = b * c + (middle & low)
    return a * c + (middle >> half) + (other >> half)
