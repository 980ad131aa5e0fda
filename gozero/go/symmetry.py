"""The 8 symmetries of the board, as permutations of points and actions, and their inverses.

Symmetry k is a left-right mirror if k >= 4, followed by k % 4 quarter turns counter-clockwise.
The tables are host arrays; index with them: ``actions[..., permutation]``.

Each kind of value has a map, which takes one of them and a symmetry i32[]; applying it with
`inverse` of that symmetry undoes it:

    a point      i32[]                  map_point
    an action    i32[]                  map_action
    points       [size^2, ...]          map_points     ownership, a flat board
    actions      [size^2 + 1, ...]      map_actions    a policy, a legal mask
    planes       [size, size, C]        map_planes     a network's input

``map_actions(size, values, k)[map_action(size, a, k)] == values[a]``, and likewise for the others.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

NUM_SYMMETRIES = 8


@functools.cache
def permutations(size: int) -> np.ndarray:
    """i32[8, size^2 + 1]: new[i] = old[table[k, i]] moves an array over actions by symmetry k."""
    grid = np.arange(size * size, dtype=np.int32).reshape(size, size)
    maps = []
    for k in range(NUM_SYMMETRIES):
        mapped = np.rot90(grid if k < 4 else grid[:, ::-1], k % 4)
        maps.append(np.append(mapped.reshape(-1), size * size))
    return np.stack(maps).astype(np.int32)


@functools.cache
def inverses(size: int) -> np.ndarray:
    """i32[8, size^2 + 1]: the inverses of `permutations`."""
    return np.argsort(permutations(size), axis=1).astype(np.int32)


def inverse(k: jax.Array) -> jax.Array:
    """i32: the symmetry that undoes symmetry k. Those with a mirror are their own inverses."""
    return jnp.where(k < 4, -k % 4, k)


def map_point(size: int, point: jax.Array, k: jax.Array) -> jax.Array:
    """i32: where symmetry k takes a point, 0 <= point < size^2."""
    return map_action(size, point, k)


def map_action(size: int, action: jax.Array, k: jax.Array) -> jax.Array:
    """i32: where symmetry k takes an action; the pass stays the pass."""
    return jnp.asarray(inverses(size))[k, action]


def map_points(size: int, values: jax.Array, k: jax.Array) -> jax.Array:
    """An array over points, [size^2, ...], moved by symmetry k.

    Composed of a mirror, a half turn and a quarter turn, each applied or not by a select. A table
    lookup would take as long on a TPU as the gradient of a small network.
    """
    board = values.reshape(size, size, *values.shape[1:])
    board = jnp.where(k >= 4, board[:, ::-1], board)
    board = jnp.where(k & 2 != 0, board[::-1, ::-1], board)
    board = jnp.where(k & 1 != 0, jnp.rot90(board), board)
    return board.reshape(values.shape)


def map_actions(size: int, values: jax.Array, k: jax.Array) -> jax.Array:
    """An array over actions, [size^2 + 1, ...], moved by symmetry k: a policy, a legal mask."""
    return jnp.concatenate([map_points(size, values[:-1], k), values[-1:]])


def map_planes(planes: jax.Array, k: jax.Array) -> jax.Array:
    """Planes [size, size, C] moved by symmetry k."""
    size = planes.shape[0]
    return map_points(size, planes.reshape(size * size, -1), k).reshape(planes.shape)
