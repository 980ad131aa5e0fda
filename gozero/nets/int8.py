"""Convolutions in 8-bit integers, for evaluating networks on a TPU.

A number x is represented as s q, with q an integer from -127 to 127. A convolution's input, which
comes from a ReLU, has one scale s; its kernel has one for each output channel. Products are summed
as integers, exactly. A TPU v5e multiplies such integers twice as fast as bf16 numbers.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from gozero.compile import mode

_MAX = 127
_TINY = 1e-30
"""Smaller numbers are taken for this one, by which 127 can be divided in f32."""


class Int8Conv(nnx.Module):
    """A 3x3 convolution that keeps the size of the board; `quantized` makes its parameters."""

    def __init__(self, inputs: int, outputs: int):
        self.kernel = nnx.Param(jnp.zeros((3, 3, inputs, outputs), jnp.int8))
        self.bias = nnx.Param(jnp.zeros(outputs, jnp.float32))
        self.per_unit = nnx.Param(jnp.zeros((), jnp.float32))
        self.scale = nnx.Param(jnp.zeros(outputs, jnp.float32))

    def __call__(self, x: jax.Array) -> jax.Array:
        """[M, size, size, C] -> bf16. Inputs beyond the largest seen by `quantized` are clipped."""
        steps = jnp.round(x.astype(jnp.float32) * self.per_unit[...])
        steps = jnp.clip(steps, -_MAX, _MAX)
        total = mode.by_platform(steps, self.kernel[...], tpu=_in_int8, default=_in_float)
        channels_last = (None, None, None)
        return (total * self.scale[channels_last] + self.bias[channels_last]).astype(jnp.bfloat16)


def _convolve(x: jax.Array, kernel: jax.Array, dtype: type) -> jax.Array:
    axes = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=axes, preferred_element_type=dtype
    )


def _in_int8(steps: jax.Array, kernel: jax.Array) -> jax.Array:
    return _convolve(steps.astype(jnp.int8), kernel, jnp.int32).astype(jnp.float32)


def _in_float(steps: jax.Array, kernel: jax.Array) -> jax.Array:
    """The same result: f32 is exact for integers up to 2^24, and larger sums are rare."""
    return _convolve(steps, kernel.astype(jnp.float32), jnp.float32)


def quantized(conv: dict, largest_input: jax.Array) -> dict:
    """The parameters of an `Int8Conv`.

    Args:
      conv: f32 or bf16 "kernel" [3, 3, inputs, outputs] and "bias" [outputs].
      largest_input: f32[] or bf16[]; the largest to represent; larger ones are clipped.
    """
    kernel = conv["kernel"].astype(jnp.float32)
    largest_weight = jnp.maximum(jnp.max(jnp.abs(kernel), axis=(0, 1, 2), keepdims=True), _TINY)
    per_unit = _MAX / jnp.maximum(largest_input.astype(jnp.float32), _TINY)
    return {
        "kernel": jnp.round(kernel * (_MAX / largest_weight)).astype(jnp.int8),
        "bias": conv["bias"].astype(jnp.float32),
        "per_unit": per_unit,
        "scale": largest_weight.ravel() / _MAX / per_unit,
    }
