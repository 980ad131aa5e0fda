"""The move to play, from the root's statistics."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp


def by_visits(
    key: jax.Array, visits: jax.Array, prior: jax.Array, temperature: jax.Array
) -> jax.Array:
    """An action drawn with probability proportional to N^(1 / temperature).

    Silver et al. (2017), Methods. Temperature 0 takes the most visited action, at random
    among equals. Actions without a visit are never drawn, unless there are no visits at
    all: then the prior decides.

    Args:
      key: PRNG key.
      visits: N, i32[A].
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
