"""Playouts that choose points in proportion to their strength: a softmax over learnt features.

    pi(a | s) = strength(a) / sum of the strengths of the points that may be played

where the strength of a point is the product of the strengths of its features (Coulom 2007): its 3x3
shape, whether it is contiguous to the last move, whether it captures, extends a chain in atari, or
puts its own chain in atari, and, for priors, how far it is from the edge and from the last move
(`strengths`). The points that may be played are those of a uniform playout: legal points that fill
no own eye; a player passes only if there are none.

Weights are rounded to integers, so that their sums do not depend on the order of addition; the
factors are multiplied in a fixed order. The lanes are those of `atari_lanes`. Whether a stone's
chain would be in atari is known only once the move is tried: a point is drawn by its other
features, and a self-atari is then accepted with its strength, a probability, or else another point
is drawn. The result is the softmax over legal points.

A feature is added to `Strengths`, `Softmax`, `LogStrengths`, `_factors` and, to be learnt, to
`train.classical.choices`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import stages
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import stacked
from gozero.hashing import mix
from gozero.playouts import engine, playable
from gozero.playouts.engine import Clock, PlayoutPolicy, Playouts
from gozero.playouts.policies import atari_lanes, chains
from gozero.playouts.policies.atari_lanes import AtariLanes, Situation
from gozero.playouts.policies.softmax import neighbourhoods
from gozero.playouts.policies.softmax.strengths import DISTANCES, LINES, Strengths

_MAX_TOTAL = 2.0**31
"""Of the weights of a board, so that rounding cannot take their sum beyond 32 bits."""

LEAST_ACCEPTED = 2.0**-10
"""The least probability of accepting a self-atari: where nothing else is left, as many are drawn on
average as its inverse."""

_ACCEPTANCE = 0x7F4A7C15  # makes the draw for a self-atari another one than that of the point


class Softmax(NamedTuple):
    """A playout policy, made by `softmax_policy`.

    It is an argument of the program, not a constant in it: other strengths cause no recompilation,
    unless other features are left out.
    """

    shape: jax.Array  # f32[65536]: the weight of each code of `neighbourhoods`
    contiguity: jax.Array  # f32[3]: for points not next to the last move, beside it, diagonal
    capture: jax.Array | None
    """f32[3]: for points that capture nothing, then by `strengths.CAPTURES`; None: all are 1."""
    extension: jax.Array | None
    """f32[3]: for points that extend nothing, then by `strengths.EXTENSIONS`; None: all are 1."""
    line: jax.Array | None  # f32[5]: by `strengths.LINES`; None: all are 1
    distance: jax.Array | None
    """f32[15]: for points at no such distance, then by `strengths.DISTANCES`; None: all are 1."""
    self_atari: jax.Array | None
    """u32[]: accepted if 32 random bits are at most this; None: always."""


def softmax_policy(strengths: Strengths, size: int) -> Softmax:
    """The strengths, scaled so that the weights of size x size points sum to less than 2^32.

    Features other than shapes and contiguity are left out if their strengths are NumPy arrays of
    ones, as those missing in a file are: such playouts play the same games without them, and
    faster.
    `weights` rounds to positive integers; so the weakest are least exact, and none is ruled out.
    The strength of self-atari is clipped to `LEAST_ACCEPTED` .. 1.

    Args:
      strengths: the strengths of the features.
      size: points on a side.
    """
    contiguity = _with_none(strengths.contiguity)
    capture, extension, self_atari, line, distance = map(_unless_neutral, strengths[2:])
    capture, extension, distance = (
        None if x is None else _with_none(x) for x in (capture, extension, distance)
    )
    shape = jnp.asarray(strengths.shape, jnp.float32)
    others = contiguity, capture, extension, line, distance
    used = [shape, *(x for x in others if x is not None)]
    largest = functools.reduce(jnp.multiply, map(jnp.max, used))
    shape = shape * (_MAX_TOTAL / (size * size) / largest)
    threshold = None if self_atari is None else _threshold(self_atari[0])
    return Softmax(shape[neighbourhoods.classes()], *others, threshold)


def _unless_neutral(strengths: jax.Array | np.ndarray) -> jax.Array | None:
    """f32[n]; None if they are known to be all 1."""
    if isinstance(strengths, np.ndarray) and np.all(strengths == 1):
        return None
    return jnp.asarray(strengths, jnp.float32)


def _with_none(strengths: jax.Array | np.ndarray) -> jax.Array:
    """f32[1 + n]: 1 for points without the feature, then its strengths."""
    return jnp.concatenate([jnp.ones(1), jnp.asarray(strengths, jnp.float32)])


def _threshold(self_atari: jax.Array) -> jax.Array:
    """u32[]: which random bits accept a self-atari."""
    accepted = jnp.clip(self_atari, LEAST_ACCEPTED, 1.0)
    return jnp.where(
        accepted < 1.0,
        jnp.minimum(accepted * 2.0**32, 2.0**32 - 2.0**9).astype(jnp.uint32),
        np.uint32(2**32 - 1),
    )


def softmax_playouts(
    rules: go.Rules, positions: go.Position, key: jax.Array, policy: Softmax, **options: Any
) -> Playouts:
    """Play each position to the end with a softmax policy.

    Args:
      rules, key: as for `uniform_playouts`.
      positions: [B]; legal positions whose `atari` is exact (as in all positions made by `go.rules`
        or `go.setup`).
      policy: the strengths.
      options: those of `engine.play_out`: `last`, the move to which a playout's first move may be
        contiguous, `lanes`, `max_moves`, `ends`, `first_plays`, `ids`.

    Raises:
      ValueError: as `engine.play_out`.
    """
    return engine.play_out(as_policy(policy), rules, positions, key, **options)


def _choose(lay: bb.Layout, policy: Softmax, lanes: AtariLanes) -> tuple[jax.Array, jax.Array]:
    """(a move drawn from the points that may be played, packed u32[B]; no rule)."""

    now = lanes.now
    boards = stages.once(functools.partial(_feature_boards, lay, policy), now)
    # A stage of its own: fused into the lookup, XLA would compute each code from its flat index,
    # which takes five times as long if the number of lanes is not a power of 2.
    codes = stages.once(functools.partial(_codes, lay), boards)
    weights = stages.once(functools.partial(_weights, lay), boards, codes, policy)
    move = stages.once(functools.partial(draw, lay), weights, engine.random_bits(lanes.clock))
    return move, jnp.zeros_like(move)


def _reject(policy: Softmax, clock: Clock, flags: jax.Array) -> jax.Array:
    """The flags u32[B], where some self-ataris are rejected, to be drawn again."""
    if policy.self_atari is None:
        return flags
    is_self_atari = (flags & chains.OWN_ATARI) != 0
    is_played = (flags & playable.PLAY) != 0
    bits = mix(engine.random_bits(clock) ^ np.uint32(_ACCEPTANCE))
    rejected = is_played & is_self_atari & (bits > policy.self_atari)
    return jnp.where(rejected, playable.REJECT, flags)


def as_policy(policy: Softmax) -> PlayoutPolicy:
    """The playout policy for these strengths."""
    advance = engine.repeated(functools.partial(atari_lanes.step, _choose, _reject))
    return PlayoutPolicy(atari_lanes.init, advance, cpu_lanes=128, params=policy, takes_last=True)


# --- weights --------------------------------------------------------------------------


class _FeatureBoards(NamedTuple):
    """All that the weights depend on; each word is a row of the board."""

    own: jax.Array  # u32[size + 2, B], framed
    opponent: jax.Array  # u32[size + 2, B], framed
    candidates: jax.Array  # u32[size, B]: the points that may be played
    beside: jax.Array  # u32[size, B]: the points beside the last move
    diagonal: jax.Array  # u32[size, B]: those diagonal to it
    captures: _Captures | None  # None if captures make no difference
    extensions: _Extensions | None  # None if extensions make none
    distances: jax.Array | None  # i32[size, size, B]: `distances`; None if they make none


class _Captures(NamedTuple):
    points: jax.Array  # u32[size, B]: those beside enemy stones in atari
    any_endangered: jax.Array  # bool[B]: whether the last move put own stones in atari


class _Extensions(NamedTuple):
    points: jax.Array  # u32[size, B]: those beside own stones in atari
    endangered: jax.Array  # u32[size, B]: those beside own stones that the last move put in atari


def weights(policy: Softmax, lay: bb.Layout, now: Situation) -> jax.Array:
    """u32[size, size, B]: the weights of the points that may be played, 0 elsewhere.

    They leave out self-atari, which `_reject` accounts for. `now.atari` must be exact.
    """
    boards = _feature_boards(lay, policy, now)
    return _weights(lay, boards, _codes(lay, boards), policy)


class LogStrengths(NamedTuple):
    """The logarithms of a policy's strengths, which `logits` adds up; made by `log_strengths`."""

    shape: jax.Array  # f32[65536]
    contiguity: jax.Array  # f32[3]
    capture: jax.Array | None  # f32[3]
    extension: jax.Array | None  # f32[3]
    line: jax.Array | None  # f32[5]
    distance: jax.Array | None  # f32[15]


