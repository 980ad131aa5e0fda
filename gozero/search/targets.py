"""Policy targets from the root's statistics."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp


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
