"""Values as integers in fixed point, whose sums are exact; and whose perspective they have."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gozero.runs.settings import Range

VALUE_ONE = 2**14
"""Fixed point: a value of 1.0 in `Tree.value` and `Tree.value_sum`."""

MAX_VISITS = (2**31 - 1) // VALUE_ONE - 1
"""Visits that a value sum and the node's own value are sure to hold together: 131,070."""

CONFIDENCE = Range(0, MAX_VISITS, whole=True)
"""What a heuristic's value may count for, in simulations."""


def to_fixed(value: jax.Array) -> jax.Array:
    """f32 in [-1, 1] -> i32 fixed point, rounded to the nearest 2^-14."""
    return jnp.round(jnp.clip(value, -1.0, 1.0) * VALUE_ONE).astype(jnp.int32)


def to_float(value: jax.Array) -> jax.Array:
    """i32 fixed point -> f32."""
    return value.astype(jnp.float32) / VALUE_ONE


def mean(sums: jax.Array, visits: jax.Array) -> jax.Array:
    """f32: fixed-point sums over visits; 0 where there are none."""
    return to_float(sums) / jnp.maximum(visits, 1).astype(jnp.float32)


def opponent(value: jax.Array, plies: jax.Array) -> jax.Array:
    """A value as the player `plies` moves away sees it: the one place where the sign flips."""
    return jnp.where(plies % 2 == 1, -value, value)