def log_strengths(policy: Softmax) -> LogStrengths:
    """The tables of `logits`: adding logarithms is faster than taking them at each leaf."""
    return LogStrengths(*jax.tree.map(jnp.log, policy[:6]))


def logits(
    logs: LogStrengths, rules: go.Rules, positions: go.Position, last: jax.Array
) -> jax.Array:
    """f32[B, A]: log strengths of the actions in B positions, for the player to move.

    The strengths are those of `weights` before rounding. Those below 1, the pass, and points that
    no playout tries, such as own eyes, count as 1. A self-atari counts as any other move.
    `last` is i32[B], the last moves; the positions' `atari` must be exact.
    """
    lay = rules.layout
    boards = _feature_boards(lay, logs, atari_lanes.situation(rules, positions, last))
    sums = functools.reduce(jnp.add, _factors(lay, boards, _codes(lay, boards), logs))
    sums = jnp.where(_has(lay, boards.candidates), jnp.maximum(sums, 0.0), 0.0)
    points = jnp.moveaxis(sums, -1, 0).reshape(last.shape[0], lay.num_points)
    return jnp.pad(points, ((0, 0), (0, 1)))


def may_be_played(lay: bb.Layout, now: Situation) -> bb.Board:
    """The points that a playout may play: legal ones that fill no own eye."""
    eyes = playable.eyes(lay, now.own, now.opponent)
    return bb.difference(atari_lanes.legal_points(lay, now), eyes)


