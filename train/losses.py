"""What training makes small, for one row. The caller vmaps."""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp


class Losses(NamedTuple):
    """The parts of the loss; their sum is what the gradient is of."""

    policy: jax.Array  # f32[]
    value: jax.Array  # f32[]


def policy_cross_entropy(logits: jax.Array, legal: jax.Array, target: jax.Array) -> jax.Array:
    """-sum_a pi(a) log p(a), with p the softmax over the legal actions, as the search has it.

    Never below the target's own entropy.

    Args:
      logits: f32[A].
      legal: bool[A].
      target: pi, f32[A]; sums to 1, and is 0 where illegal.

    Returns:
      f32[], in nats.
    """
    chex.assert_equal_shape([logits, legal, target])
    log_p = jax.nn.log_softmax(jnp.where(legal, logits, -jnp.inf))
    # 0 log 0 is 0: the product is taken where both are finite only, forwards and backwards.
    return -jnp.sum(target * jnp.where(legal, log_p, 0.0))


def entropy(target: jax.Array) -> jax.Array:
    """-sum_a pi(a) log pi(a), f32[] in nats: what no policy's cross-entropy can beat."""
    return -jnp.sum(jax.scipy.special.xlogy(target, target))


def value_squared_error(value: jax.Array, outcome: jax.Array) -> jax.Array:
    """(z - v)^2, f32[]; both in [-1, 1] and for the player to move."""
    chex.assert_shape([value, outcome], ())
    return jnp.square(outcome - value)
