"""Noise at the root: on its priors, and for a rule of its own."""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp


def dirichlet(key: jax.Array, legal: jax.Array, alpha: float) -> jax.Array:
    """A symmetric Dirichlet sample over the legal actions.

    Gammas are drawn by their logarithm: at the small alphas of large boards most of them
    are too small for f32.

    Args:
      key: PRNG key.
      legal: bool[A], at least one True.
      alpha: the concentration; AlphaGo Zero uses 0.03 on 19x19.

    Returns:
      f32[A], summing to 1; 0 where illegal.
    """
    log_gamma = jax.random.loggamma(key, alpha, legal.shape)
    return jax.nn.softmax(jnp.where(legal, log_gamma, -jnp.inf))


class Draws(NamedTuple):
    """What is drawn once a search."""

    salts: jax.Array  # u32[B]: one a tree, for ties
    gumbel: jax.Array  # f32[B, A], for a root's rule


def gumbel(key: jax.Array, num_trees: int, num_actions: int) -> jax.Array:
    """f32[B, A]: Gumbel(0, 1) samples; those of a tree do not depend on how many there are."""
    keys = jax.random.split(key, num_trees)
    return jax.vmap(lambda key: jax.random.gumbel(key, (num_actions,), jnp.float32))(keys)


def soften(prior: jax.Array, temperature: float) -> jax.Array:
    """P^(1 / temperature), made to sum to 1: above 1 the priors come closer to each other.

    Wu (2019) softens the root's priors by 1.03 or more before the noise is added.

    Args:
      prior: f32[A]; -inf where illegal, and so it stays.
      temperature: above 0.
    """
    chex.assert_rank(prior, 1)
    legal = prior >= 0
    logits = jnp.where(prior > 0, jnp.log(jnp.maximum(prior, 1e-38)), -jnp.inf)
    softened = jax.nn.softmax(logits / temperature)
    return jnp.where(legal, jnp.where(jnp.any(prior > 0), softened, prior), -jnp.inf)


def add_dirichlet(key: jax.Array, prior: jax.Array, alpha: float, fraction: float) -> jax.Array:
    """P <- (1 - fraction) P + fraction noise, Silver et al. (2017), Methods.

    Args:
      key: PRNG key.
      prior: f32[A]; -inf where illegal, and so it stays.
      alpha: the Dirichlet concentration.
      fraction: the weight of the noise, 0.25 in the paper.
    """
    chex.assert_rank(prior, 1)
    legal = prior >= 0
    noisy = (1.0 - fraction) * prior + fraction * dirichlet(key, legal, alpha)
    return jnp.where(legal, noisy, -jnp.inf)


def board_alpha(num_points: int) -> float:
    """AlphaGo Zero's 0.03 at 361 points, scaled so that the sum over points stays."""
    return 0.03 * 361 / num_points
