"""A stub evaluator for both sides: random priors and values by integer hash, next to no cost."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go.rules import GameState, Position
from gozero.hashing import mix
from gozero.search.game import Evaluation, Trail

SPREAD, VALUE_SCALE = 30.0, 0.1
"""Standard deviation of the logits, and the greatest value. Narrow priors and close values make the
deep trees that real games have: some 9 edges a simulation at 32 simulations, over 20 at 400."""


def hash_judgement(seen: jax.Array, num_actions: int) -> tuple[jax.Array, jax.Array]:
    """u32[M] -> logits f32[M, A] of spread SPREAD, values f32[M] uniform within VALUE_SCALE."""
    action = jnp.arange(num_actions, dtype=jnp.uint32)[None, :] * np.uint32(0x27D4EB2D)
    bits = mix(seen[:, None] ^ (action + np.uint32(12345)))
    total = sum(
        ((bits >> np.uint32(8 * k)) & np.uint32(0xFF)).astype(jnp.float32) for k in range(4)
    )
    value = mix(seen ^ np.uint32(0xABCDEF)).astype(jnp.float32) * (2 / 2**32) - 1
    return (total - 510) * (SPREAD / 147.8), value * VALUE_SCALE


def observe(state: GameState, position: Position, trail: Trail) -> jax.Array:
    """u32[]: a hash of the stones and the mover."""
    del state, trail
    seen = position.to_play.astype(jnp.uint32)
    for word in (*position.black, *position.white):
        seen = mix(seen * np.uint32(31) + word)
    return seen


def stub(num_actions: int, params: None, key: jax.Array, observations: jax.Array) -> Evaluation:
    """The evaluator; give it the number of actions by ``functools.partial``."""
    del params, key
    return Evaluation(*hash_judgement(observations, num_actions))
