"""TD(0) by self-play on local shapes: games in lockstep that all update the same weights.

Silver, Sutton & Müller (2012), sections 3 and 4. Both players take the move whose afterstate is
best for them, or with probability epsilon a random one; neither fills an own eye, or passes while
there is another move. After each move the value of the position `plies` moves earlier is moved
toward the present value, or toward the result if the game has ended:

    delta = V(s') - V(s)            V = logistic(sum of the weights of the active features)
    weights += alpha delta phi(s) / |phi(s)|

where phi(s) are the active features that have a weight, which empty windows have not, and |phi(s)|
is their number, of both kinds if locations also share weights. (The derivative of V does not
appear: this descends the cross-entropy of V(s') and V(s).) `update` says how a batch is combined.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import scoring
from gozero.hashing import mix
from gozero.playouts import playable
from gozero.runs.settings import COUNT, SHARE, check_ranges
from gozero.td import local_shape
from gozero.td import shapes as local
from gozero.td.shapes import Shapes


@dataclasses.dataclass(frozen=True)
class TdConfig:
    """How weights are learnt (static).

    Attributes:
      rules: the rules; always with simple ko, whatever they say.
      shapes: the features.
      epsilon: the probability of a random move.
      plies: from a position to the one it learns from: 1, or 2 for the same player's next move.
      max_moves: the number of moves after which a game is scored as it stands; None for 3 * size^2.

    Raises:
      ValueError: shapes of another size, epsilon outside 0 to 1, plies or max_moves below 1.
    """

    rules: go.Rules
    shapes: Shapes
    epsilon: float = 0.1
    plies: int = 2
    max_moves: int | None = None

    def __post_init__(self):
        if self.rules.size != self.shapes.size:
            raise ValueError(
                f"shapes: for size {self.shapes.size}, but the rules are for {self.rules.size}"
            )
        check_ranges(self, epsilon=SHARE, plies=COUNT, max_moves=COUNT._replace(optional=True))


class Task(NamedTuple):
    """What all lanes share."""

    weight_index: jax.Array  # i32[S, E]: the weights of each entry, see `shapes.Sharing`
    komi: jax.Array  # f32[]
    root: go.Position  # of one game: the position where games begin


class TdLanes(NamedTuple):
    """B games in lockstep."""

    positions: go.Position  # [B]
    moves: jax.Array  # i32[B]: moves since the root
    active: jax.Array  # i32[T, B, P]: the entries of the last T = plies positions, latest first


class StepStats(NamedTuple):
    """Statistics of one move of all games: sums, so that they can be added up."""

    squared_error: jax.Array  # f32[]: the sum of delta^2
    updates: jax.Array  # i32[]: positions whose value was updated
    ended: jax.Array  # i32[]: games that ended
    black_wins: jax.Array  # f32[]: of these, games that Black won; a draw counts a half
    moves: jax.Array  # i32[]: moves of the games that ended


def start(config: TdConfig, root: go.Position, count: int) -> TdLanes:
    """The lanes of `count` games that have not begun, from the position of one game."""
    first = local_shape.entries(config.shapes, root.black, root.white)
    return TdLanes(
        positions=jax.tree.map(lambda x: jnp.broadcast_to(x, (count,)), root),
        moves=jnp.zeros(count, jnp.int32),
        active=jnp.broadcast_to(first, (config.plies, count, first.size)),
    )


def step(
    config: TdConfig,
    task: Task,
    lanes: TdLanes,
    weights: jax.Array,
    rate: jax.Array,
    key: jax.Array,
) -> tuple[TdLanes, jax.Array, StepStats]:
    """Play one move in every game and learn from it. A game that ends restarts at the root.

    Args:
      config: how weights are learnt.
      task: what the lanes share.
      lanes: [B].
      weights: f32[K + 1].
      rate: f32[]; alpha.
      key: consumed.

    Returns:
      (the lanes, the weights, the statistics of the move).
    """
    rules = config.rules
    table = local.expand(task.weight_index, weights)
    logits = local_shape.action_logits(rules, config.shapes, table, lanes.positions)
    allowed = candidates(rules, lanes.positions)
    actions = choose(allowed, lanes.positions, logits, config.epsilon, key)
    play = lambda position, action: go.play_position(rules, position, action)
    positions = jax.vmap(play)(lanes.positions, actions)
    moves = lanes.moves + 1
    over = (positions.passes >= 2) | (moves >= (config.max_moves or 3 * rules.num_points))
    result = _results(rules, positions, over, task.komi)
    active = jax.vmap(functools.partial(local_shape.entries, config.shapes))(
        positions.black, positions.white
    )
    value_of = lambda active: jax.nn.sigmoid(jax.vmap(local_shape.logit, (None, 0))(table, active))
    target = jnp.where(over, result, value_of(active))
    earlier = lanes.active[-1]
    learns = moves >= config.plies  # the root counts as a position
    error = jnp.where(learns, target - value_of(earlier), 0.0)
    weights = update(task.weight_index, weights, earlier, error, rate)
    stats = StepStats(
        squared_error=jnp.sum(error**2),
        updates=jnp.sum(learns, dtype=jnp.int32),
        ended=jnp.sum(over, dtype=jnp.int32),
        black_wins=jnp.sum(jnp.where(over, result, 0.0)),
        moves=jnp.sum(jnp.where(over, moves, 0)),
    )
    lanes = TdLanes(positions, moves, jnp.concatenate([active[None], lanes.active[:-1]]))
    return _restarted(config, task, lanes, over), weights, stats


def _restarted(config: TdConfig, task: Task, lanes: TdLanes, over: jax.Array) -> TdLanes:
    """The lanes, with those that are over reset to the root."""
    fresh = start(config, task.root, over.size)
    active = jnp.where(over[None, :, None], fresh.active, lanes.active)
    pick = lambda begin, x: jnp.where(over, begin, x)
    return TdLanes(
        positions=jax.tree.map(pick, fresh.positions, lanes.positions),
        moves=pick(fresh.moves, lanes.moves),
        active=active,
    )


def _results(rules: go.Rules, positions: go.Position, over: jax.Array, komi) -> jax.Array:
    """f32[B]: 1 where Black has won, 0 where White has, 1/2 for a draw; only for games over."""
    finished = positions.replace(
        black=bb.keep(over, positions.black), white=bb.keep(over, positions.white)
    )  # empty boards where the game goes on: they flood nothing
    score = jax.vmap(functools.partial(scoring.area_difference, rules))(finished)
    return (1.0 + jnp.sign(score.astype(jnp.float32) - komi)) / 2


def update(
    weight_index: jax.Array,
    weights: jax.Array,
    active: jax.Array,
    error: jax.Array,
    rate: jax.Array,
) -> jax.Array:
    """The weights after B positions have learnt.

    Each position requests a change of alpha delta / |phi| of the weights of its features. If c
    active features of the batch share a weight (also within one position), their requests are added
    up and divided by sqrt(c). So a feature that occurs once learns as in TD(0), and a common one,
    for which the sum would overshoot and the mean be slow, learns at a rate in between. Even in a
    batch of one position, four corners change their weight by twice what one requests, not by four
    times.

    Args:
      weight_index: i32[S, E], from `shapes.Sharing`.
      weights: f32[K + 1].
      active: i32[B, P]; the active entries of each position.
      error: f32[B]; delta; 0 where nothing is learnt.
      rate: f32[]; alpha.

    Returns:
      f32[K + 1], the first 0.
    """
    which = weight_index.at[:, active].get(mode="promise_in_bounds")  # [S, B, P]
    sign = jnp.sign(which).astype(jnp.float32)
    learns = (error != 0).astype(jnp.float32)
    number = jnp.maximum(jnp.sum(jnp.abs(sign), axis=(0, 2)), 1.0)
    requested = sign * (rate * error / number)[None, :, None]
    add = lambda x: jnp.zeros(weights.shape).at[jnp.abs(which)].add(x, mode="promise_in_bounds")
    shared = add(jnp.broadcast_to(learns[None, :, None], which.shape))
    change = add(requested) / jnp.sqrt(jnp.maximum(shared, 1.0))
    return (weights + change).at[0].set(0.0)


# --- the policy -----------------------------------------------------------------------


def candidates(rules: go.Rules, positions: go.Position) -> jax.Array:
    """bool[B, A]: legal under simple ko and no own eye; a pass only if there is nothing else."""
    legal = jax.vmap(lambda p: bb.unpack(rules.layout, go.legal_points(rules, p)))(positions)
    return playable.no_own_eyes(rules, positions, legal)


def choose(
    allowed: jax.Array, positions: go.Position, logits: jax.Array, epsilon: float, key: jax.Array
) -> jax.Array:
    """i32[B]: the best allowed action for the player to move; ties are broken at random. With
    logits of nan it is any allowed action.

    Args:
      allowed: bool[B, A].
      positions: [B].
      logits: f32[B, A], for Black.
      epsilon: the probability of a random allowed action instead.
      key: consumed.
    """
    count, num_actions = allowed.shape
    tie_bits, explore_bits = jax.random.bits(key, (2, count), jnp.uint32)
    sign = jnp.where(positions.to_play == go.WHITE, -1.0, 1.0)[:, None]
    scores = jnp.where(allowed, sign * logits, -jnp.inf)
    explores = explore_bits < np.uint32(min(round(epsilon * 2**32), 2**32 - 1))
    least = jnp.where(explores[:, None], -jnp.inf, jnp.max(scores, axis=1, keepdims=True))
    # A random order of the actions, by a hash; the eligible action that comes last is taken.
    number = jnp.arange(num_actions, dtype=jnp.uint32)[None]
    order = mix(tie_bits[:, None] + number * np.uint32(0x9E3779B9)) >> np.uint32(1)
    order = jnp.where(allowed & ~(scores < least), order.astype(jnp.int32), -1)
    last = order == jnp.max(order, axis=1, keepdims=True)
    actions = jnp.arange(num_actions, dtype=jnp.int32)[None]
    return jnp.min(jnp.where(last, actions, num_actions), axis=1)
