"""Results that are proven: won, drawn or lost whatever the other player does.

MCTS-Solver (Winands, Björnsson & Saito 2008), with draws: a game that is over proves its position,
and proofs go up. A node is won if one of its actions wins; once all its actions are tried and
their results known, its result is the best of them.

A result is an i8 that is larger if it is better for the player whose it is.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

UNKNOWN, LOSS, DRAW, WIN = range(4)

LEAST = np.finfo(np.float32).min
"""A score behind all others that are not -inf."""


def of_result(over: jax.Array, value: jax.Array) -> jax.Array:
    """i8[...]: what a game's end proves, f32[...] for the player to move.

    Only +1, 0 and -1 exactly are a win, a draw and a loss. Another value, such as a reward for the
    margin, proves nothing: there might be better.
    """
    known = over & ((value == 1) | (value == 0) | (value == -1))
    return jnp.where(known, jnp.where(known, value, 0).astype(jnp.int8) + DRAW, UNKNOWN).astype(
        jnp.int8
    )


def of_actions(results: jax.Array, has_untried: jax.Array) -> jax.Array:
    """i8[]: what a node's actions prove of it.

    Args:
      results: i8[K], for the player to move at the node, of all actions that are tried; less
        than 0 for what is no action.
      has_untried: bool[]: there are other actions.
    """
    best = jnp.max(results)
    all_known = ~has_untried & ~jnp.any(results == UNKNOWN) & (best >= LOSS)
    return jnp.where((best == WIN) | all_known, best, UNKNOWN).astype(jnp.int8)


def opponent(result: jax.Array) -> jax.Array:
    """i8[...]: a result as the other player sees it."""
    return jnp.where(result == UNKNOWN, UNKNOWN, WIN + LOSS - result).astype(jnp.int8)


def value(result: jax.Array) -> jax.Array:
    """f32[...]: +1, 0, -1; of no meaning if unknown."""
    return result.astype(jnp.float32) - DRAW


def exact_or(result: jax.Array, mean: jax.Array) -> jax.Array:
    """f32[...]: the value of a result; the mean where none is known."""
    return jnp.where(result == UNKNOWN, mean, value(result))


def avoid_lost(scores: jax.Array, results: jax.Array | None) -> jax.Array:
    """Scores f32[..., K] with the actions that lose, by results i8[..., K], behind all others.

    (One that wins is never asked for: its node is proven, and a descent stops there.)
    """
    return scores if results is None else jnp.where(results == jnp.int8(LOSS), LEAST, scores)
