"""The arrays of B search trees.

An edge has statistics only once it has been visited, and then it *is* the node it leads to: what
a node knows of an edge is a row of numbers at the child. A node keeps a prior for each action
that has no child yet, and its children in the order of their first visits. To choose among the
actions of a node it takes its children and the best of the rest, for a rule that ranks actions
without visits by their priors: some entries and not A of them.

Rows are flat (see `rows`): node n of tree b is row b * N + n, and the root is node 0. Values at a
node are for the player to move there.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from gozero.search import rows
from gozero.search.selection import Edges

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

    prior: jax.Array  # f32[R, A]: of the actions without a child; -inf where illegal or with one
    children: jax.Array  # i16 or i32[R, A]: nodes by first visit; meaningless past num_children
    num_children: jax.Array  # i16 or i32[R]
    untried: jax.Array  # i16 or i32[R]: the best action without a child
    untried_prior: jax.Array  # f32[R]: its prior; -inf if there is none
    next: jax.Array  # i16 or i32[R]: the child a descent goes to; NO_NODE: it tries `untried`
    parent: jax.Array  # i16 or i32[R]: NO_NODE for the root
    action: jax.Array  # i16 or i32[R]: what led to the node
    edge_prior: jax.Array  # f32[R]: the prior it had
    visits: jax.Array  # i32[R]: values backed up at the node and below, its own included
    value_sum: jax.Array  # i32[R]: sum of their values, fixed point
    value: jax.Array  # i32[R]: the evaluator's or the game's value, fixed point
    over: jax.Array  # bool[R]: the game is over: a descent ends here
    positions: tuple[jax.Array, ...]  # [R, width] for each dtype of a position
    size: jax.Array  # i32[B]: nodes in use
    capacity: int = flax.struct.field(pytree_node=False)  # N
    codec: rows.Codec = flax.struct.field(pytree_node=False)

    @property
    def num_trees(self) -> int:
        return self.num_rows // self.capacity

    @property
    def num_rows(self) -> int:
        return self.visits.shape[0]

    @property
    def num_actions(self) -> int:
        return self.children.shape[1]

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
    codec = rows.codec_of(roots)
    node = functools.partial(jnp.full, dtype=_index_dtype(capacity))
    action = functools.partial(jnp.full, dtype=_index_dtype(num_actions))
    blank = jax.eval_shape(lambda x: rows.encode(codec, x), roots)
    return Tree(
        prior=jnp.full((num_rows, num_actions), -jnp.inf, jnp.float32),
        children=node((num_rows, num_actions), NO_NODE),
        num_children=action(num_rows, 0),
        untried=action(num_rows, 0),
        untried_prior=jnp.full(num_rows, -jnp.inf, jnp.float32),
        next=node(num_rows, NO_NODE),
        parent=node(num_rows, NO_NODE),
        action=action(num_rows, 0),
        edge_prior=jnp.full(num_rows, -jnp.inf, jnp.float32),
        visits=jnp.zeros(num_rows, jnp.int32),
        value_sum=jnp.zeros(num_rows, jnp.int32),
        value=jnp.zeros(num_rows, jnp.int32),
        over=jnp.zeros(num_rows, bool),
        positions=tuple(jnp.zeros((num_rows, *x.shape[1:]), x.dtype) for x in blank),
        size=jnp.zeros(num_trees, jnp.int32),
        capacity=capacity,
        codec=codec,
    )


def _index_dtype(count: int) -> Any:
    return jnp.int16 if count < 2**15 else jnp.int32


def memory_bytes(roots: Any, num_actions: int, capacity: int) -> int:
    """Bytes that `allocate` will take, known before it does. Roots may be shapes."""
    arrays = jax.eval_shape(lambda x: allocate(x, num_actions, capacity), roots)
    return sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(arrays))


class Entries(NamedTuple):
    """Some actions of each of M nodes: its first K children, and the best of the rest."""

    edges: Edges  # fields [M, K + 1], value [M]
    nodes: jax.Array  # i32[M, K + 1]: the child; NO_NODE where there is none, and last


def entries(tree: Tree, index: jax.Array, node: jax.Array, width: int) -> Entries:
    """What a rule chooses from at some nodes that have `width` children or fewer.

    An action that has no child and is not the best of those is not among the entries; nor, with
    a prior of -inf, is an entry that stands for no child.

    Args:
      tree: the trees.
      index, node: i32[M]: node `node` of tree `index`.
      width: K.
    """
    base = index * tree.capacity
    row = base + node
    child = rows.read(tree.children, row)[:, :width].astype(jnp.int32)
    # By count, not by what is written there: rows are used again.
    is_child = jnp.arange(width)[None] < rows.read(tree.num_children, row)[:, None]
    child = jnp.where(is_child, child, NO_NODE)
    child_row = base[:, None] + jnp.maximum(child, ROOT)

    def with_rest(of_children, of_rest):
        return jnp.concatenate([of_children, of_rest[:, None]], axis=1)

    none = jnp.zeros_like(row)
    visits = jnp.where(is_child, rows.read(tree.visits, child_row), 0)
    # The mover of a child is the opponent.
    sums = jnp.where(is_child, -rows.read(tree.value_sum, child_row), 0)
    prior = jnp.where(is_child, rows.read(tree.edge_prior, child_row), -jnp.inf)
    edges = _edges(
        prior=with_rest(prior, rows.read(tree.untried_prior, row)),
        visits=with_rest(visits, none),
        sums=with_rest(sums, none),
        node_visits=rows.read(tree.visits, row),
        node_sum=rows.read(tree.value_sum, row),
    )
    return Entries(edges, with_rest(child, none + NO_NODE))


def for_entries(tree: Tree) -> Tree:
    """The trees with nothing but what `entries` reads: a kernel takes no more than it needs."""
    kept = ("children", "num_children", "untried_prior", "edge_prior", "visits", "value_sum")
    others = {field.name for field in dataclasses.fields(tree)} - {*kept, "capacity", "codec"}
    return tree.replace(**dict.fromkeys(others))


def all_edges(tree: Tree, node: jax.Array | int) -> Edges:
    """What is known of every action of one node of each tree (i32[B] or a number): [B, A]."""
    row = tree.row(node)
    lanes = jnp.arange(tree.num_trees, dtype=jnp.int32)
    found = entries(tree, lanes, row - tree.row(0), tree.num_actions)
    child_row = tree.row(0)[:, None] + jnp.maximum(found.nodes[:, :-1], ROOT)
    action = rows.read(tree.action, child_row).astype(jnp.int32)
    action = jnp.where(found.nodes[:, :-1] >= 0, action, tree.num_actions)
    put = lambda blank, x: blank.at[lanes[:, None], action].set(x[:, :-1], mode="drop")
    blank = jnp.zeros((tree.num_trees, tree.num_actions), jnp.int32)
    return Edges(
        prior=put(rows.read(tree.prior, row), found.edges.prior),
        visits=put(blank, found.edges.visits),
        q=put(blank.astype(jnp.float32), found.edges.q),
        value=found.edges.value,
    )


def _edges(prior, visits, sums, node_visits, node_sum) -> Edges:
    return Edges(
        prior=prior,
        visits=visits,
        q=to_float(sums) / jnp.maximum(visits, 1).astype(jnp.float32),
        value=to_float(node_sum) / jnp.maximum(node_visits, 1).astype(jnp.float32),
    )


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
