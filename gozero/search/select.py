"""Selection of leaves: B paths from the roots, along the cached choices, to where nodes are added.

A descent can read two things from ancestors. The first is all-moves-as-first (AMAF) statistics, for
nodes with too few visits (`Amaf.ancestor`): Gelly & Silver (2011), section 4.2, mention the values
of ancestors' subtrees; Cazenave (2015), Generalized RAVE, uses those of the nearest ancestor with
enough simulations. The choice at such a node changes with simulations that do not pass through it,
so the cached choice in `Tree.next`, which is by the node's own statistics, does not apply. Visits
decrease along a path: below the first node with too few, all have too few. So a descent follows the
cached choices as long as the nodes have enough visits, and from there on chooses at each level. The
ancestor has the same player to move, so it is at least two plies above, and the root and its
children have none. The second is the grandfather heuristic, Gelly & Silver (2011), section 5.1: a
new node begins with the values that its player had two plies before, Q_grand(s_t, a) =
Q(s_{t-2}, a).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.compile import indexing, mode, stages
from gozero.compile.kernels import paths
from gozero.search import dense, prior_counts, rows
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.tree import NO_NODE, ROOT, Path, Tree

_LEVELS_AT_ONCE = 4


def num_levels(config: SearchConfig) -> int:
    """Levels in the array of a path: path_limit + 1, rounded up to a multiple of 4."""
    return -(-(config.path_limit + 1) // _LEVELS_AT_ONCE) * _LEVELS_AT_ONCE


def _descend(tree: Tree, config: SearchConfig) -> trees.Path:
    """Follow each tree's cached choices from its root to a node that tries an action, or has none.

    With `Amaf.ancestor`, stop at the first node whose cached choice does not apply, see
    `continue_descent`.
    The loop carries only indices and the path; the tree is read. Trip bound: path_limit + 1 levels.
    """
    levels, least = num_levels(config), least_visits(config)
    if least is not None or mode.backend() != "gpu":
        return _descend_together(tree, config)

    def in_kernel(following):
        return trees.Path(*paths.descend(following, tree.num_trees, config.path_limit, levels))

    together = lambda following: _descend_together(tree.replace(next=following), config)
    return mode.by_platform(tree.next, cuda=in_kernel, default=together)


def _descend_together(tree: Tree, config: SearchConfig) -> trees.Path:
    levels, least = num_levels(config), least_visits(config)

    def descend(following, few=None):
        def levels_down(carry):
            live, level, node, nodes = carry
            visited = []
            for i in range(_LEVELS_AT_ONCE):
                visited.append(jnp.where(live, node, NO_NODE))
                row = tree.row(node)
                child = rows.read(following, row).astype(jnp.int32)
                # (A tree that was searched with a higher depth limit may go deeper.)
                live = live & (child != NO_NODE) & (level + i < config.path_limit)
                if few is not None:
                    live &= ~few.at(row, level + i, least)
                node = jnp.where(live, child, node)
            nodes = lax.dynamic_update_slice(nodes, jnp.stack(visited), (level, jnp.int32(0)))
            return live, level + _LEVELS_AT_ONCE, node, nodes

        start = (
            jnp.ones(tree.num_trees, bool),
            jnp.int32(0),
            jnp.full(tree.num_trees, ROOT, jnp.int32),
            jnp.full((levels, tree.num_trees), NO_NODE, jnp.int32),
        )
        return lax.while_loop(lambda carry: jnp.any(carry[0]), levels_down, start)

    args = [tree.next] if least is None else [tree.next, few_visits(tree, least)]
    nodes = stages.one_kernel(descend, *args, reduced=tree.num_trees)[-1]
    return trees.Path(nodes, jnp.sum(nodes != NO_NODE, axis=0, dtype=jnp.int32) - 1)


class Leaf(NamedTuple):
    """Where a descent ended, and the action that it tries there."""

    path: trees.Path
    row: jax.Array  # i32[B]: the row of the node where it ended
    action: jax.Array  # i32[B]
    edge_prior: jax.Array  # f32[B]: the action's prior; -inf where no node may be added
    other_priors: jax.Array  # f32[B, A]: the priors of the other actions without a child
    grows: jax.Array  # bool[B]: whether a node is added
    tree_full: jax.Array  # bool[B]: none is added because the tree is full; see `_is_full`
    grandfather: prior_counts.ValuesAbove | None = None  # of the new node, see `Grandfather`

    def new_rows(self, tree: Tree) -> tuple[jax.Array, jax.Array]:
        """i32[B] twice: the rows of the leaf and of the node that is added below it.

        For rows that do not change, these are distinct rows outside the arrays.
        """
        outside = tree.num_rows + jnp.arange(tree.num_trees, dtype=jnp.int32)
        changes = self.grows | self.tree_full
        parent = jnp.where(changes, self.row, outside + tree.num_trees)
        return parent, jnp.where(self.grows, tree.row(tree.size), outside)

    def longer_path(self, node: jax.Array) -> trees.Path:
        """The path with the added node, i32[B] `node`, at its end, where one is added."""
        path = self.path
        level = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None]
        is_new = (level == path.length[None] + 1) & self.grows[None]
        nodes = jnp.where(is_new, node[None], path.nodes)
        return trees.Path(nodes, path.length + self.grows)


def find_leaf(tree: Tree, config: SearchConfig, tie_seeds: jax.Array) -> Leaf:
    """Follow each tree's choices to where a node is added, or an existing one evaluated again.

    `tie_seeds`, u32[B], one per tree, break ties where choices are not cached.
    """
    path = _descend(tree, config)
    if least_visits(config) is None:
        row = tree.row(path.end)
        action = rows.read(tree.untried, row).astype(jnp.int32)
    else:
        path, action = continue_descent(tree, path, config, tie_seeds)
        row = tree.row(path.end)
    prior = rows.read(tree.prior, row)
    may_grow = _may_grow(tree, path, row, config)
    is_tried = (jnp.arange(tree.num_actions)[None] == action[:, None]) & may_grow[:, None]
    entry = lambda: rows.read_entries(tree.prior, row, action[:, None])[:, 0]
    if mode.backend() == "gpu" and not mode.plain():  # reducing rows is a separate kernel
        edge_prior = jnp.where(may_grow, entry(), -jnp.inf)
    else:
        edge_prior = indexing.highest(jnp.where(is_tried, prior, -jnp.inf))
    other_priors = jnp.where(is_tried, -jnp.inf, prior)
    tree_full = _is_full(tree, path, row, config)
    grows, above = indexing.by_row(edge_prior >= 0, lambda: may_grow & (entry() >= 0)), None
    if config.grandfather is not None:
        above = prior_counts.values_above(tree, path)
        grows = indexing.after(grows, above.is_sound)
    return Leaf(path, row, action, edge_prior, other_priors, grows, tree_full, above)


def _may_grow(tree: Tree, path: trees.Path, row: jax.Array, config: SearchConfig) -> jax.Array:
    """bool[B]: whether a node may be added below the paths' ends, in rows i32[B]."""
    may_grow = ~rows.read(tree.over, row) & (path.length < config.path_limit)
    may_grow &= trees.is_open(tree, row)
    if config.fills:
        may_grow &= tree.size < tree.capacity
    if config.expand_after > 1:
        visits = rows.read(tree.visits, row)
        may_grow &= (visits >= config.expand_after) | (path.length == 0)
    return may_grow


