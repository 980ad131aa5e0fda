"""Descent on the squared bias, and the values that playouts are to be balanced by."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.play.evaluators import playout_evaluator
from gozero.playouts import playout
from gozero.playouts.softmax import strengths
from gozero.playouts.softmax.softmax import Softmax, softmax_policy
from gozero.playouts.softmax.strengths import Strengths
from gozero.search.config import Amaf, SearchConfig
from gozero.search.search import search
from train.classical.balancing import gradient
from train.classical.balancing.gradient import Sets


class Valued(NamedTuple):
    """P positions whose values are known."""

    positions: go.Position  # [P]
    komi: jax.Array  # f32[P]
    values: jax.Array  # f32[P]: in [-1, 1], for Black


class Step(NamedTuple):
    """Where a descent stands."""

    strengths: Strengths
    bias: float  # root mean square of V* - V over the step's positions, the noise of V included


def balance(
    rules: go.Rules,
    start: Strengths,
    valued: Valued,
    seed: int,
    steps: int,
    batch: int,
    rate: float,
    sets: Sets,
) -> Iterator[Step]:
    """Gradient steps, each on some of the positions; the rate falls to 0 along a line.

    Args:
      rules: the rules; their size is what counts.
      start: strengths to begin with.
      valued: the positions and their values.
      seed: of the positions drawn and of the playouts.
      steps: how many.
      batch: positions a step.
      rate: what the gradient by the logarithms of the strengths is multiplied with at first.
      sets: playouts of each position and step.

    Yields:
      The Step after each.
    """
    cap, rng = playout.move_cap(rules), np.random.default_rng(seed)

    @jax.jit
    def descend(logs, valued, key, rate):
        slope, error = gradient.bias_gradient(
            rules, logs, valued.positions, valued.values, valued.komi, key, sets, cap
        )
        logs = jax.tree.map(lambda x, y: x - rate * y, logs, slope)
        return logs, jnp.sqrt(jnp.mean(error**2))

    logs = jax.tree.map(jnp.log, jax.tree.map(jnp.asarray, start))
    for step in range(steps):
        chosen = rng.choice(len(valued.values), min(batch, len(valued.values)), replace=False)
        some = jax.tree.map(lambda x, chosen=chosen: x[chosen], valued)
        key = jax.random.fold_in(jax.random.key(seed), step)
        logs, bias = descend(logs, some, key, rate * (1 - step / steps))
        yield Step(jax.tree.map(jnp.exp, logs), float(bias))


def measure(rules: go.Rules, strengths: Strengths, valued: Valued, seed: int, count: int) -> float:
    """The mean squared bias, by 2 * count playouts of each position; see `squared_bias`."""
    logs = jax.tree.map(jnp.log, jax.tree.map(jnp.asarray, strengths))
    return float(_measure(rules, count)(logs, valued, jax.random.key(seed)))


@functools.cache
def _measure(rules: go.Rules, count: int) -> Callable:
    cap = playout.move_cap(rules)

    def run(logs, valued, key):
        return gradient.squared_bias(
            rules, logs, valued.positions, valued.values, valued.komi, key, count, cap
        )

    return jax.jit(run)


def search_values(
    rules: go.Rules,
    positions: go.Position,
    komi: jax.Array,
    policy: Softmax | None,
    simulations: int,
    seed: int,
) -> jax.Array:
    """f32[P]: what MC-RAVE finds the positions worth for Black.

    Args:
      rules: the rules, under simple ko: of the game before the positions nothing is known.
      positions: [P], none of them ended.
      komi: f32[P].
      policy: of the playouts; None for uniform ones.
      simulations: of each search.
      seed: of chance.
    """
    params = policy if policy is None else jax.tree.map(jnp.asarray, policy)
    run = _search(rules, simulations, policy is None)
    return run(params, positions, komi, jax.random.key(seed))


@functools.cache
def _search(rules: go.Rules, simulations: int, uniform: bool) -> Callable:
    """Jitted (params, positions, komi, key) -> f32[P]; the params are the policy of playouts, or
    None for uniform ones."""
    any_policy = "uniform" if uniform else softmax_policy(strengths.uniform(), rules.size)
    evaluator = playout_evaluator(rules, any_policy, first_plays=True)
    config = SearchConfig(num_simulations=simulations, select=evaluator.select, amaf=Amaf())
    game = go_game(rules)

    def run(params, positions, komi, key):
        ended = jnp.zeros(komi.shape, bool)
        states = go.GameState(positions, komi, ended, None, size=rules.size)
        found = search(game, evaluator._replace(params=params), key, states, config)
        return jnp.where(positions.to_play == go.WHITE, -found.value, found.value)

    return jax.jit(run)
