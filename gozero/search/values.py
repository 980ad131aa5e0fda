"""Fixed-point values, whose integer sums are exact; and the change of perspective."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.limits import MAX_VISITS, VALUE_ONE
from gozero.runs.settings import Range

CONFIDENCE = Range(0, MAX_VISITS, whole=True)
"""The number of simulations that a heuristic's value may count for."""


def to_fixed(value: jax.Array) -> jax.Array:
    """f32 in [-1, 1] -> i32 fixed point, rounded to the nearest 2^-14."""
    return jnp.round(jnp.clip(value, -1.0, 1.0) * VALUE_ONE).astype(jnp.int32)


def squared(value: Any) -> Any:
    """Squares of fixed-point values i32, in fixed point too, rounded to the nearest 2^-14."""
    return (value * value + VALUE_ONE // 2) // VALUE_ONE


class Wide(NamedTuple):
    """Exact sums of more than `MAX_VISITS` values: high 2^32 + low."""

    low: jax.Array  # i32[...]
    high: jax.Array  # i16[...]: 0 where an i32 suffices

    def plus(self, amount: jax.Array) -> Wide:
        """The sums with amounts i32[...] added."""
        low = self.low + amount
        # An i32 overflows where both summands have one sign and their sum has the other.
        carries = ((self.low ^ low) & (amount ^ low)) < 0
        carry = jnp.where(carries, jnp.where(amount < 0, -1, 1), 0)
        return Wide(low, (self.high + carry).astype(jnp.int16))


Sums = jax.Array | Wide
"""Fixed-point sums of values; `Wide` if a search may have more than `MAX_VISITS` visits."""


def zero_sums(shape: int | tuple[int, ...], wide: bool) -> Sums:
    """Sums that are 0."""
    low = jnp.zeros(shape, jnp.int32)
    return Wide(low, jnp.zeros(shape, jnp.int16)) if wide else low


def plus(sums: Sums, amount: jax.Array) -> Sums:
    """The sums with amounts i32[...] added."""
    return sums.plus(amount) if isinstance(sums, Wide) else sums + amount


def added(one: Sums, other: Sums) -> Sums:
    """The sum of two arrays of sums, either both `Wide` or neither."""
    if isinstance(one, Wide) and isinstance(other, Wide):
        both = one.plus(other.low)
        return both._replace(high=both.high + other.high)
    return jnp.asarray(one) + jnp.asarray(other)


def minus(amount: jax.Array, sums: Sums) -> Sums:
    """Amounts i32[...] minus the sums; with 0, the sums from the opponent's perspective."""
    if not isinstance(sums, Wide):
        return amount - sums
    # -low - 1 is ~low, which cannot overflow.
    return Wide(~sums.low, -sums.high).plus(jnp.ones_like(amount)).plus(amount)


def where(condition: jax.Array, sums: Sums) -> Sums:
    """The sums where bool[...], and 0 elsewhere."""
    return jax.tree.map(lambda x: jnp.where(condition, x, jnp.zeros_like(x)), sums)


def sum_of(value: jax.Array, like: Sums) -> Sums:
    """Values i32[...] as sums of one value each, `Wide` if `like` is."""
    return Wide(value, jnp.zeros(value.shape, jnp.int16)) if isinstance(like, Wide) else value


def to_float(value: Sums) -> jax.Array:
    """Fixed point -> f32."""
    if not isinstance(value, Wide):
        return value.astype(jnp.float32) / VALUE_ONE
    # Where an i32 suffices this adds 0, so a mean does not depend on the form.
    return to_float(value.low) + value.high.astype(jnp.float32) * np.float32(2**32 / VALUE_ONE)


def mean(sums: Sums, visits: jax.Array) -> jax.Array:
    """f32: fixed-point sums over visits; 0 where there are none."""
    return to_float(sums) / jnp.maximum(visits, 1).astype(jnp.float32)


def variance(sums: Sums, squares: Sums, visits: jax.Array) -> jax.Array:
    """f32: the variance from the sum of values and that of their squares; 0 without visits."""
    return jnp.maximum(mean(squares, visits) - mean(sums, visits) ** 2, 0.0)


def to_int64(sums: Sums) -> np.ndarray:
    """i64[...]: the sums as whole numbers, on the host."""
    if isinstance(sums, Wide):
        return np.asarray(sums.high, np.int64) * 2**32 + np.asarray(sums.low)
    return np.asarray(sums, np.int64)


def opponent(value: jax.Array, plies: jax.Array) -> jax.Array:
    """A value for the player to move `plies` moves away; the one place where the sign flips."""
    return jnp.where(plies % 2 == 1, -value, value)
