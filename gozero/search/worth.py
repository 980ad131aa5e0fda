"""What the nodes of the paths are worth by their children: values by an operator, and proofs.

A pass from the ends of the paths up, all trees at once. It reads the trees, carries what the level
below has come to, and writes each array once in the end.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.search import proofs, rows
from gozero.search import tree as trees
from gozero.search.backup import Path
from gozero.search.config import VALUE_ONE
from gozero.search.tree import NO_NODE, ROOT, Tree

if TYPE_CHECKING:
    from gozero.search.config import SearchConfig

_FEW, _SOME = 8, 32
"""Children: how many are looked at depends on the widest node of a level."""


class _Worth(NamedTuple):
    """Of one node of each tree, for the player to move there."""

    backed: jax.Array  # i32[B], fixed point
    proven: jax.Array  # i8[B]


def of_end(tree: Tree, row: jax.Array, value: jax.Array) -> jax.Array:
    """What a simulation brings that ends in rows i32[B]: their values i32[B], exact if proven."""
    if tree.proven is None:
        return value
    return _exact(rows.read(tree.proven, row), value)


def is_open(tree: Tree, row: jax.Array) -> jax.Array | bool:
    """bool[B]: nothing is proven of the nodes in rows i32[B]."""
    return True if tree.proven is None else rows.read(tree.proven, row) == proofs.UNKNOWN


def unless_proven(tree: Tree, row: jax.Array, child: jax.Array) -> jax.Array:
    """`Tree.next` of nodes in rows i32[...]: a child i32[...], or NO_NODE: descents stop there."""
    if tree.proven is None:
        return child
    return jnp.where(rows.read(tree.proven, row) == proofs.UNKNOWN, child, NO_NODE)


def proven_by_game(tree: Tree, row: jax.Array, proven: jax.Array, grows: jax.Array) -> jax.Array:
    """i8[B]: what is proven where paths end: by the game if they have grown, else as in their rows.

    Args:
      row: i32[B], where the descents ended.
      proven: i8[B], by the game.
      grows: bool[B].
    """
    if tree.proven is None:
        return proven
    return jnp.where(grows, proven, rows.read(tree.proven, row))


def back_up(
    tree: Tree, path: Path, end_proven: jax.Array, config: SearchConfig, look: bool = False
) -> Tree:
    """Value the nodes of the paths anew, from their ends up.

    Visits and value sums are to be backed up before. Trip bound: D + 1 levels.

    Args:
      tree: the trees.
      path: the paths.
      end_proven: i8[B], what is proven of the nodes where they end.
      config: the settings.
      look: the ends' own children may prove them. (Else proofs come from what is new.)

    Returns:
      The trees with new `backed` and `proven`, if they have these.
    """
    if tree.backed is None and tree.proven is None:
        return tree
    num_levels, num_trees = path.nodes.shape
    if tree.proven is None:
        end_proven = jnp.zeros(num_trees, jnp.int8)
    lanes = jnp.arange(num_trees, dtype=jnp.int32)
    widths = [w for w in (_FEW, _SOME) if 2 * w <= tree.num_actions] + [tree.num_actions]

    def one_up(i, carry):
        found, below, is_new = carry
        level = last - i
        node = jnp.maximum(path.nodes[level], ROOT)
        is_end = level == path.length
        child = jnp.where(is_end, NO_NODE, path.nodes[jnp.minimum(level + 1, num_levels - 1)])
        row = tree.row(node)
        before = end_proven if tree.proven is None else rows.read(tree.proven, row)
        known = jnp.where(is_end, end_proven, before)
        wanted = level <= path.length
        if tree.backed is None:
            wanted &= (is_end & look) | (~is_end & is_new)
        start = _Worth(_own_value(tree, row), known)
        has_children = rows.read(tree.num_children, row) > 0
        wanted &= has_children
        most = jnp.max(jnp.where(wanted, rows.read(tree.num_children, row), 0))
        which = sum((most > w).astype(jnp.int32) for w in (0, *widths[:-1]))
        branches = [lambda below: start] + [
            functools.partial(_by_children, tree, config, width, lanes, node, child)
            for width in widths
        ]
        by_children = lax.switch(which, branches, below)
        seen = jax.tree.map(lambda new, old: jnp.where(wanted, new, old), by_children, start)
        proven = jnp.where(known == proofs.UNKNOWN, seen.proven, known)
        here = _Worth(_exact(proven, seen.backed), proven)
        is_new = (level <= path.length) & (proven != before)
        put = lambda all, one: lax.dynamic_update_slice(all, one[None], (level, 0))
        return jax.tree.map(put, found, here), here, is_new

    last = jnp.max(path.length)
    blank = _Worth(jnp.zeros(num_trees, jnp.int32), jnp.zeros(num_trees, jnp.int8))
    found = jax.tree.map(lambda x: jnp.zeros((num_levels, num_trees), x.dtype), blank)
    start = (found, blank, jnp.zeros(num_trees, bool))
    found, _, _ = lax.fori_loop(0, last + 1, one_up, start)
    level = jnp.arange(num_levels, dtype=jnp.int32)[:, None]
    node_rows = path.rows(tree, level <= path.length[None])
    write = lambda x, new: None if x is None else rows.write(x, node_rows, new)
    return tree.replace(
        backed=write(tree.backed, found.backed), proven=write(tree.proven, found.proven)
    )


def _by_children(
    tree: Tree,
    config: SearchConfig,
    width: int,
    lanes: jax.Array,
    node: jax.Array,
    child: jax.Array,
    below: _Worth,
) -> _Worth:
    """Of nodes i32[B], one a tree; of their children i32[B] it is known what they have come to.

    A child may be NO_NODE.
    """
    found = trees.children(tree, lanes, node, width)
    row = tree.row(node)
    is_child = found.nodes != NO_NODE
    is_it = is_child & (found.nodes == child[:, None])
    worth = _Worth(jnp.zeros_like(below.backed), jnp.zeros_like(below.proven))
    if tree.backed is not None and config.backup is not None:
        q = jnp.where(is_it, -trees.to_float(below.backed)[:, None], found.edges.q)
        mean = trees.mean(rows.read(tree.value_sum, row), rows.read(tree.visits, row))
        edges = found.edges._replace(q=q, value=mean)
        worth = worth._replace(backed=trees.to_fixed(jax.vmap(config.backup)(edges)))
    if found.edges.proven is not None:
        results = jnp.where(is_it, proofs.opponent(below.proven)[:, None], found.edges.proven)
        results = jnp.where(is_child, results, -1)
        has_untried = jnp.any(rows.read(tree.prior, row) >= 0, axis=1)
        worth = worth._replace(proven=jax.vmap(proofs.of_actions)(results, has_untried))
    return worth


def _own_value(tree: Tree, row: jax.Array) -> jax.Array:
    """i32[B]: of nodes without children, the mean of their evaluations."""
    mean = trees.mean(rows.read(tree.value_sum, row), rows.read(tree.visits, row))
    return trees.to_fixed(mean)


def _exact(proven: jax.Array, value: jax.Array) -> jax.Array:
    """i32[...], fixed point: the value, but the exact one if it is proven."""
    exact = (proven.astype(jnp.int32) - proofs.DRAW) * VALUE_ONE
    return jnp.where(proven == proofs.UNKNOWN, value, exact)