def _feature_boards(
    lay: bb.Layout, policy: Softmax | LogStrengths, now: Situation
) -> _FeatureBoards:
    now = stacked.words(now)
    rows = functools.partial(neighbourhoods.rows, lay)
    beside, diagonal = contiguous(lay, now.last)
    captures = extensions = None
    if policy.capture is not None:
        points = bb.beside(lay, bb.intersection(now.opponent, now.atari))
        captures = _Captures(rows(points), bb.any_of(now.endangered))
    if policy.extension is not None:
        points = bb.beside(lay, bb.intersection(now.own, now.atari))
        extensions = _Extensions(rows(points), rows(bb.beside(lay, now.endangered)))
    return _FeatureBoards(
        own=neighbourhoods.framed(lay, rows(now.own)),
        opponent=neighbourhoods.framed(lay, rows(now.opponent)),
        candidates=rows(may_be_played(lay, now)),
        beside=rows(beside),
        diagonal=rows(diagonal),
        captures=captures,
        extensions=extensions,
        distances=None if policy.distance is None else distances(lay, now.last),
    )


@functools.cache
def lines(size: int) -> np.ndarray:
    """i32[size, size]: the number of each point's line in `strengths.LINES`."""
    from_edge = np.minimum(np.arange(size), np.arange(size)[::-1])
    return np.minimum(np.minimum(from_edge[:, None], from_edge), len(LINES) - 1).astype(np.int32)


