"""What a new value does to the path that led to it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.search import rows, selection
from gozero.search import tree as trees
from gozero.search.tree import ROOT, Tree


class Path(NamedTuple):
    """The nodes that each tree's simulation went through: node j lies j edges below the root."""

    nodes: jax.Array  # i32[D + 1, B] or longer; NO_NODE beyond `length`
    length: jax.Array  # i32[B]: edges on the path; nodes[length] is where it ends

    @property
    def end(self) -> jax.Array:
        """i32[B]: the node where it ends."""
        return jnp.take_along_axis(self.nodes, self.length[None], axis=0)[0]


def opponent(value: jax.Array, plies: jax.Array) -> jax.Array:
    """A value as the player `plies` moves away sees it: the one place where the sign flips."""
    return jnp.where(plies % 2 == 1, -value, value)


Select = Callable[[selection.Edges], jax.Array]


def back_up(tree: Tree, path: Path, value: jax.Array, select: Select, salts: jax.Array) -> Tree:
    """Add one value to every node of its path, and choose again at those that lead on.

    Gelly & Silver (2011), Algorithm 1: N += 1, W += value. A rule's inputs change nowhere else,
    so what it would choose at every node is known from here on, and a descent need not ask.

    Args:
      tree: the trees.
      path: the paths.
      value: i32[B], fixed point, for the player to move where the path ends.
      select: the rule.
      salts: u32[B], one a tree, for ties.

    Returns:
      The trees with new `visits`, `value_sum` and `next`.
    """
    outside = tree.num_rows + jnp.arange(tree.num_trees, dtype=jnp.int32)
    end_row = tree.row(path.end)
    visits = rows.add(tree.visits, end_row, jnp.ones_like(value))
    value_sum = rows.add(tree.value_sum, end_row, value)

    def level_up(i, carry):
        visits, value_sum, following = carry
        level = deepest - 1 - i
        on_path = level < path.length
        node = jnp.maximum(path.nodes[level], ROOT)
        row = jnp.where(on_path, tree.row(node), outside)
        visits = rows.add(visits, row, jnp.ones_like(value))
        value_sum = rows.add(value_sum, row, opponent(value, path.length - level))
        now = tree.replace(visits=visits, value_sum=value_sum)
        chosen = choose_next(now, node, on_path, select, salts)
        return visits, value_sum, rows.write(following, row, chosen)

    deepest = jnp.max(path.length, initial=0)
    carry = visits, value_sum, tree.next
    visits, value_sum, following = lax.fori_loop(0, deepest, level_up, carry)
    return tree.replace(visits=visits, value_sum=value_sum, next=following)


_WIDTHS = (8, 32)


def choose_next(
    tree: Tree, node: jax.Array, counts: jax.Array, select: Select, salts: jax.Array
) -> jax.Array:
    """The child that the rule chooses at nodes i32[B], or NO_NODE for the best untried action.

    As many children are looked at as the widest of the nodes that count (bool[B]) has.
    """
    widths = [*(w for w in _WIDTHS if w < tree.num_actions), tree.num_actions]
    most = jnp.max(jnp.where(counts, rows.read(tree.num_children, tree.row(node)), 0), initial=0)
    which = sum((most > w).astype(jnp.int32) for w in widths[:-1])

    def choose(width):
        found = trees.entries(tree, node, width)
        scores = jax.vmap(select)(found.edges)
        priority = jax.vmap(selection.tie_break)(salts, node, found.nodes)
        entry = jax.vmap(selection.choose)(scores, priority)
        return jnp.take_along_axis(found.nodes, entry[:, None], axis=1)[:, 0]

    return lax.switch(which, [functools.partial(choose, w) for w in widths])
