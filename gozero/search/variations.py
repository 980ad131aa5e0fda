"""The principal variation of a search: the most visited children, from the root on."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gozero.search import rows
from gozero.search.game import NO_ACTION
from gozero.search.tree import ROOT, Tree


def principal_variation(tree: Tree, length: int) -> jax.Array:
    """i32[B, length]: the actions from the root on; NO_ACTION beyond the end of the tree.

    Among children with equal visits, the one tried first is taken.
    """
    root = jnp.full((tree.num_trees, 1), ROOT, jnp.int32)
    return lines_below(tree, root, length)[0][:, 0]


def lines_below(tree: Tree, nodes: jax.Array, length: int) -> tuple[jax.Array, jax.Array]:
    """The same from nodes i32[B, M] on: (actions i32[B, M, length], visits of each).

    A negative node means none.
    """
    base = tree.row(0)[:, None]

    def step(node: jax.Array, _: None) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        row = base + jnp.maximum(node, ROOT)
        below = rows.read(tree.children, row).astype(jnp.int32)
        count = jnp.where(node >= 0, rows.read(tree.num_children, row), 0)
        is_child = jnp.arange(tree.num_actions)[None, None] < count[..., None]
        visits = rows.read(tree.visits, base[..., None] + jnp.where(is_child, below, ROOT))
        best = jnp.argmax(jnp.where(is_child, visits, -1), axis=-1)
        child = jnp.take_along_axis(below, best[..., None], axis=-1)[..., 0]
        child = jnp.where(count > 0, child, -1)
        row = base + jnp.maximum(child, ROOT)
        action = jnp.where(child >= 0, rows.read(tree.action, row), NO_ACTION)
        return child, (action.astype(jnp.int32), rows.read(tree.visits, row))

    _, (actions, visits) = jax.lax.scan(step, nodes, None, length=length)
    return jnp.moveaxis(actions, 0, -1), jnp.moveaxis(visits, 0, -1)