def _is_full(tree: Tree, path: trees.Path, row: jax.Array, config: SearchConfig) -> jax.Array:
    """bool[B]: whether a path's end would get a child if there were room in the tree.

    Such a node is evaluated again, and from then on chooses only among its children: otherwise
    every simulation would end at a node whose rule prefers an untried action. So `untried_prior` is
    set to -inf there; `prior` is kept, and `reuse` restores `untried_prior` from it.
    """
    if not config.fills:
        return jnp.zeros(tree.num_trees, bool)
    may_grow = ~rows.read(tree.over, row) & (path.length < config.path_limit)
    return may_grow & trees.is_open(tree, row) & (tree.size >= tree.capacity)


_AT_ONCE = 64
"""The most nodes at which `_choose` chooses together."""


def least_visits(config: SearchConfig) -> int | None:
    """The visits that a node needs to use its own AMAF statistics; None: it always does."""
    return None if config.amaf is None else config.amaf.ancestor


class TooFewVisits(NamedTuple):
    """Which nodes of a descent have too few visits, so that their cached choice does not apply."""

    visits: jax.Array  # i32[R]: `Tree.visits`
    has_source: jax.Array  # bool[B]: whether the root or the child it chooses has enough visits

    def at(self, row: jax.Array, level: jax.Array, least: int) -> jax.Array:
        """bool[B]: whether the nodes in rows i32[B] have too few; `level` is i32[] or i32[B]."""
        return (rows.read(self.visits, row) < least) & (level >= 2) & self.has_source


