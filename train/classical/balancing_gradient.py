"""Simulation balancing (Silver & Tesauro 2009): playouts whose errors cancel out.

A policy is balanced in a position if the mean result V of its playouts is the position's value
V*. The squared bias (V* - V)^2 is minimised over some positions; its gradient is

    d/d theta (V* - V)^2 = -2 (V* - V) dV/d theta,    dV/d theta = E[z sum_t psi(s_t, a_t)]

where z is a playout's result and psi(s, a) = d log pi(a | s) / d theta: for a softmax, the
features of the move played minus those expected. The two factors are estimated from two
independent sets of playouts (policy gradient simulation balancing in the paper), so that their
product is unbiased. As psi is 0 on average, V of the first set may be subtracted from z in the
second, which reduces the noise and does not change the mean.

The parameters theta are the logarithms of the strengths. All values are Black's.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import scoring
from gozero.playouts import engine, playable
from gozero.playouts.policies.softmax import softmax
from gozero.playouts.policies.softmax.strengths import Strengths
from train.classical import choices as choices_of
from train.classical.choices import Choices


class Valued(NamedTuple):
    """P positions with known values."""

    positions: go.Position  # [P]
    komi: jax.Array  # f32[P]
    values: jax.Array  # f32[P]: V* in [-1, 1], for Black

    def repeated(self, count: int) -> tuple[go.Position, jax.Array]:
        """(positions, komi), each repeated `count` times in a row."""
        return jax.tree.map(lambda x: jnp.repeat(x, count, axis=0), (self.positions, self.komi))


class Sets(NamedTuple):
    """The number of playouts of each position in the two sets; static."""

    value: int = 64
    gradient: int = 16


class RecordedPlayouts(NamedTuple):
    """Playouts with all the choices made in them."""

    choices: Choices  # [T, B]
    is_choice: jax.Array  # bool[T, B]: a point was played, before the end of the playout
    length: jax.Array  # i32[]: rows from here on are empty
    score: jax.Array  # i32[B]: Black's area - White's area


def values(
    rules: go.Rules, logs: Strengths, positions: go.Position, key: jax.Array, komi, cap: int
) -> jax.Array:
    """f32[B]: the results of playouts by the policy, played as in searches; 1 if Black won."""
    policy = softmax.softmax_policy(jax.tree.map(jnp.exp, logs), rules.size)
    ended = softmax.softmax_playouts(rules, positions, key, policy, max_moves=cap)
    return engine.outcomes(ended, komi)


def play(
    rules: go.Rules, logs: Strengths, positions: go.Position, key: jax.Array, cap: int
) -> RecordedPlayouts:
    """Playouts of the same policy that record the choices: slower, with one step for each move.

    Args:
      rules: the rules; only their size counts.
      logs: of the strengths.
      positions: [B].
      key: consumed.
      cap: moves after which a playout is cut.
    """
    policy = softmax.softmax_policy(jax.tree.map(jnp.exp, logs), rules.size)
    count = positions.to_play.shape[0]
    previous = jnp.full(count, bb.NO_POINT, jnp.int32)
    one_step = functools.partial(_one_move, rules, policy)
    rows = jax.eval_shape(one_step, positions, previous, key)[2:]
    rows = jax.tree.map(lambda x: jnp.zeros((cap, *x.shape), x.dtype), rows)

    def step(carry):
        t, positions, previous, rows = carry
        move_key = jax.random.fold_in(key, t)
        positions, previous, *row = one_step(positions, previous, move_key)
        put = functools.partial(lax.dynamic_update_index_in_dim, index=t, axis=0)
        return t + 1, positions, previous, jax.tree.map(put, rows, tuple(row))

    def is_running(carry):
        t, positions, *_ = carry
        return (t < cap) & jnp.any(positions.passes < 2)

    start = jnp.int32(0), positions, previous, rows
    length, positions, _, (choices, is_choice) = lax.while_loop(is_running, step, start)
    score = jax.vmap(functools.partial(scoring.area_difference, rules))(positions)
    return RecordedPlayouts(choices, is_choice, length, score)


def _one_move(rules, policy, positions, previous, key):
    """(positions, previous moves, Choices, bool: the move was a choice), each [B], after a move in
    all playouts that have not ended."""
    lay = rules.layout
    own, opponent = go.own_and_opponent(positions)
    legal = jax.vmap(functools.partial(go.legal_points, rules))(positions)
    allowed = bb.difference(legal, playable.eyes(lay, own, opponent))
    move = playable.packed_point(lay, previous)
    weights = softmax.weights(policy, lay, own, opponent, allowed, move)
    random = jax.random.bits(key, previous.shape, jnp.uint32)
    action = playable.action_of(lay, softmax.draw(lay, weights, random))
    is_running = positions.passes < 2
    after = jax.vmap(functools.partial(go.play_position, rules))(positions, action)
    after = jax.tree.map(lambda x, y: jnp.where(is_running, x, y), after, positions)
    is_point = action < rules.pass_action
    choices = Choices(own, opponent, allowed, previous, jnp.where(is_point, action, 0))
    return after, jnp.where(is_point, action, bb.NO_POINT), choices, is_running & is_point


def weighted_psi(
    lay: bb.Layout, logs: Strengths, games: RecordedPlayouts, weights: jax.Array
) -> Strengths:
    """The sum over playouts of the weight f32[B] times the sum of psi; f32 per parameter."""

    def add(t, total):
        choices, is_choice = jax.tree.map(
            lambda x: lax.dynamic_index_in_dim(x, t, 0, False), games[:2]
        )
        features = choices_of.features(lay, choices)
        expected = jax.nn.softmax(choices_of.log_strengths(logs, features), axis=0)
        points = lax.broadcasted_iota(jnp.int32, expected.shape, 0)
        played = points == choices.played[None]
        weight = jnp.where(is_choice, weights, 0.0)[None]
        psi = jnp.where(is_choice[None], played - expected, 0.0)
        return jax.tree.map(jnp.add, total, choices_of.by_feature(features, weight * psi))

    return lax.fori_loop(0, games.length, add, jax.tree.map(jnp.zeros_like, logs))


def bias_gradient(
    rules: go.Rules, logs: Strengths, valued: Valued, key: jax.Array, sets: Sets, cap: int
) -> tuple[Strengths, jax.Array]:
    """(the gradient of half the mean squared bias, V* - V f32[P] of the first set).

    Args:
      rules: the rules; only their size counts.
      logs: of the strengths.
      valued: the positions.
      key: consumed.
      sets: the numbers of playouts of each position.
      cap: moves after which a playout is cut.
    """
    value_key, gradient_key = jax.random.split(key)
    by_position = lambda x: x.reshape(len(valued.values), -1)
    positions, komi = valued.repeated(sets.value)
    mean = by_position(values(rules, logs, positions, value_key, komi, cap)).mean(axis=1)
    positions, komi = valued.repeated(sets.gradient)
    games = play(rules, logs, positions, gradient_key, cap)
    results = by_position(jnp.sign(games.score.astype(jnp.float32) - komi))
    error = valued.values - mean
    weights = -error[:, None] * (results - mean[:, None]) / results.size
    return weighted_psi(rules.layout, logs, games, weights.reshape(-1)), error


def squared_bias(
    rules: go.Rules, logs: Strengths, valued: Valued, key: jax.Array, count: int, cap: int
) -> jax.Array:
    """f32[]: an estimate of the mean of (V* - V)^2 that the noise of V does not bias.

    With two independent sets of `count` playouts, (V* - V_1)(V* - V_2) has that mean.
    """
    positions, komi = valued.repeated(2 * count)
    results = values(rules, logs, positions, key, komi, cap)
    means = results.reshape(len(valued.values), 2, count).mean(axis=2)
    errors = valued.values[:, None] - means
    return jnp.mean(errors[:, 0] * errors[:, 1])