def distances(lay: bb.Layout, move: jax.Array) -> jax.Array:
    """Each point's distance from packed moves u32[B], as an index into `Softmax.distance`.

    Returns:
      i32[size, size, B]; 0 where it is less than the first of `strengths.DISTANCES`, and for moves
      that are no point.
    """
    row, column = playable.row_and_column(lay, move)
    dy = jnp.abs(lax.broadcasted_iota(jnp.int32, (lay.size, 1, 1), 0) - row[None, None])
    dx = jnp.abs(lax.broadcasted_iota(jnp.int32, (1, lay.size, 1), 1) - column[None, None])
    distance = dx + dy + jnp.maximum(dx, dy)
    index = jnp.clip(distance, DISTANCES[0] - 1, DISTANCES[-1]) - (DISTANCES[0] - 1)
    return jnp.where((move & playable.IS_POINT)[None, None] != 0, index, 0)


def contiguous(lay: bb.Layout, move: jax.Array) -> tuple[bb.Board, bb.Board]:
    """(points beside a move, points diagonal to it); both empty for a pass or no move."""
    point = playable.board_of(lay, move)
    one, column = np.uint32(1), bb.union(bb.north(lay, point), bb.south(lay, point))
    diagonal = tuple((word << one) | (word >> one) for word in column)
    on_board = tuple(full & word for full, word in zip(lay.full, diagonal, strict=True))
    return bb.neighbours(lay, point), on_board


def _codes(lay: bb.Layout, boards: _FeatureBoards) -> jax.Array:
    """i32[size, size, B]: the codes of the 3x3 shapes."""
    return neighbourhoods.codes(lay, boards.own, boards.opponent).astype(jnp.int32)


def _has(lay: bb.Layout, rows: jax.Array) -> jax.Array:
    """bool[size, size, B]: the points of u32[size, B]."""
    return neighbourhoods.bits(lay, rows) != 0


def _factors(
    lay: bb.Layout, boards: _FeatureBoards, codes: jax.Array, policy: Softmax | LogStrengths
) -> list[jax.Array]:
    """f32[size, size, B] for each feature: the strengths, or their logarithms."""
    has, contiguity = functools.partial(_has, lay), policy.contiguity
    beside, diagonal = has(boards.beside), has(boards.diagonal)
    factors = [
        policy.shape.at[codes].get(mode="promise_in_bounds"),
        jnp.where(beside, contiguity[1], jnp.where(diagonal, contiguity[2], contiguity[0])),
    ]
    if boards.captures is not None and policy.capture is not None:
        none, when_endangered, otherwise = policy.capture
        factor = jnp.where(boards.captures.any_endangered, when_endangered, otherwise)[None, None]
        factors.append(jnp.where(has(boards.captures.points), factor, none))
    if boards.extensions is not None and policy.extension is not None:
        none, of_endangered, of_another = policy.extension
        factor = jnp.where(has(boards.extensions.endangered), of_endangered, of_another)
        factors.append(jnp.where(has(boards.extensions.points), factor, none))
    if policy.line is not None:
        factors.append(policy.line[lines(lay.size)][:, :, None])
    if boards.distances is not None and policy.distance is not None:
        factors.append(policy.distance.at[boards.distances].get(mode="promise_in_bounds"))
    return factors


def _weights(
    lay: bb.Layout, boards: _FeatureBoards, codes: jax.Array, policy: Softmax
) -> jax.Array:
    product = functools.reduce(jnp.multiply, _factors(lay, boards, codes, policy))
    weight = jnp.round(product).astype(jnp.uint32)
    return jnp.where(_has(lay, boards.candidates), jnp.maximum(weight, np.uint32(1)), np.uint32(0))


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