def few_visits(tree: Tree, least: int) -> TooFewVisits:
    """If neither of the first two nodes has enough visits, no node has an ancestor that does."""
    row = tree.row(ROOT)
    child = jnp.maximum(rows.read(tree.next, row).astype(jnp.int32), ROOT)
    # (Checked by itself: virtual losses count for the child, but not for the root.)
    top = jnp.maximum(rows.read(tree.visits, row), rows.read(tree.visits, tree.row(child)))
    return TooFewVisits(tree.visits, top >= least)


class _Descent(NamedTuple):
    """The state of descents that continue from where the cached choices ended."""

    live: jax.Array  # bool[B]: whether the tree's descent continues
    count: jax.Array  # i32[]: levels so far
    node: jax.Array  # i32[B]
    untried: jax.Array  # i32[B]: the best action without a child
    nodes: jax.Array  # i32[D + 1, B]: entered so far; NO_NODE from where a descent stopped


def continue_descent(
    tree: Tree, path: Path, config: SearchConfig, tie_seeds: jax.Array
) -> tuple[Path, jax.Array]:
    """Continue paths from nodes with too few visits, choosing by the statistics of ancestors.

    Does not change the trees. Trip bound: path_limit levels.

    Args:
      tree: the trees.
      path: the paths, which end at the first such node at the latest.
      config: the settings.
      tie_seeds: u32[B], one per tree, for ties.

    Returns:
      (the paths, the action i32[B] that each tries at its end).
    """
    least, start = least_visits(config), tree.row(path.end)
    assert least is not None
    # The ancestors of the first node and of the second also serve every second node below each.
    above = path.length[None] - jnp.array([[2], [1]])
    above = jnp.take_along_axis(path.nodes, jnp.maximum(above, 0), axis=0)
    above = tree.row(0)[None] + jnp.maximum(above, ROOT)
    has_enough = rows.read(tree.visits, above) >= least

    def one_down(so_far: _Descent) -> _Descent:
        own, which = tree.row(so_far.node), so_far.count % 2
        amaf_source = jnp.where(has_enough[which], above[which], own)
        child, untried = _choose(tree, config, tie_seeds, so_far, amaf_source)
        live = so_far.live & (child != NO_NODE) & (path.length + so_far.count < config.path_limit)
        entered = jnp.where(live, child, NO_NODE)
        return _Descent(
            live=live,
            count=so_far.count + 1,
            node=jnp.where(live, child, so_far.node),
            untried=jnp.where(so_far.live, untried, so_far.untried),
            nodes=lax.dynamic_update_slice(
                so_far.nodes, entered[None], (so_far.count, jnp.int32(0))
            ),
        )

    end = lax.while_loop(
        lambda so_far: jnp.any(so_far.live),
        one_down,
        _Descent(
            live=few_visits(tree, least).at(start, path.length, least),
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
    tree: Tree, config: SearchConfig, tie_seeds: jax.Array, so_far: _Descent, amaf_source: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(child, untried), i32[B] each: the choices at the nodes of the live trees.

    They use the AMAF statistics in the rows `amaf_source`, i32[B]. Only live trees are processed,
    in chunks. Trip bound: B / chunk, rounded up.
    """
    num_trees = tree.num_trees
    chunk = max(2, min(num_trees, _AT_ONCE, stages.MAX_REDUCED // tree.num_actions))
    order = jnp.argsort(~so_far.live, stable=True).astype(jnp.int32)
    num_live = jnp.sum(so_far.live, dtype=jnp.int32)

    def choose_some(i, choices):
        number = i * chunk + jnp.arange(chunk, dtype=jnp.int32)
        counts = number < num_live
        index = order[jnp.where(counts, number, 0)]
        node = so_far.node[index]
        row = index * tree.capacity + node
        max_children = jnp.max(jnp.where(counts, rows.read(tree.num_children, row), 0))
        is_full = jnp.zeros(chunk, bool)
        if config.fills:
            is_full = jnp.isneginf(rows.read(tree.untried_prior, row))
        chosen = dense.choose(
            tree, config.rule, index, node, max_children, tie_seeds, is_full, amaf_source[index]
        )
        target = jnp.where(counts, index, num_trees + jnp.arange(chunk, dtype=jnp.int32))
        return tuple(
            rows.write(x, target, new)
            for x, new in zip(choices, (chosen.next, chosen.untried), strict=True)
        )

    none = jnp.full(num_trees, NO_NODE, jnp.int32)
    return lax.fori_loop(0, (num_live + chunk - 1) // chunk, choose_some, (none, none))
