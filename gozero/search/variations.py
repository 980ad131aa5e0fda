"""The line of play that a search expects: the most visited children, one below the other."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gozero.search import rows
from gozero.search.tree import ROOT, Tree

NO_ACTION = -1


def principal_variation(tree: Tree, length: int) -> jax.Array:
    """i32[B, length]: the actions from the root on; NO_ACTION where the tree goes no further.

    Of children with as many visits the first tried is taken.
    """

    def step(node: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        row = tree.row(jnp.maximum(node, ROOT))
        below = rows.read(tree.children, row).astype(jnp.int32)
        count = jnp.where(node >= 0, rows.read(tree.num_children, row), 0)
        is_child = jnp.arange(tree.num_actions)[None] < count[:, None]
        base = tree.row(0)[:, None]
        visits = rows.read(tree.visits, base + jnp.where(is_child, below, ROOT))
        best = jnp.argmax(jnp.where(is_child, visits, -1), axis=1)
        child = jnp.take_along_axis(below, best[:, None], axis=1)[:, 0]
        child = jnp.where(count > 0, child, -1)
        action = rows.read(tree.action, tree.row(jnp.maximum(child, ROOT)))
        return child, jnp.where(child >= 0, action, NO_ACTION).astype(jnp.int32)

    start = jnp.full(tree.num_trees, ROOT, jnp.int32)
    return jax.lax.scan(step, start, None, length=length)[1].T
