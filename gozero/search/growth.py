"""How B trees grow in lockstep: their roots, and a node more with each simulation."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero import fusion
from gozero.search import backup, choices, noise, rows, selection
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.game import Trail
from gozero.search.judging import Judged, judge
from gozero.search.tree import NO_NODE, ROOT, Tree


def judge_roots(
    game, evaluate, params, key, noise_key, contexts, roots, config: SearchConfig
) -> Judged:
    """Judge the roots; the priors are softened and noisy."""
    num_trees = jax.tree.leaves(roots)[0].shape[0]
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
    return judged._replace(prior=prior)


def plant(tree: Tree, judged: Judged, roots, config: SearchConfig, salts: jax.Array) -> Tree:
    """Write the roots as node 0 of each tree, which is empty."""
    row = tree.row(ROOT)
    untried = best_untried(config, judged.prior, salts, jnp.full(tree.num_trees, ROOT))
    return tree.replace(
        prior=rows.write(tree.prior, row, judged.prior),
        untried=rows.write(tree.untried, row, untried.action),
        untried_prior=rows.write(tree.untried_prior, row, untried.prior),
        visits=rows.write(tree.visits, row, jnp.ones_like(row)),
        value_sum=rows.write(tree.value_sum, row, judged.value),
        value=rows.write(tree.value, row, judged.value),
        over=rows.write(tree.over, row, judged.over),
        positions=trees.write_positions(tree, row, roots),
        size=tree.size + 1,
    )


class Untried(NamedTuple):
    action: jax.Array  # i32[B]
    prior: jax.Array  # f32[B]


def best_untried(
    config: SearchConfig, prior: jax.Array, salts: jax.Array, nodes: jax.Array
) -> Untried:
    """Of actions with the priors f32[B, A] the rule's first, at random among equals."""
    rank = jax.vmap(lambda prior: selection.rank_untried(config.select, prior))(prior)
    actions = jnp.arange(prior.shape[1])
    priority = jax.vmap(selection.tie_break, in_axes=(0, 0, None))(salts, nodes, actions)
    action = jax.vmap(selection.choose)(rank, priority)
    is_it = actions[None] == action[:, None]
    return Untried(action, jnp.max(jnp.where(is_it, prior, -jnp.inf), axis=1))


_LEVELS_AT_ONCE = 4


def _descend(tree: Tree, config: SearchConfig) -> backup.Path:
    """Follow each tree's choices from its root to a node that tries an action, or is closed.

    Carries indices and the path only; the tree is read. Trip bound: path_limit + 1 levels.
    """
    num_levels = -(-(config.path_limit + 1) // _LEVELS_AT_ONCE) * _LEVELS_AT_ONCE

    def descend(following):
        def levels_down(carry):
            live, level, node, nodes = carry
            visited = []
            for i in range(_LEVELS_AT_ONCE):
                visited.append(jnp.where(live, node, NO_NODE))
                child = rows.read(following, tree.row(node)).astype(jnp.int32)
                # (A tree that was grown under a higher depth limit may lead further.)
                live = live & (child != NO_NODE) & (level + i < config.path_limit)
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
    game, evaluate, params, key, contexts, config, salts, tree: Tree, ok
) -> tuple[Tree, jax.Array]:
    """Add each tree's new node, and back its value up.

    From a leaf that is over, or at the depth limit, its own value goes up again. In a full tree
    the leaf is evaluated again, and has no actions to try any more; see `_again`.
    """
    path = _descend(tree, config)
    leaf = path.end
    leaf_row = tree.row(leaf)
    closed = rows.read(tree.over, leaf_row) | (path.length >= config.path_limit)
    action = rows.read(tree.untried, leaf_row).astype(jnp.int32)
    trail = _read_trail(tree, path, config)
    parents = jax.vmap(_last)(trail)
    positions = jax.vmap(game.play)(parents, action)
    again = _again(tree, closed, config)
    if config.fills:
        positions = jax.vmap(lambda stay, *x: jax.tree.map(lambda a, b: jnp.where(stay, a, b), *x))(
            again, parents, positions
        )
        trail = trail._replace(length=trail.length - again)
    judged = judge(game, evaluate, params, key, contexts, positions, trail)

    prior_there = rows.read(tree.prior, leaf_row)
    stays = (closed | again)[:, None]
    is_tried = (jnp.arange(tree.num_actions)[None] == action[:, None]) & ~stays
    edge_prior = jnp.max(jnp.where(is_tried, prior_there, -jnp.inf), axis=1)
    # A leaf that is closed, or has no legal action, adds nothing: its writes go to rows outside
    # the tree, each its own. (Said by what was read of `prior`: else one tree would be copied.)
    grows = edge_prior >= 0
    outside = tree.num_rows + jnp.arange(tree.num_trees, dtype=jnp.int32)
    node = tree.size
    row = jnp.where(grows, tree.row(node), outside)
    parent_row = jnp.where(grows | again, leaf_row, outside + tree.num_trees)
    left = jnp.where(is_tried, -jnp.inf, prior_there)
    both = jnp.concatenate([left, judged.prior])
    both_rows = jnp.concatenate([parent_row, row])
    untried = best_untried(config, both, jnp.tile(salts, 2), jnp.concatenate([leaf, node]))
    if config.fills:
        given_up = jnp.concatenate([again, jnp.zeros_like(again)])
        untried = untried._replace(prior=jnp.where(given_up, -jnp.inf, untried.prior))
    value = jnp.where(grows | again, judged.value, rows.read(tree.value, leaf_row))
    num_children = rows.read(tree.num_children, leaf_row).astype(jnp.int32)
    depth = path.length + 1
    grown = tree.replace(
        prior=rows.write(tree.prior, both_rows, both),
        untried=rows.write(tree.untried, both_rows, untried.action),
        untried_prior=rows.write(tree.untried_prior, both_rows, untried.prior),
        children=rows.write_entry(tree.children, parent_row, num_children, node),
        num_children=rows.write(tree.num_children, parent_row, num_children + grows),
        parent=rows.write(tree.parent, row, leaf),
        action=rows.write(tree.action, row, action),
        edge_prior=rows.write(tree.edge_prior, row, edge_prior),
        value=rows.write(tree.value, row, value),
        over=rows.write(tree.over, row, judged.over),
        positions=trees.write_positions(tree, row, positions),
        size=node + grows,
    )
    below = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None] == depth[None]
    nodes = jnp.where(below & grows[None], node[None], path.nodes)
    path = backup.Path(nodes, path.length + grows)
    grown = backup.back_up(grown, path, value)
    # What is evaluated again chooses again too, and the last node of a path would not.
    path = path._replace(length=path.length + again)
    grown = choices.choose_again(grown, path, config.select, salts, config.root_select)
    return grown, ok & (judged.ok | closed)


def _again(tree: Tree, closed: jax.Array, config: SearchConfig) -> jax.Array:
    """bool[B]: the leaf is not closed, but there is no room for a node below it.

    It is evaluated again, and from then on it chooses among the children that it has: else a
    node that would rather try an action would be evaluated for ever. So its `untried_prior` says
    that there is none; its `prior` does not, from which `reuse` restores it.
    """
    return ~closed & (tree.size >= tree.capacity) if config.fills else jnp.zeros_like(closed)


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
