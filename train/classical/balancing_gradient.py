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

A softmax playout draws a point by all its features but self-atari, and accepts a self-atari with
the probability gamma, its strength (`softmax`). The gradient is that of these draws and
acceptances, whose probabilities are known without a look at every move: psi of gamma is 1 for one
that is accepted and -gamma / (1 - gamma) for one that is not. From a gamma of 1, which rejects
nothing, nothing is learnt about it.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import scoring, stacked
from gozero.playouts import engine, playable
from gozero.playouts.policies import atari_lanes
from gozero.playouts.policies.softmax import softmax
from gozero.playouts.policies.softmax import strengths as strength
from gozero.playouts.policies.softmax.softmax import Softmax
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


NOT_SELF_ATARI, ACCEPTED, REJECTED = 0, 1, 2
"""What became of a draw."""


def _num_rows(cap: int) -> int:
    """The number of draws recorded at most: most playouts are much shorter than `cap` moves, which
    leaves room for rejected draws."""
    return 2 * cap + 64


class RecordedPlayouts(NamedTuple):
    """Playouts with all the draws made in them."""

    choices: Choices  # [T, B]; `played` is the point drawn, `self_atari` is empty
    is_choice: jax.Array  # bool[T, B]: a point was drawn, before the end of the playout
    self_atari: jax.Array  # i32[T, B]: NOT_SELF_ATARI, ACCEPTED or REJECTED
    length: jax.Array  # i32[]: rows from here on are empty
    score: jax.Array  # i32[B]: Black's area - White's area
    is_complete: jax.Array  # bool[B]: it has ended, by itself or at the cap


def _policy(logs: Strengths, rules: go.Rules) -> Softmax:
    """The playout policy of these strengths, without the features that no playout learns."""
    learnt = jax.tree.map(jnp.exp, logs)._replace(**strength.not_of_playouts())
    return softmax.softmax_policy(learnt, rules.size)


def values(
    rules: go.Rules, logs: Strengths, positions: go.Position, key: jax.Array, komi, cap: int
) -> jax.Array:
    """f32[B]: the results of playouts by the policy, played as in searches; 1 if Black won."""
    policy = _policy(logs, rules)
    ended = softmax.softmax_playouts(rules, positions, key, policy, max_moves=cap)
    return engine.outcomes(ended, komi)


def play(
    rules: go.Rules, logs: Strengths, positions: go.Position, key: jax.Array, cap: int
) -> RecordedPlayouts:
    """Playouts of the same policy that record the choices: slower, with one step for each draw.

    Args:
      rules: the rules; only their size counts.
      logs: of the strengths.
      positions: [B].
      key: consumed.
      cap: moves after which a playout is cut. One that has not ended after `_num_rows(cap)` draws
        is not complete.
    """
    policy = _policy(logs, rules)
    count = positions.to_play.shape[0]
    none, no_moves = jnp.full(count, bb.NO_POINT, jnp.int32), jnp.zeros(count, jnp.int32)
    one_draw = functools.partial(_one_draw, rules, policy, cap)
    rows, num_rows = jax.eval_shape(one_draw, positions, none, no_moves, key)[3:], _num_rows(cap)
    rows = jax.tree.map(lambda x: jnp.zeros((num_rows, *x.shape), x.dtype), rows)

    def step(carry):
        t, positions, previous, moves, rows = carry
        draw_key = jax.random.fold_in(key, t)
        positions, previous, moves, *row = one_draw(positions, previous, moves, draw_key)
        put = functools.partial(lax.dynamic_update_index_in_dim, index=t, axis=0)
        return t + 1, positions, previous, moves, jax.tree.map(put, rows, tuple(row))

    def is_running(carry):
        t, positions, _, moves, _ = carry
        return (t < num_rows) & jnp.any((positions.passes < 2) & (moves < cap))

    start = jnp.int32(0), positions, none, no_moves, rows
    length, positions, _, moves, rows = lax.while_loop(is_running, step, start)
    choices, is_choice, self_atari = rows
    score = jax.vmap(functools.partial(scoring.area_difference, rules))(positions)
    is_complete = (positions.passes >= 2) | (moves >= cap)
    return RecordedPlayouts(choices, is_choice, self_atari, length, score, is_complete)


