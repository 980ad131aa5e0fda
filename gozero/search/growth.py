"""How B trees grow in lockstep: their roots, and a node more with each simulation."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero import fusion
from gozero.search import backup, choices, noise, root, rows, selection
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.game import Trail
from gozero.search.judging import judge
from gozero.search.tree import NO_NODE, ROOT, Tree


def plant(
    game, evaluate, params, key, noise_key, contexts, roots, config, salts, gumbel, tree: Tree
) -> tuple[Tree, jax.Array]:
    """Evaluate the roots and write them as node 0 of each tree."""
    num_trees = tree.num_trees
    stacked = jax.tree.map(
        lambda x: jnp.broadcast_to(x[:, None], (num_trees, config.path_limit, *x.shape[1:])), roots
    )
    trail = Trail(stacked, jnp.zeros(num_trees, jnp.int32))
    judged = judge(game, evaluate, params, key, contexts, roots, trail)
    prior = judged.prior
    if config.root_temperature != 1:
        prior = jax.vmap(noise.soften, in_axes=(0, None))(prior, config.root_temperature)
    if config.dirichlet_fraction > 0:
        keys = jax.random.split(noise_key, num_trees)
        prior = jax.vmap(noise.add_dirichlet, in_axes=(0, 0, None, None))(
            keys, prior, config.dirichlet_alpha, config.dirichlet_fraction
        )
    row = tree.row(ROOT)
    untried = _best_untried(config, prior, salts, jnp.full(num_trees, ROOT))
    tree = tree.replace(
        prior=rows.write(tree.prior, row, prior),
        untried=rows.write(tree.untried, row, untried.action),
        untried_prior=rows.write(tree.untried_prior, row, untried.prior),
        visits=rows.write(tree.visits, row, jnp.ones_like(row)),
        value_sum=rows.write(tree.value_sum, row, judged.value),
        value=rows.write(tree.value, row, judged.value),
        closed=rows.write(tree.closed, row, judged.over),
        positions=trees.write_positions(tree, row, roots),
        size=tree.size + 1,
    )
    if config.root_select is not None:
        without_children = trees.by_action(tree, ROOT, 0)
        tree = root.choose(tree, without_children, config, salts, gumbel)
    return tree, judged.ok


class _Untried(NamedTuple):
    action: jax.Array  # i32[B]
    prior: jax.Array  # f32[B]


def _best_untried(
    config: SearchConfig, prior: jax.Array, salts: jax.Array, nodes: jax.Array
) -> _Untried:
    """Of actions with the priors f32[B, A] the rule's first, at random among equals."""
    rank = jax.vmap(lambda prior: selection.rank_untried(config.select, prior))(prior)
    actions = jnp.arange(prior.shape[1])
    priority = jax.vmap(selection.tie_break, in_axes=(0, 0, None))(salts, nodes, actions)
    action = jax.vmap(selection.choose)(rank, priority)
    is_it = actions[None] == action[:, None]
    return _Untried(action, jnp.max(jnp.where(is_it, prior, -jnp.inf), axis=1))


_LEVELS_AT_ONCE = 4


