"""What a TPU makes in its matrix unit: sums, and convolutions one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gozero.compile import mode


def mean_of_board(x: jax.Array) -> jax.Array:
    """f32[M, C], the mean over rows and columns of [M, rows, columns, C].

    A TPU makes one of two reductions of an array, as of the mean and the maximum here, while the
    convolution does that gives it, and takes as long for the other as for two thirds of that
    convolution (jaxlib 0.10.1). bf16 numbers it adds up by a product with ones: exact products,
    added in f32.
    """
    if mode.plain() or mode.backend() != "tpu" or x.dtype != jnp.bfloat16:
        return _mean(x)
    return _mean_by_product(x)


def _mean(x: jax.Array) -> jax.Array:
    return x.astype(jnp.float32).mean(axis=(1, 2))


@jax.custom_jvp
def _mean_by_product(x: jax.Array) -> jax.Array:
    _, rows, columns, channels = x.shape
    ones = jnp.broadcast_to(jnp.eye(channels, dtype=x.dtype), (rows, columns, channels, channels))
    total = lax.conv_general_dilated(
        x,
        ones,
        (1, 1),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        preferred_element_type=jnp.float32,
    )
    return total[:, 0, 0] / (rows * columns)


def apart(x: jax.Array) -> jax.Array:
    """What one convolution gives and another takes, so that a TPU makes the two one by one.

    XLA makes one fusion of two convolutions, where the activations between them are small
    enough, and that takes half as long again as the two by themselves, and four times as long to
    compile (jaxlib 0.10.1).
    """
    if mode.plain() or mode.backend() != "tpu":
        return x
    return _behind_barrier(x)


_FEWEST_LAYERS = 6
"""That compile sooner as a loop; four do not (libtpu 0.0.41)."""


def in_turn(step: Callable[[Any, jax.Array], jax.Array], layers: list[Any], x: jax.Array):
    """``step(layers[-1], ... step(layers[0], x))``; where it runs seldom, a TPU has one code for
    all layers, if they are many.

    XLA compiles a layer as often as it stands there. A loop over layers is slower to run: what it
    takes and gives is copied.

    Args:
      step: (layer, x) -> x, of the same shape and dtype.
      layers: pytrees of arrays, alike.
      x: an array.
    """
    if mode.runs_seldom() and mode.backend() == "tpu" and len(layers) >= _FEWEST_LAYERS:
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)
        return lax.scan(lambda x, layer: (step(layer, x), None), x, stacked)[0]
    for layer in layers:
        x = step(layer, x)
    return x


_behind_barrier = jax.custom_jvp(lax.optimization_barrier)
_behind_barrier.defjvp(lambda primals, tangents: (_behind_barrier(*primals), *tangents))
_mean_by_product.defjvp(lambda primals, tangents: (_mean_by_product(*primals), _mean(*tangents)))
