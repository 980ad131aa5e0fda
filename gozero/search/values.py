"""Values as integers in fixed point, whose sums are exact; and whose perspective they have."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.runs.settings import Range

VALUE_ONE = 2**14
"""Fixed point: a value of 1.0 in `Tree.value` and `Tree.value_sum`."""

MAX_VISITS = (2**31 - 1) // VALUE_ONE - 1
"""Visits that a value sum and the node's own value are sure to hold together: 131,070."""

MOST_VISITS = 2**30 - 1
"""Visits that a `Wide` sum, the i32 counts and the rows of a tree are sure to hold."""

CONFIDENCE = Range(0, MAX_VISITS, whole=True)
"""What a heuristic's value may count for, in simulations."""


def to_fixed(value: jax.Array) -> jax.Array:
    """f32 in [-1, 1] -> i32 fixed point, rounded to the nearest 2^-14."""
    return jnp.round(jnp.clip(value, -1.0, 1.0) * VALUE_ONE).astype(jnp.int32)


def squared(value: Any) -> Any:
    """Squares of values i32 in fixed point, likewise, rounded to the nearest 2^-14."""
    return (value * value + VALUE_ONE // 2) // VALUE_ONE


class Wide(NamedTuple):
    """Sums of more than `MAX_VISITS` values: high 2^32 + low, exact all the same."""

    low: jax.Array  # i32[...]
    high: jax.Array  # i16[...]: 0 where an i32 would do

    def plus(self, amount: jax.Array) -> Wide:
        """The sums with amounts i32[...] added."""
        low = self.low + amount
        # An i32 overflows where both have one sign and their sum has the other.
        carries = ((self.low ^ low) & (amount ^ low)) < 0
        carry = jnp.where(carries, jnp.where(amount < 0, -1, 1), 0)
        return Wide(low, (self.high + carry).astype(jnp.int16))


Sums = jax.Array | Wide
"""Fixed-point sums of values; `Wide` ones where a search may have more than `MAX_VISITS`."""


def zero_sums(shape: int | tuple[int, ...], wide: bool) -> Sums:
    """Sums of nothing."""
    low = jnp.zeros(shape, jnp.int32)
    return Wide(low, jnp.zeros(shape, jnp.int16)) if wide else low


def plus(sums: Sums, amount: jax.Array) -> Sums:
    """The sums with amounts i32[...] added."""
    return sums.plus(amount) if isinstance(sums, Wide) else sums + amount


def added(one: Sums, other: Sums) -> Sums:
    """Two kinds of sums together, both as wide."""
    if isinstance(one, Wide) and isinstance(other, Wide):
        both = one.plus(other.low)
        return both._replace(high=both.high + other.high)
    return jnp.asarray(one) + jnp.asarray(other)


def minus(amount: jax.Array, sums: Sums) -> Sums:
    """Amounts i32[...] less the sums: with 0 what the opponent sees."""
    if not isinstance(sums, Wide):
        return amount - sums
    # -low - 1 is ~low, which overflows nowhere.
    return Wide(~sums.low, -sums.high).plus(jnp.ones_like(amount)).plus(amount)


def where(condition: jax.Array, sums: Sums) -> Sums:
    """The sums where bool[...], and 0 elsewhere."""
    return jax.tree.map(lambda x: jnp.where(condition, x, jnp.zeros_like(x)), sums)


def sum_of(value: jax.Array, like: Sums) -> Sums:
    """Values i32[...] as sums of one each, as wide as others."""
    return Wide(value, jnp.zeros(value.shape, jnp.int16)) if isinstance(like, Wide) else value


def to_float(value: Sums) -> jax.Array:
    """Fixed point -> f32."""
    if not isinstance(value, Wide):
        return value.astype(jnp.float32) / VALUE_ONE
    # Where an i32 would do this adds 0: a mean does not depend on the form.
    return to_float(value.low) + value.high.astype(jnp.float32) * np.float32(2**32 / VALUE_ONE)


def mean(sums: Sums, visits: jax.Array) -> jax.Array:
    """f32: fixed-point sums over visits; 0 where there are none."""
    return to_float(sums) / jnp.maximum(visits, 1).astype(jnp.float32)


def variance(sums: Sums, squares: Sums, visits: jax.Array) -> jax.Array:
    """f32: of as many values as visits, by their sum and their squares'; 0 where there are none."""
    return jnp.maximum(mean(squares, visits) - mean(sums, visits) ** 2, 0.0)


def whole(sums: Sums) -> np.ndarray:
    """i64[...], on the host."""
    if isinstance(sums, Wide):
        return np.asarray(sums.high, np.int64) * 2**32 + np.asarray(sums.low)
    return np.asarray(sums, np.int64)


def opponent(value: jax.Array, plies: jax.Array) -> jax.Array:
    """A value as the player `plies` moves away sees it: the one place where the sign flips."""
    return jnp.where(plies % 2 == 1, -value, value)
