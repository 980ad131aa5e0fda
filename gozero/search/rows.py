"""Rows of the tree's arrays: read them, write them, add to them.

B trees of N nodes share flat arrays of R = B * N rows; node n of tree b is row b * N + n.
The writers drop row indices of R or more, which is how masked writes are expressed.
Sums in two words (`values.Wide`) are a pair of arrays; both are read and written in the same way.
Scatters into these arrays depend on the platform, and that is handled here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import indexing, mode

FEW, SOME = 8, 32
"""Numbers of children for which a visit of a node's children is compiled, besides all actions: most
nodes have few."""


def by_width(max_children: jax.Array, num_actions: int, visit: Callable, *args: Any) -> Any:
    """``visit(width, *args)`` with the smallest width, `FEW`, `SOME` or all actions, that covers
    `max_children`, i32[], the children of the widest node. Visits see it as a Python number."""
    widths = [width for width in (FEW, SOME) if width < num_actions] + [num_actions]
    which = sum((max_children > width).astype(jnp.int32) for width in widths[:-1])
    return lax.switch(which, [functools.partial(visit, width) for width in widths], *args)


def read(array: Any, rows: jax.Array) -> Any:
    """array [R, ...], or wide sums, at rows i32[...], all inside the array."""
    if isinstance(array, tuple):
        return type(array)(*(indexing.read_rows(x, rows) for x in array))
    return indexing.read_rows(array, rows)


def by_level(levels: jax.Array, visit: Callable, carry: Any, places: jax.Array, axis: int) -> Any:
    """``visit(carry, 0, places)``; or level by level in a kernel without scatters, for few levels.

    Args:
      levels: i32[], at most D: the number of levels to visit; the others may be visited too.
      visit: (carry, first level i32[], places of L levels) -> carry.
      carry: a pytree.
      places: i32[...], with D levels along `axis`.
      axis: the axis of the levels.

    Returns:
      The carry. Trip bound: D, if there is a loop.
    """
    if not mode.writes_sequentially():
        return visit(carry, jnp.int32(0), places)

    def one(level, carry):
        return visit(carry, level, lax.dynamic_slice_in_dim(places, level, 1, axis))

    return lax.fori_loop(0, levels, one, carry)


def read_levels(levels: jax.Array, array: jax.Array, rows: jax.Array) -> jax.Array:
    """array [R, ...] at rows i32[M, D], for at least the first `levels`, i32[], of D; the others
    are undefined."""

    def visit(out, level, rows):
        return lax.dynamic_update_slice_in_dim(out, read(array, rows), level, axis=1)

    blank = jnp.zeros((*rows.shape, *array.shape[1:]), array.dtype)
    return by_level(levels, visit, blank, rows, axis=1)


def read_entries(array: Any, rows: jax.Array, columns: jax.Array) -> Any:
    """array [R, K] at row rows[i] and each of columns[i], i32[M] and i32[M, L]: [M, L]."""
    if isinstance(array, tuple):
        return type(array)(*(read_entries(x, rows, columns) for x in array))
    return array.at[rows[:, None], columns].get(mode="promise_in_bounds")


def write(array: Any, rows: jax.Array, values: Any) -> Any:
    """array [R, ...] with values written at rows i32[B], no row twice; rows >= R are dropped."""
    if isinstance(array, tuple):
        return type(array)(*(write(x, rows, new) for x, new in zip(array, values, strict=True)))
    if mode.writes_sequentially():
        return indexing.write_sequentially(array, (rows,), values)
    values = values.astype(array.dtype)
    return array.at[rows].set(values, mode="drop", unique_indices=True)


def write_entry(array: jax.Array, rows: jax.Array, columns: jax.Array, values: jax.Array):
    """array [R, K] with values written at (rows, columns), i32[B], no row twice.

    A TPU would flatten the whole array for such a scatter: there, whole rows are read and written.
    """
    args = array, rows, columns, values.astype(array.dtype)
    return mode.by_platform(*args, tpu=_write_entry_by_row, default=write_entries)


def write_entries(array: jax.Array, rows: jax.Array, columns: jax.Array, values: jax.Array):
    """As `write_entry`, but rows may be repeated as long as no entry is."""
    if mode.writes_sequentially():
        return indexing.write_sequentially(array, (rows, columns), values)
    values = values.astype(array.dtype)
    return array.at[rows, columns].set(values, mode="drop", unique_indices=True)


def _write_entry_by_row(array, rows, columns, values):
    is_column = jnp.arange(array.shape[1], dtype=jnp.int32)[None] == columns[:, None]
    before = array.at[rows].get(mode="clip")
    return write(array, rows, jnp.where(is_column, values[:, None], before))


def add(array: Any, rows: jax.Array, amounts: jax.Array) -> Any:
    """array [R] with amounts added at rows i32[B], no row twice; rows >= R are dropped."""
    if isinstance(array, tuple):
        before = read(array, jnp.minimum(rows, array[0].shape[0] - 1))
        return write(array, rows, before.plus(amounts))
    if mode.writes_sequentially():
        return indexing.write_sequentially(array, (rows,), amounts, adds=True)
    return array.at[rows].add(amounts, mode="drop", unique_indices=True)


class Codec(NamedTuple):
    """How a position is stored in a row: its leaves of one dtype side by side (static)."""

    treedef: Any
    leaves: tuple[tuple[str, tuple[int, ...]], ...]  # (dtype, shape) of each leaf

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes in order; there is one matrix of rows for each."""
        return tuple(sorted({dtype for dtype, _ in self.leaves}))


