"""What a new value does to the path that led to it."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gozero.compile import stages
from gozero.search import rows
from gozero.search.config import VALUE_ONE
from gozero.search.tree import Tree


class Path(NamedTuple):
    """The nodes that each tree's simulation went through: node j lies j edges below the root."""

    nodes: jax.Array  # i32[D + 1, B] or longer; NO_NODE beyond `length`
    length: jax.Array  # i32[B]: edges on the path; nodes[length] is where it ends

    def rows(self, tree: Tree, wanted: jax.Array) -> jax.Array:
        """i32[D + 1, B]: the nodes' rows; outside the tree, each its own, where not wanted."""
        place = jnp.arange(self.nodes.size, dtype=jnp.int32).reshape(self.nodes.shape)
        return jnp.where(wanted, tree.row(0)[None] + self.nodes, tree.num_rows + place)

    @property
    def end(self) -> jax.Array:
        """i32[B]: the node where it ends."""
        return jnp.take_along_axis(self.nodes, self.length[None], axis=0)[0]


def opponent(value: jax.Array, plies: jax.Array) -> jax.Array:
    """A value as the player `plies` moves away sees it: the one place where the sign flips."""
    return jnp.where(plies % 2 == 1, -value, value)


def back_up(tree: Tree, path: Path, value: jax.Array) -> Tree:
    """Add one value to every node of its path: N += 1, W += value.

    Gelly & Silver (2011), Algorithm 1, as one scatter for each array.

    Args:
      tree: the trees.
      path: the paths.
      value: i32[B], fixed point, for the player to move where the path ends.

    Returns:
      The trees with new `visits` and `value_sum`.
    """
    level = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None]
    node_rows = path.rows(tree, level <= path.length[None])
    # Found once: it is what an evaluation and an end of a game have come to.
    value = stages.once(lambda value: value, value)
    gained = opponent(value[None], path.length[None] - level)
    return tree.replace(
        visits=rows.add(tree.visits, node_rows, jnp.ones_like(gained)),
        value_sum=rows.add(tree.value_sum, node_rows, gained),
    )


def lose(tree: Tree, path: Path, amount: int) -> Tree:
    """Virtual losses on a path: `amount` more simulations that whoever chose an edge has lost.

    N += amount, W += amount for the player to move below the edge. The root, to which no edge
    leads, has none. A negative amount takes them away again.
    """
    level = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None]
    node_rows = path.rows(tree, (level <= path.length[None]) & (level > 0))
    amounts = jnp.full(path.nodes.shape, amount, jnp.int32)
    return tree.replace(
        visits=rows.add(tree.visits, node_rows, amounts),
        value_sum=rows.add(tree.value_sum, node_rows, amounts * VALUE_ONE),
    )
