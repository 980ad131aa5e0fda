"""A stub evaluator for both sides: random priors and values by integer hash, at almost no cost."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go.rules import GameState, Position
from gozero.hashing import mix
from gozero.search.game import Ancestors, Evaluation

NETWORK_SPREAD = 4.0
"""Standard deviation of the logits with which priors have the entropy of a trained 9x9 network's,
1.6 to 1.8 nats."""
NARROW_SPREAD = 30.0
"""Likewise for priors so narrow (0.1 to 0.2 nats) that the trees are three to six times as deep."""
VALUE_SCALE = 0.1
"""The largest absolute value. Values this close together give trees as deep as in real games."""


def hashed_evaluation(
    hashes: jax.Array, num_actions: int, spread: float
) -> tuple[jax.Array, jax.Array]:
    """u32[M] -> (logits f32[M, A] with standard deviation `spread`, values f32[M])."""
    action = jnp.arange(num_actions, dtype=jnp.uint32)[None, :] * np.uint32(0x27D4EB2D)
    bits = mix(hashes[:, None] ^ (action + np.uint32(12345)))
    parts = (((bits >> np.uint32(8 * k)) & np.uint32(0xFF)).astype(jnp.float32) for k in range(4))
    total = functools.reduce(jnp.add, parts)
    value = mix(hashes ^ np.uint32(0xABCDEF)).astype(jnp.float32) * (2 / 2**32) - 1
    return (total - 510) * (spread / 147.8), value * VALUE_SCALE


def observe(state: GameState, position: Position, ancestors: Ancestors) -> jax.Array:
    """u32[]: a hash of the stones and the player to move."""
    del state, ancestors
    code = position.to_play.astype(jnp.uint32)
    for word in (*position.black, *position.white):
        code = mix(code * np.uint32(31) + word)
    return code


def evaluate(
    num_actions: int, spread: float, params: None, key: jax.Array, observations: jax.Array
) -> Evaluation:
    """The evaluator; fix the number of actions and the spread by ``functools.partial``."""
    del params, key
    return Evaluation(*hashed_evaluation(observations, num_actions, spread))
