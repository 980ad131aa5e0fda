"""Where simulations go: from the roots, by what was chosen, to the leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.compile import stages
from gozero.search import ancestors, backup, grandfather, rows, worth
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.game import Trail
from gozero.search.tree import NO_NODE, ROOT, Tree

_LEVELS_AT_ONCE = 4


def num_levels(config: SearchConfig) -> int:
    """Levels of a path as it is kept: path_limit + 1, and a few that make it even."""
    return -(-(config.path_limit + 1) // _LEVELS_AT_ONCE) * _LEVELS_AT_ONCE


def _descend(tree: Tree, config: SearchConfig) -> backup.Path:
    """Follow each tree's choices from its root to a node that tries an action, or has none.

    Or no further than to a node that is to be chosen at anew, see `ancestors`. Carries indices and
    the path only; the tree is read. Trip bound: path_limit + 1 levels.
    """
    levels, least = num_levels(config), ancestors.least(config)

    def descend(following, few=None):
        def levels_down(carry):
            live, level, node, nodes = carry
            visited = []
            for i in range(_LEVELS_AT_ONCE):
                visited.append(jnp.where(live, node, NO_NODE))
                row = tree.row(node)
                child = rows.read(following, row).astype(jnp.int32)
                # (A tree that was grown under a higher depth limit may lead further.)
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

    args = [tree.next] if least is None else [tree.next, ancestors.few(tree, least)]
    nodes = stages.one_kernel(descend, *args, reduced=tree.num_trees)[-1]
    return backup.Path(nodes, jnp.sum(nodes != NO_NODE, axis=0, dtype=jnp.int32) - 1)


class Leaf(NamedTuple):
    """Where a descent ended, and the action that it would try there."""

    path: backup.Path
    row: jax.Array  # i32[B]: of the node where it ended
    action: jax.Array  # i32[B]
    edge_prior: jax.Array  # f32[B]: the action's prior; -inf where no node may be added
    left: jax.Array  # f32[B, A]: the priors of the other actions without a child
    grows: jax.Array  # bool[B]: a node is added
    gives_up: jax.Array  # bool[B]: for want of room none is, nor will be; see `_gives_up`
    grandfather: grandfather.Known | None = None  # of the node that is added, if it was asked for

    def new_rows(self, tree: Tree) -> tuple[jax.Array, jax.Array]:
        """i32[B] twice: the rows of the leaf and of the node that is added below it.

        What does not change is written to rows outside the tree, each its own.
        """
        outside = tree.num_rows + jnp.arange(tree.num_trees, dtype=jnp.int32)
        changes = self.grows | self.gives_up
        parent = jnp.where(changes, self.row, outside + tree.num_trees)
        return parent, jnp.where(self.grows, tree.row(tree.size), outside)

    def longer_path(self, node: jax.Array) -> backup.Path:
        """The path to the node that is added, where one is."""
        path = self.path
        level = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None]
        is_new = (level == path.length[None] + 1) & self.grows[None]
        nodes = jnp.where(is_new, node[None], path.nodes)
        return backup.Path(nodes, path.length + self.grows)


def find_leaf(tree: Tree, config: SearchConfig, salts: jax.Array) -> Leaf:
    """Follow each tree's choices to where a node is to be added, or to be judged again.

    The salts u32[B], one a tree, are for ties where a choice is not kept.
    """
    path = _descend(tree, config)
    if ancestors.least(config) is None:
        row = tree.row(path.end)
        action = rows.read(tree.untried, row).astype(jnp.int32)
    else:
        path, action = ancestors.go_on(tree, path, config, salts)
        row = tree.row(path.end)
    prior = rows.read(tree.prior, row)
    may_grow = _may_grow(tree, path, row, config)
    is_tried = (jnp.arange(tree.num_actions)[None] == action[:, None]) & may_grow[:, None]
    edge_prior = jnp.max(jnp.where(is_tried, prior, -jnp.inf), axis=1)
    # Whether it grows is said by what was read of `prior`: else one tree would be copied.
    left = jnp.where(is_tried, -jnp.inf, prior)
    gives_up = _gives_up(tree, path, row, config)
    grows, known = edge_prior >= 0, None
    if config.grandfather is not None:
        known = grandfather.known(tree, path)
        grows &= known.is_sound  # so that what is written depends on what was read here, too
    return Leaf(path, row, action, edge_prior, left, grows, gives_up, known)


def _may_grow(tree: Tree, path: backup.Path, row: jax.Array, config: SearchConfig) -> jax.Array:
    """bool[B]: below a path's end, in rows i32[B], a node may be added for an action."""
    may = ~rows.read(tree.over, row) & (path.length < config.path_limit)
    may &= worth.is_open(tree, row)
    if config.fills:
        may &= tree.size < tree.capacity
    if config.expand_after > 1:
        visits = rows.read(tree.visits, row)
        may &= (visits >= config.expand_after) | (path.length == 0)
    return may


def _gives_up(tree: Tree, path: backup.Path, row: jax.Array, config: SearchConfig) -> jax.Array:
    """bool[B]: a path's end would get a child if there were room.

    It is judged again, and from then on it chooses among the children that it has: else a node
    that would rather try an action would be judged for ever. So its `untried_prior` says that
    there is none; its `prior` does not, from which `reuse` restores it.
    """
    if not config.fills:
        return jnp.zeros(tree.num_trees, bool)
    could = ~rows.read(tree.over, row) & (path.length < config.path_limit)
    return could & worth.is_open(tree, row) & (tree.size >= tree.capacity)


def played(game, parents: Any, leaf: Leaf) -> Any:
    """The positions to judge: the new nodes', or the leaves' own where none is added."""
    return jax.tree.map(
        lambda new, old: jnp.where(leaf.grows.reshape(-1, *[1] * (new.ndim - 1)), new, old),
        jax.vmap(game.play)(parents, leaf.action),
        parents,
    )


def read_trail(
    tree: Tree, path: backup.Path, config: SearchConfig, first_rows: jax.Array | None = None
) -> tuple[Trail, Any]:
    """(the ancestors of the ends of paths, the positions at the ends) of M paths.

    The rows of their trees' first nodes are i32[M]; None: one path a tree.

    With one leaf a step this is the step's only read of positions. The ends are taken from it and
    not from the tree, so that what is written depends on all that was read and the write stays in
    place.
    """
    nodes = jnp.maximum(path.nodes[: config.path_limit + 1], ROOT).T
    first_rows = tree.row(0) if first_rows is None else first_rows
    positions = trees.read_positions(tree, first_rows[:, None] + nodes)
    ends = jax.tree.map(lambda x: jax.vmap(lambda x, i: x[i])(x, path.length), positions)
    ancestors = jax.tree.map(lambda x: x[:, : config.path_limit], positions)
    return Trail(ancestors, path.length), ends
