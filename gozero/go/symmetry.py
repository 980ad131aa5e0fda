"""The 8 symmetries of the board, as permutations of points and actions, and their inverses.

Symmetry k is k % 4 quarter turns counter-clockwise, after a left-right mirror if k >= 4.
The tables are host arrays; index with them: ``actions[..., permutation]``.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

NUM_SYMMETRIES = 8


@functools.cache
def permutations(size: int) -> np.ndarray:
    """i32[8, size^2 + 1]: new[i] = old[table[k, i]] moves a row of actions by symmetry k."""
    grid = np.arange(size * size, dtype=np.int32).reshape(size, size)
    maps = []
    for k in range(NUM_SYMMETRIES):
        mapped = np.rot90(grid if k < 4 else grid[:, ::-1], k % 4)
        maps.append(np.append(mapped.reshape(-1), size * size))
    return np.stack(maps).astype(np.int32)


@functools.cache
def inverses(size: int) -> np.ndarray:
    """i32[8, size^2 + 1]: the tables that undo `permutations`."""
    return np.argsort(permutations(size), axis=1).astype(np.int32)


def map_action(size: int, action: jax.Array, k: jax.Array) -> jax.Array:
    """i32[]: where symmetry k takes an action."""
    return jnp.asarray(inverses(size))[k, action]


def map_actions(size: int, values: jax.Array, k: jax.Array) -> jax.Array:
    """A row of actions, [size^2 + 1], moved by symmetry k."""
    return values[jnp.asarray(permutations(size))[k]]


def map_planes(planes: jax.Array, k: jax.Array) -> jax.Array:
    """Planes [size, size, C] moved by symmetry k."""
    size = planes.shape[0]
    points = jnp.asarray(permutations(size))[k, :-1]
    return planes.reshape(size * size, -1)[points].reshape(planes.shape)
