"""The move to play and the policy to learn, from the root's statistics."""

from __future__ import annotations

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp

from gozero.runs.settings import ABOVE_0, AT_LEAST_0, check_ranges
from gozero.search.edges import best_by_sample

CONFIDENCE = 1.96
"""The z of "bound", in standard deviations: the lower bound holds 39 times out of 40."""


def by_visits(
    key: jax.Array, visits: jax.Array, prior: jax.Array, temperature: jax.Array
) -> jax.Array:
    """An action drawn with probability proportional to N^(1 / temperature).

    Silver et al. (2017), Methods. Temperature 0 takes the most visited action, at random
    among equals. Actions without a visit are never drawn, unless there are no visits at
    all: then the prior decides.

    Args:
      key: PRNG key.
      visits: N, i32[A], or shares of them, f32[A].
      prior: f32[A], -inf where illegal.
      temperature: f32[], >= 0.

    Returns:
      i32[].
    """
    chex.assert_equal_shape([visits, prior])
    searched = jnp.any(visits > 0)
    weight = jnp.where(searched, visits.astype(jnp.float32), jnp.maximum(prior, 0.0))
    log_weight = jnp.where(weight > 0, jnp.log(jnp.maximum(weight, 1e-30)), -jnp.inf)
    sharpened = log_weight / jnp.maximum(temperature, 1e-3)
    greedy = jnp.where(log_weight == jnp.max(log_weight), 0.0, -jnp.inf)
    logits = jnp.where(temperature > 0, sharpened, greedy)
    return jax.random.categorical(key, logits).astype(jnp.int32)


def visit_policy(visits: jax.Array, prior: jax.Array) -> jax.Array:
    """The share of each action in the root's visits: pi = N / sum N.

    Silver et al. (2017). Without visits (a finished game) it is the prior over the legal
    actions.

    Args:
      visits: N, i32[A].
      prior: f32[A], -inf where illegal.

    Returns:
      f32[A], summing to 1.
    """
    chex.assert_equal_shape([visits, prior])
    total = jnp.sum(visits)
    share = visits.astype(jnp.float32) / jnp.maximum(total, 1).astype(jnp.float32)
    return jnp.where(total > 0, share, jnp.maximum(prior, 0.0))


def by_value(key: jax.Array, visits: jax.Array, q: jax.Array, z: float = 0.0) -> jax.Array:
    """The visited action with the highest value; with z > 0, the highest lower confidence bound.

    The bound is lower for values of few visits: it is that of Wilson (1927) for a
    probability of winning p = (1 + Q) / 2 after N results,
    (p + z^2 / 2N - z sqrt(p (1 - p) / N + z^2 / 4N^2)) / (1 + z^2 / N).

    Args:
      key: PRNG key, for ties.
      visits: N, i32[A].
      q: Q, f32[A] in [-1, 1].
      z: standard deviations below the mean; 0: the value itself.

    Returns:
      i32[]; undefined without visits.
    """
    chex.assert_equal_shape([visits, q])
    return best(key, jnp.where(visits > 0, lower_bound(visits, q, z), -jnp.inf))


def best(key: jax.Array, score: jax.Array) -> jax.Array:
    """i32[]: the action with the highest score, f32[A]; ties are random."""
    return best_by_sample(score, jax.random.gumbel(key, score.shape))


def lower_bound(visits: jax.Array, q: jax.Array, z: float) -> jax.Array:
    """f32[A] in [0, 1]: Wilson's bound, see `by_value`; 0 visits count as one."""
    n = jnp.maximum(visits, 1).astype(jnp.float32)
    p = (1.0 + q) / 2
    deviation = jnp.sqrt(jnp.maximum(p * (1.0 - p) / n, 0.0) + (z / (2.0 * n)) ** 2)
    return (p + z**2 / (2.0 * n) - z * deviation) / (1.0 + z**2 / n)


def standing(value: jax.Array, visits: jax.Array, q: jax.Array) -> jax.Array:
    """f32[]: the higher of the root's value and its best child's, which decides on resigning.

    Args:
      value: f32[], the root's value.
      visits: N, i32[A].
      q: Q, f32[A].

    Returns:
      f32[]; infinity without visits, so that no one resigns.
    """
    chex.assert_equal_shape([visits, q])
    best = jnp.max(jnp.where(visits > 0, q, -jnp.inf))
    return jnp.where(jnp.any(visits > 0), jnp.maximum(value, best), jnp.inf)


def resigns(
    value: jax.Array, visits: jax.Array, q: jax.Array, threshold: float | jax.Array
) -> jax.Array:
    """bool[]: whether the values of the root and of its best child are both below the threshold.

    Silver et al. (2017), Methods: a player resigns if the root value and the best child value are
    below v_resign.

    Args:
      value, visits, q: of the root, as for `standing`; without visits, False.
      threshold: v_resign in [-1, 1].
    """
    return standing(value, visits, q) < threshold


def resignations(
    value: jax.Array, visits: jax.Array, q: jax.Array, threshold: float | None
) -> jax.Array:
    """bool[B]: `resigns` for values f32[B] and actions [B, A]; False without a threshold."""
    if threshold is None:
        return jnp.zeros(value.shape, bool)
    return jax.vmap(functools.partial(resigns, threshold=threshold))(value, visits, q)


@dataclasses.dataclass(frozen=True)
class Temperature:
    """The temperature at each move of a game.

    `early` for the first `moves` moves, `late` after them (Silver et al. 2017: 1 for 30 moves, then
    0). With a `halflife`, it decays from `early` to `late` instead: the difference halves every
    `halflife` moves.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    early: float = 1.0
    late: float = 0.0
    moves: int = 30
    halflife: float | None = None

    def __post_init__(self):
        check_ranges(self, early=AT_LEAST_0, late=AT_LEAST_0, moves=AT_LEAST_0)
        check_ranges(self, halflife=ABOVE_0._replace(optional=True))

    def __call__(self, ply: jax.Array) -> jax.Array:
        """f32[...]: the temperature after `ply`, i32[...], moves."""
        if self.halflife is None:
            return jnp.where(ply < self.moves, self.early, self.late).astype(jnp.float32)
        return self.late + (self.early - self.late) * 0.5 ** (ply / self.halflife)
