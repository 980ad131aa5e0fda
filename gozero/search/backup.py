"""What a new value does to the path that led to it."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gozero.search import rows
from gozero.search.tree import Tree


class Path(NamedTuple):
    """The edges that each tree's descent went through, by level: edge j left node j."""

    nodes: jax.Array  # i32[D, B]: the node of each edge; NO_NODE from `length` on
    actions: jax.Array  # i32[D, B]
    length: jax.Array  # i32[B]: edges on the path


def opponent(value: jax.Array, plies: jax.Array) -> jax.Array:
    """A value as the player `plies` moves away sees it: the one place where the sign flips."""
    return jnp.where(plies % 2 == 1, -value, value)


def backup_mean(tree: Tree, path: Path, value: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Add one value to every edge of its path: N += 1, W += value.

    Gelly & Silver (2011), Algorithm 1, as one scatter for each array.

    Args:
      tree: the trees.
      path: the paths.
      value: i32[B], fixed point, for the player to move at the end of the path.

    Returns:
      (visits, value_sum), the tree's new arrays.
    """
    level = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None]
    on_path = level < path.length[None]
    # Levels beyond the end write to rows outside the tree, which are dropped.
    edge_rows = jnp.where(on_path, tree.row(0)[None] + path.nodes, tree.num_rows)
    gained = opponent(value[None], path.length[None] - level)
    visits = rows.add_edges(tree.visits, edge_rows, path.actions, on_path.astype(jnp.int32))
    value_sum = rows.add_edges(tree.value_sum, edge_rows, path.actions, gained)
    return visits, value_sum
