"""A 32-bit integer hash: cheap, reproducible random bits inside a kernel. Layer 0."""

from __future__ import annotations

import jax
import numpy as np


def mix(x: jax.Array) -> jax.Array:
    """Wellons' lowbias32: a bijection of u32 that mixes bits well. Elementwise, any shape."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))