def codec_of(positions: Any) -> Codec:
    """The codec of positions with a leading batch axis (arrays or their shapes)."""
    leaves, treedef = jax.tree.flatten(positions)
    return Codec(treedef, tuple((np.dtype(x.dtype).name, tuple(x.shape[1:])) for x in leaves))


def encode(codec: Codec, positions: Any) -> tuple[jax.Array, ...]:
    """Positions with leading axes [...] -> one matrix [..., width] for each dtype."""
    leaves = jax.tree.leaves(positions)
    matrices = []
    for dtype in codec.dtypes:
        columns = []
        for leaf, (name, shape) in zip(leaves, codec.leaves, strict=True):
            if name == dtype:
                batch = leaf.shape[: leaf.ndim - len(shape)]
                columns.append(leaf.reshape(*batch, int(np.prod(shape, dtype=np.int64))))
        matrices.append(jnp.concatenate(columns, axis=-1))
    return tuple(matrices)


def decode(codec: Codec, matrices: tuple[jax.Array, ...]) -> Any:
    """The inverse of `encode`."""
    start = dict.fromkeys(codec.dtypes, 0)
    matrix_of = dict(zip(codec.dtypes, matrices, strict=True))
    leaves = []
    for dtype, shape in codec.leaves:
        width = int(np.prod(shape, dtype=np.int64))
        columns = matrix_of[dtype][..., start[dtype] : start[dtype] + width]
        leaves.append(columns.reshape(*columns.shape[:-1], *shape))
        start[dtype] += width
    return jax.tree.unflatten(codec.treedef, leaves)


def num_words(num_actions: int) -> int:
    """W, the number of 32-bit words in a set of actions."""
    return -(-num_actions // 32)


def pack(chosen: jax.Array) -> jax.Array:
    """Sets of actions bool[..., A] -> u32[..., W]."""
    num_actions = chosen.shape[-1]
    width = 32 * num_words(num_actions)
    padded = jnp.pad(chosen, [(0, 0)] * (chosen.ndim - 1) + [(0, width - num_actions)])
    bits = padded.reshape(*chosen.shape[:-1], -1, 32).astype(jnp.uint32)
    return jnp.sum(bits << _places(bits.shape), axis=-1, dtype=jnp.uint32)


def unpack(words: jax.Array, num_actions: int) -> jax.Array:
    """Sets of actions u32[..., W] -> bool[..., A]."""
    shape = (*words.shape, 32)
    bits = (jnp.broadcast_to(words[..., None], shape) >> _places(shape)) & np.uint32(1)
    return (bits != 0).reshape(*words.shape[:-1], -1)[..., :num_actions]


def _places(shape: tuple[int, ...]) -> jax.Array:
    """u32[..., 32]: the index of each bit in its word."""
    return lax.broadcasted_iota(jnp.uint32, shape, len(shape) - 1)
