"""The arrays of B search trees.

An edge is (node, action). Its statistics are seen from the player to move at the node.
Rows are flat (see `rows`): node n of tree b is row b * N + n, and the root is node 0.
"""

from __future__ import annotations

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from gozero.search import rows

NO_NODE = -1
ROOT = 0
VALUE_ONE = 2**14
"""Fixed point: a value of 1.0 in `Tree.value` and `Tree.value_sum`."""

MAX_ROWS = 2**30
"""B * N; rows outside, where dropped writes go, have numbers beyond it that still fit i32."""

MAX_VISITS = (2**31 - 1) // VALUE_ONE - 1
"""Visits that a value sum and the node's own value are sure to hold together: 131,070."""


class Tree(flax.struct.PyTreeNode):
    """B trees with room for N nodes each; R = B * N rows."""

    prior: jax.Array  # f32[R, A]: prior probability of each action, -inf where illegal
    visits: jax.Array  # i32[R, A]: simulations through each edge
    value_sum: jax.Array  # i32[R, A]: sum of their values, fixed point
    children: jax.Array  # i16 or i32[R, A]: the node below each edge, NO_NODE if none
    value: jax.Array  # i32[R]: the evaluator's or the game's value, fixed point
    closed: jax.Array  # bool[R]: over, or at the depth limit: a descent ends here
    positions: tuple[jax.Array, ...]  # [R, width] for each dtype of a position
    size: jax.Array  # i32[B]: nodes in use
    codec: rows.Codec = flax.struct.field(pytree_node=False)

    @property
    def num_trees(self) -> int:
        return self.size.shape[0]

    @property
    def num_rows(self) -> int:
        return self.value.shape[0]

    @property
    def capacity(self) -> int:
        """N."""
        return self.num_rows // self.num_trees

    @property
    def num_actions(self) -> int:
        return self.visits.shape[1]

    def row(self, node: jax.Array | int) -> jax.Array:
        """i32[B]: the row of one node (i32[B] or a number) in each tree."""
        return jnp.arange(self.num_trees, dtype=jnp.int32) * self.capacity + node


def allocate(roots: Any, num_actions: int, capacity: int) -> Tree:
    """Empty trees for roots with a leading axis [B]; the roots are not written yet.

    Raises:
      ValueError: more rows than an i32 can number.
    """
    num_trees = jax.tree.leaves(roots)[0].shape[0]
    num_rows = num_trees * capacity
    if num_rows > MAX_ROWS:
        raise ValueError(f"{num_trees} trees of {capacity} nodes: {num_rows} rows, more than 2^30")
    edges = (num_rows, num_actions)
    codec = rows.codec_of(roots)
    child_dtype = jnp.int16 if capacity < 2**15 else jnp.int32
    blank = jax.eval_shape(lambda x: rows.encode(codec, x), roots)
    return Tree(
        prior=jnp.full(edges, -jnp.inf, jnp.float32),
        visits=jnp.zeros(edges, jnp.int32),
        value_sum=jnp.zeros(edges, jnp.int32),
        children=jnp.full(edges, NO_NODE, child_dtype),
        value=jnp.zeros(num_rows, jnp.int32),
        closed=jnp.zeros(num_rows, bool),
        positions=tuple(jnp.zeros((num_rows, *x.shape[1:]), x.dtype) for x in blank),
        size=jnp.zeros(num_trees, jnp.int32),
        codec=codec,
    )


def memory_bytes(roots: Any, num_actions: int, capacity: int) -> int:
    """Bytes that `allocate` will take, known before it does. Roots may be shapes."""
    arrays = jax.eval_shape(lambda x: allocate(x, num_actions, capacity), roots)
    return sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(arrays))


def read_positions(tree: Tree, node_rows: jax.Array) -> Any:
    """The positions at rows i32[...], with the same leading axes."""
    return rows.decode(tree.codec, tuple(rows.read(x, node_rows) for x in tree.positions))


def write_positions(tree: Tree, node_rows: jax.Array, positions: Any) -> tuple[jax.Array, ...]:
    """`Tree.positions` with positions [B] written at rows i32[B]."""
    encoded = rows.encode(tree.codec, positions)
    return tuple(rows.write(x, node_rows, y) for x, y in zip(tree.positions, encoded, strict=True))


def to_fixed(value: jax.Array) -> jax.Array:
    """f32 in [-1, 1] -> i32 fixed point, rounded to the nearest 2^-14."""
    return jnp.round(jnp.clip(value, -1.0, 1.0) * VALUE_ONE).astype(jnp.int32)


def to_float(value: jax.Array) -> jax.Array:
    """i32 fixed point -> f32."""
    return value.astype(jnp.float32) / VALUE_ONE
