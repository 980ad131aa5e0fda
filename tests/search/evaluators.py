"""Deterministic evaluators from integer hashes, so that two searches get equal evaluations."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from gozero.hashing import mix
from gozero.search.game import Evaluation


def hash_evaluate(num_actions: int, spread: float = 1.0, value_scale: float = 1.0):
    """Evaluator of observations u32[M]: logits of about unit spread, values uniform in [-1, 1]."""

    def evaluate(params, key, observations):
        del params, key
        action = jnp.arange(num_actions, dtype=jnp.uint32)[None, :] * np.uint32(0x27D4EB2D)
        bits = mix(observations[:, None] ^ (action + np.uint32(12345)))
        bytes_ = [(bits >> np.uint32(8 * k)) & np.uint32(0xFF) for k in range(3)]
        logits = (sum(b.astype(jnp.float32) for b in bytes_) - 382.5) * (spread / 128)
        value = mix(observations ^ np.uint32(0xABCDEF)).astype(jnp.float32) * (2 / 2**32) - 1
        return Evaluation(logits, value * value_scale)

    return evaluate


def observe_position(context, position, ancestors):
    """u32[]: a hash of a Go position and its depth below the root."""
    del context
    seen = jnp.uint32(7)
    for word in (*position.black, *position.white):
        seen = mix(seen * np.uint32(31) + word)
    small = (position.to_play, position.passes, ancestors.length)
    for number in small:
        seen = mix(seen * np.uint32(31) + number.astype(jnp.uint32))
    return seen