def _one_draw(rules, policy, cap, positions, previous, moves, key):
    """(positions, previous moves, numbers of moves, Choices, bool: a point was drawn, self-atari),
    each [B], after a draw in all playouts that have not ended."""
    lay = rules.layout
    now = stacked.words(atari_lanes.situation(rules, positions, previous))
    draw_key, accept_key = jax.random.split(key)
    bits = lambda key: jax.random.bits(key, previous.shape, jnp.uint32)
    weights = softmax.weights(policy, lay, now)
    action = playable.action_of(lay, softmax.draw(lay, weights, bits(draw_key)))
    is_point = action < rules.pass_action
    is_running = (positions.passes < 2) & (moves < cap)
    after = jax.vmap(functools.partial(go.play_position, rules))(positions, action)
    stone = jax.vmap(functools.partial(bb.at, lay))(action)
    is_self_atari = bb.any_of(bb.intersection(stone, after.atari))
    is_accepted = ~is_self_atari | (bits(accept_key) <= policy.self_atari)
    is_played = is_running & is_accepted
    after = jax.tree.map(lambda x, y: jnp.where(is_played, x, y), after, positions)
    previous_after = jnp.where(is_point, action, bb.NO_POINT)
    choices = Choices(
        own=now.own,
        opponent=now.opponent,
        in_atari=now.atari,
        endangered=now.endangered,
        may=softmax.may_be_played(lay, now),
        self_atari=jax.tree.map(jnp.zeros_like, now.own),
        previous=previous,
        played=jnp.where(is_point, action, 0),
    )
    kind = jnp.where(is_self_atari, jnp.where(is_accepted, ACCEPTED, REJECTED), NOT_SELF_ATARI)
    previous = jnp.where(is_played, previous_after, previous)
    return after, previous, moves + is_played, choices, is_running & is_point, kind


def weighted_psi(
    lay: bb.Layout, logs: Strengths, games: RecordedPlayouts, weights: jax.Array
) -> Strengths:
    """The sum over playouts of the weight f32[B] times the sum of psi; f32 per parameter, 0 for the
    features that no playout learns."""

    accepted = jnp.exp(logs.self_atari[0])
    of_rejected = -accepted / jnp.maximum(1.0 - accepted, 1e-6)
    psi_of_acceptance = jnp.where(
        accepted < 1.0, jnp.stack([jnp.float32(0), jnp.float32(1), of_rejected]), 0.0
    )

    fixed = jax.tree.map(np.zeros_like, strength.not_of_playouts())

    def add(t, total):
        choices, is_choice, self_atari = jax.tree.map(
            lambda x: lax.dynamic_index_in_dim(x, t, 0, False), games[:3]
        )
        features = choices_of.features(lay, choices)
        expected = jax.nn.softmax(choices_of.log_strengths(logs, features), axis=0)
        points = lax.broadcasted_iota(jnp.int32, expected.shape, 0)
        played = points == choices.played[None]
        weight = jnp.where(is_choice, weights, 0.0)[None]
        psi = jnp.where(is_choice[None], played - expected, 0.0)
        sums = choices_of.by_feature(features, weight * psi)
        acceptances = jnp.sum(weight[0] * psi_of_acceptance[self_atari], keepdims=True)
        sums = sums._replace(self_atari=acceptances, **fixed)
        return jax.tree.map(jnp.add, total, sums)

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
    weights = jnp.where(games.is_complete, weights.reshape(-1), 0.0)
    return weighted_psi(rules.layout, logs, games, weights), error


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
