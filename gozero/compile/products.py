"""Work for a TPU's matrix unit: sums, and convolutions one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gozero.compile import mode


def mean_of_board(x: jax.Array) -> jax.Array:
    """f32[M, C], the mean over rows and columns of [M, rows, columns, C].

    Of two reductions of one array, such as a mean and a maximum, XLA fuses one with the convolution
    that makes the array on a TPU; the other takes two thirds of that convolution's time (jaxlib
    0.10.1). So there bf16 numbers are summed by a product with ones: exact products, added in f32.
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


def fusion_barrier(x: jax.Array) -> jax.Array:
    """A barrier on the activations between two convolutions, so that a TPU does not fuse the two.

    XLA fuses two convolutions where the activations between them are small enough; the fusion
    takes half as long again as the two by themselves, and four times as long to compile (jaxlib
    0.10.1).
    """
    if mode.plain() or mode.backend() != "tpu":
        return x
    return _behind_barrier(x)


_FEWEST_LAYERS = 6
"""The fewest layers that compile faster as a loop; four do not (libtpu 0.0.41)."""


def apply_layers(step: Callable[[Any, jax.Array], jax.Array], layers: list[Any], x: jax.Array):
    """``step(layers[-1], ... step(layers[0], x))``; within `mode.fast_compile`, a TPU loops over
    the layers, if there are many.

    Without a loop XLA compiles each layer separately. A loop runs slower, as its inputs and outputs
    are copied.

    Args:
      step: (layer, x) -> x, of the same shape and dtype.
      layers: pytrees of arrays with the same structure, shapes and dtypes.
      x: an array.
    """
    if mode.prefers_fast_compile() and mode.backend() == "tpu" and len(layers) >= _FEWEST_LAYERS:
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)
        return lax.scan(lambda x, layer: (step(layer, x), None), x, stacked)[0]
    for layer in layers:
        x = step(layer, x)
    return x


_behind_barrier = jax.custom_jvp(lax.optimization_barrier)
_behind_barrier.defjvp(lambda primals, tangents: (_behind_barrier(*primals), *tangents))
_mean_by_product.defjvp(lambda primals, tangents: (_mean_by_product(*primals), _mean(*tangents)))
