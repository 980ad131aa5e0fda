"""Proven results: win, draw or loss, whatever the other player does.

MCTS-Solver (Winands, Björnsson & Saito 2008), with draws: a finished game proves its position, and
proofs are backed up. A node is won if one of its actions wins; once all its actions are tried and
their results known, its result is the best of them.

A result is an i8; larger is better for the player whose result it is.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

UNKNOWN, LOSS, DRAW, WIN = range(4)

LEAST = np.finfo(np.float32).min
"""The lowest score above -inf: it ranks an action behind all others that may be chosen."""


def of_result(over: jax.Array, value: jax.Array) -> jax.Array:
    """i8[...]: the result that a finished game proves, by its value for the player to move.

    Only the exact values +1, 0 and -1 are a win, a draw and a loss. Any other value, such as a
    margin, proves nothing: a better one might exist.
    """
    known = over & ((value == 1) | (value == 0) | (value == -1))
    return jnp.where(known, jnp.where(known, value, 0).astype(jnp.int8) + DRAW, UNKNOWN).astype(
        jnp.int8
    )


def of_actions(results: jax.Array, has_untried: jax.Array) -> jax.Array:
    """i8[]: the result of a node that its actions prove.

    Args:
      results: i8[K]: the results of all tried actions, for the player to move at the node; negative
        for padding.
      has_untried: bool[]: whether there are other actions.
    """
    best = jnp.max(results)
    all_known = ~has_untried & ~jnp.any(results == UNKNOWN) & (best >= LOSS)
    return jnp.where((best == WIN) | all_known, best, UNKNOWN).astype(jnp.int8)


def opponent(result: jax.Array) -> jax.Array:
    """i8[...]: a result from the other player's perspective."""
    return jnp.where(result == UNKNOWN, UNKNOWN, WIN + LOSS - result).astype(jnp.int8)


def value(result: jax.Array) -> jax.Array:
    """f32[...]: +1, 0 or -1; undefined if unknown."""
    return result.astype(jnp.float32) - DRAW


def exact_or(result: jax.Array, mean: jax.Array) -> jax.Array:
    """f32[...]: the value of the result; the mean where the result is unknown."""
    return jnp.where(result == UNKNOWN, mean, value(result))


def avoid_lost(scores: jax.Array, results: jax.Array | None) -> jax.Array:
    """Scores f32[..., K], with actions that lose, by results i8[..., K], ranked behind all others.

    (Winning actions need no such rule: their node is proven, and a descent stops there.)
    """
    return scores if results is None else jnp.where(results == jnp.int8(LOSS), LEAST, scores)
