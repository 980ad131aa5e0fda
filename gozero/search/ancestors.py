"""All-moves-as-first statistics of ancestors, for nodes that have too few of their own.

Gelly & Silver (2011), section 4.2, name the values of ancestors' subtrees; Cazenave (2015),
Generalized RAVE, takes those of the nearest ancestor that has simulations enough.

Such a node's choice changes with simulations that do not pass it, so what `Tree.next` holds, the
choice by its own statistics, is not followed there. Visits fall along a path: once below the number
wanted, always below. So a descent follows the tree as far as the nodes have visits enough, and
from there on chooses anew, a level at a time. No ancestor is nearer than two plies, so the root and
its children have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.compile import stages
from gozero.search import full_rows, rows
from gozero.search.backup import Path
from gozero.search.tree import NO_NODE, ROOT, Tree

if TYPE_CHECKING:
    from gozero.search.config import SearchConfig

_AT_ONCE = 64
"""Nodes that are chosen at together."""


def least(config: SearchConfig) -> int | None:
    """Visits that a node needs to go by its own statistics; None: it always does."""
    return None if config.amaf is None else config.amaf.ancestor


class Few(NamedTuple):
    """Which nodes of a descent are to be chosen at anew."""

    visits: jax.Array  # i32[R]: `Tree.visits`
    heard: jax.Array  # bool[B]: the root or the child it leads to has visits enough

    def at(self, row: jax.Array, level: jax.Array, least: int) -> jax.Array:
        """bool[B]: so are the nodes in rows i32[B], on their level, i32[] or i32[B]."""
        return (rows.read(self.visits, row) < least) & (level >= 2) & self.heard


def few(tree: Tree, least: int) -> Few:
    """Where none of the first two nodes has visits enough, no other node has such an ancestor."""
    row = tree.row(ROOT)
    child = jnp.maximum(rows.read(tree.next, row).astype(jnp.int32), ROOT)
    # (Of its own: a virtual loss counts for a child and not for the root.)
    top = jnp.maximum(rows.read(tree.visits, row), rows.read(tree.visits, tree.row(child)))
    return Few(tree.visits, top >= least)


class _Descent(NamedTuple):
    """Trees that have gone on from where the choices ended that were kept."""

    live: jax.Array  # bool[B]: the tree goes on
    count: jax.Array  # i32[]: levels so far
    node: jax.Array  # i32[B]
    untried: jax.Array  # i32[B]: the best action without a child
    nodes: jax.Array  # i32[D + 1, B]: entered so far; NO_NODE from where a tree has stopped


def go_on(tree: Tree, path: Path, config: SearchConfig, salts: jax.Array) -> tuple[Path, jax.Array]:
    """Lead paths on that ended at nodes with too few visits, choosing there by ancestors.

    Reads the trees only. Trip bound: path_limit levels.

    Args:
      tree: the trees.
      path: the paths, no further than to the first of those nodes.
      config: the settings.
      salts: u32[B], one a tree, for ties.

    Returns:
      (the paths, the action i32[B] that each would try where it ends).
    """
    wanted, start = least(config), tree.row(path.end)
    assert wanted is not None
    # The ancestors of the first node and of the second count for every other one below.
    above = path.length[None] - jnp.array([[2], [1]])
    above = jnp.take_along_axis(path.nodes, jnp.maximum(above, 0), axis=0)
    above = tree.row(0)[None] + jnp.maximum(above, ROOT)
    has_enough = rows.read(tree.visits, above) >= wanted

    def one_down(so_far: _Descent) -> _Descent:
        own, which = tree.row(so_far.node), so_far.count % 2
        heard = jnp.where(has_enough[which], above[which], own)
        child, untried = _choose(tree, config, salts, so_far, heard)
        live = so_far.live & (child != NO_NODE) & (path.length + so_far.count < config.path_limit)
        entered = jnp.where(live, child, NO_NODE)
        return _Descent(
            live=live,
            count=so_far.count + 1,
            node=jnp.where(live, child, so_far.node),
            untried=jnp.where(so_far.live, untried, so_far.untried),
            nodes=lax.dynamic_update_slice(so_far.nodes, entered[None], (so_far.count, 0)),
        )

    end = lax.while_loop(
        lambda so_far: jnp.any(so_far.live),
        one_down,
        _Descent(
            live=few(tree, wanted).at(start, path.length, wanted),
            count=jnp.int32(0),
            node=path.end,
            untried=rows.read(tree.untried, start).astype(jnp.int32),
            nodes=jnp.full(path.nodes.shape, NO_NODE, jnp.int32),
        ),
    )
    level = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None]
    below = level - path.length[None] - 1
    entered = jnp.take_along_axis(end.nodes, jnp.maximum(below, 0), axis=0)
    nodes = jnp.where(below >= 0, entered, path.nodes)
    return Path(nodes, jnp.sum(nodes != NO_NODE, axis=0, dtype=jnp.int32) - 1), end.untried


def _choose(
    tree: Tree, config: SearchConfig, salts: jax.Array, so_far: _Descent, heard: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(child, untried), i32[B] each, of the live trees' nodes by the statistics in rows i32[B].

    The live trees come first, without gaps, a chunk at a time. Trip bound: B / chunk, rounded up.
    """
    num_trees = tree.num_trees
    chunk = max(2, min(num_trees, _AT_ONCE, stages.MAX_REDUCED // tree.num_actions))
    order = jnp.argsort(~so_far.live, stable=True).astype(jnp.int32)
    num_live = jnp.sum(so_far.live, dtype=jnp.int32)

    def some(i, found):
        number = i * chunk + jnp.arange(chunk, dtype=jnp.int32)
        counts = number < num_live
        index = order[jnp.where(counts, number, 0)]
        node = so_far.node[index]
        row = index * tree.capacity + node
        most = jnp.max(jnp.where(counts, rows.read(tree.num_children, row), 0))
        tries_no_more = jnp.zeros(chunk, bool)
        if config.fills:
            tries_no_more = jnp.isneginf(rows.read(tree.untried_prior, row))
        chosen = full_rows.choose(
            tree, config.select, index, node, most, salts, tries_no_more, heard[index]
        )
        target = jnp.where(counts, index, num_trees + jnp.arange(chunk, dtype=jnp.int32))
        return tuple(
            rows.write(x, target, new)
            for x, new in zip(found, (chosen.next, chosen.untried), strict=True)
        )

    none = jnp.full(num_trees, NO_NODE, jnp.int32)
    return lax.fori_loop(0, (num_live + chunk - 1) // chunk, some, (none, none))