def _descend(tree: Tree, config: SearchConfig) -> backup.Path:
    """Follow each tree's choices from its root to a node that tries an action, or is closed.

    Carries indices and the path only; the tree is read. Trip bound: path_limit + 1 levels, for
    nodes at the depth limit are closed, and no closed node has a child.
    """
    num_levels = -(-(config.path_limit + 1) // _LEVELS_AT_ONCE) * _LEVELS_AT_ONCE

    def descend(following):
        def levels_down(carry):
            live, level, node, nodes = carry
            visited = []
            for _ in range(_LEVELS_AT_ONCE):
                visited.append(jnp.where(live, node, NO_NODE))
                child = rows.read(following, tree.row(node)).astype(jnp.int32)
                live = live & (child != NO_NODE)
                node = jnp.where(live, child, node)
            nodes = lax.dynamic_update_slice(nodes, jnp.stack(visited), (level, jnp.int32(0)))
            return live, level + _LEVELS_AT_ONCE, node, nodes

        start = (
            jnp.ones(tree.num_trees, bool),
            jnp.int32(0),
            jnp.full(tree.num_trees, ROOT, jnp.int32),
            jnp.full((num_levels, tree.num_trees), NO_NODE, jnp.int32),
        )
        return lax.while_loop(lambda carry: jnp.any(carry[0]), levels_down, start)

    nodes = fusion.one_kernel(descend, tree.next)[-1]
    return backup.Path(nodes, jnp.sum(nodes != NO_NODE, axis=0, dtype=jnp.int32) - 1)


def grow(
    game, evaluate, params, key, contexts, config, salts, gumbel, tree: Tree, ok
) -> tuple[Tree, jax.Array]:
    """Add each tree's new node, and back its value up; a closed leaf's own value goes up again."""
    path = _descend(tree, config)
    leaf = path.end
    leaf_row = tree.row(leaf)
    closed = rows.read(tree.closed, leaf_row)
    action = rows.read(tree.untried, leaf_row).astype(jnp.int32)
    trail = _read_trail(tree, path, config)
    parents = jax.vmap(_last)(trail)
    positions = jax.vmap(game.play)(parents, action)
    judged = judge(game, evaluate, params, key, contexts, positions, trail)

    prior_there = rows.read(tree.prior, leaf_row)
    is_tried = (jnp.arange(tree.num_actions)[None] == action[:, None]) & ~closed[:, None]
    edge_prior = jnp.max(jnp.where(is_tried, prior_there, -jnp.inf), axis=1)
    # A leaf that is closed, or has no legal action, adds nothing: its writes go to rows outside
    # the tree, each its own. (Said by what was read of `prior`: else one tree would be copied.)
    grows = edge_prior >= 0
    outside = tree.num_rows + jnp.arange(tree.num_trees, dtype=jnp.int32)
    node = tree.size
    row = jnp.where(grows, tree.row(node), outside)
    parent_row = jnp.where(grows, leaf_row, outside + tree.num_trees)
    left = jnp.where(is_tried, -jnp.inf, prior_there)
    both = jnp.concatenate([left, judged.prior])
    both_rows = jnp.concatenate([parent_row, row])
    untried = _best_untried(config, both, jnp.tile(salts, 2), jnp.concatenate([leaf, node]))
    value = jnp.where(grows, judged.value, rows.read(tree.value, leaf_row))
    num_children = rows.read(tree.num_children, leaf_row).astype(jnp.int32)
    depth = path.length + 1
    grown = tree.replace(
        prior=rows.write(tree.prior, both_rows, both),
        untried=rows.write(tree.untried, both_rows, untried.action),
        untried_prior=rows.write(tree.untried_prior, both_rows, untried.prior),
        children=rows.write_entry(tree.children, parent_row, num_children, node),
        num_children=rows.write(tree.num_children, parent_row, num_children + 1),
        action=rows.write(tree.action, row, action),
        edge_prior=rows.write(tree.edge_prior, row, edge_prior),
        value=rows.write(tree.value, row, value),
        closed=rows.write(tree.closed, row, judged.over | (depth >= config.path_limit)),
        positions=trees.write_positions(tree, row, positions),
        size=node + grows,
    )
    below = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None] == depth[None]
    nodes = jnp.where(below & grows[None], node[None], path.nodes)
    path = backup.Path(nodes, path.length + grows)
    grown = backup.back_up(grown, path, value)
    if config.root_select is not None:
        # Before the other nodes: what it writes they read, and it reads nothing that they write.
        grown = root.choose(grown, root.actions(grown), config, salts, gumbel)
    first_level = 0 if config.root_select is None else 1
    grown = choices.choose_again(grown, path, config.select, salts, first_level)
    return grown, ok & (judged.ok | closed)


def _read_trail(tree: Tree, path: backup.Path, config: SearchConfig) -> Trail:
    """The positions on the paths, as the new nodes' ancestors.

    This is the step's only read of positions. The parent is taken from it and not from the
    tree, so that what is written depends on all that was read and the write stays in place.
    """
    nodes = jnp.maximum(path.nodes[: config.path_limit], ROOT).T
    return Trail(trees.read_positions(tree, tree.row(0)[:, None] + nodes), path.length + 1)


def _last(trail: Trail) -> Any:
    """The last ancestor of one trail."""
    return jax.tree.map(lambda x: x[trail.length - 1], trail.positions)
