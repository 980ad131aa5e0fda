"""How B trees grow in lockstep: their roots, and a node more with each simulation."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero import fusion
from gozero.search import amaf, backup, choices, full_rows, noise, rows, selection
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.game import Trail
from gozero.search.judging import Judged, judge
from gozero.search.tree import NO_NODE, ROOT, Tree


def plant(
    game, evaluate, params, key, noise_key, contexts, roots, config: SearchConfig, salts
) -> tuple[Tree, jax.Array]:
    """Evaluate the roots and make trees of them, each node 0 of its own."""
    num_trees = jax.tree.leaves(roots)[0].shape[0]
    stacked = jax.tree.map(
        lambda x: jnp.broadcast_to(x[:, None], (num_trees, config.path_limit + 1, *x.shape[1:])),
        roots,
    )
    trail = Trail(stacked, jnp.zeros(num_trees, jnp.int32))
    judged = judge(game, evaluate, params, key, contexts, roots, trail)
    guesses = judged.heuristic is not None and judged.heuristic.visits is not None
    amaf_wanted = config.amaf is not None
    tree = trees.allocate(roots, game.num_actions, config.num_nodes, amaf_wanted, guesses)
    prior = judged.prior
    if config.root_temperature != 1:
        prior = jax.vmap(noise.soften, in_axes=(0, None))(prior, config.root_temperature)
    if config.dirichlet_fraction > 0:
        keys = jax.random.split(noise_key, num_trees)
        prior = jax.vmap(noise.add_dirichlet, in_axes=(0, 0, None, None))(
            keys, prior, config.dirichlet_alpha, config.dirichlet_fraction
        )
    row = tree.row(ROOT)
    tree = tree.replace(
        prior=rows.write(tree.prior, row, prior),
        visits=rows.write(tree.visits, row, jnp.ones_like(row)),
        value_sum=rows.write(tree.value_sum, row, judged.value),
        value=rows.write(tree.value, row, judged.value),
        over=rows.write(tree.over, row, judged.over),
        positions=trees.write_positions(tree, row, roots),
        size=tree.size + 1,
        **_beliefs(tree, row, judged),
    )
    if tree.in_full_rows:
        root = jnp.full((1, num_trees), ROOT, jnp.int32)
        path = backup.Path(root, jnp.zeros(num_trees, jnp.int32))
        return _choose_again(tree, path, judged, config, salts), judged.ok
    untried = _best_untried(config, prior, salts, jnp.full(num_trees, ROOT))
    tree = tree.replace(
        untried=rows.write(tree.untried, row, untried.action),
        untried_prior=rows.write(tree.untried_prior, row, untried.prior),
    )
    return tree, judged.ok


def _beliefs(tree: Tree, row: jax.Array, judged: Judged) -> dict[str, jax.Array]:
    """What new nodes at rows i32[B] begin with: the arrays of actions that are tried or not.

    Gelly & Silver (2011), Eq. 48-52. Rows are used again, so they begin with zeros at least.
    """
    heuristic, new = judged.heuristic, {}
    none = jnp.zeros(judged.prior.shape, jnp.int32)

    def put(kind, value, visits):
        visits = none if visits is None else visits.astype(jnp.int32)
        sums = none if value is None else trees.to_fixed(value) * visits
        for name, x in ((f"{kind}_visits", visits), (f"{kind}_sum", sums)):
            new[name] = rows.write(getattr(tree, name), row, x)

    if tree.guess_visits is not None:
        put("guess", heuristic.value, heuristic.visits)
    if tree.amaf_visits is not None:
        if heuristic is None:
            put("amaf", None, None)
        else:
            put("amaf", heuristic.amaf_value, heuristic.amaf_visits)
    return new


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
    game, evaluate, params, key, contexts, config: SearchConfig, salts, tree: Tree, ok
) -> tuple[Tree, jax.Array]:
    """Add each tree's new node, and back its value up.

    Where none may be added the path ends at a node that is there: it is judged again, and its
    value goes up once more.
    """
    path = _descend(tree, config)
    leaf = path.end
    leaf_row = tree.row(leaf)
    action = rows.read(tree.untried, leaf_row).astype(jnp.int32)
    trail = _read_trail(tree, path, config)

    prior_there = rows.read(tree.prior, leaf_row)
    may_grow = _may_grow(tree, path, leaf, leaf_row, config)
    is_tried = (jnp.arange(tree.num_actions)[None] == action[:, None]) & may_grow[:, None]
    edge_prior = jnp.max(jnp.where(is_tried, prior_there, -jnp.inf), axis=1)
    # What adds no node writes to rows outside the tree, each its own. (Said by what was read of
    # `prior`: else one tree would be copied.)
    grows = edge_prior >= 0
    parents = jax.vmap(_at)(trail, path.length)
    positions = jax.tree.map(
        lambda new, old: jnp.where(grows.reshape(-1, *[1] * (new.ndim - 1)), new, old),
        jax.vmap(game.play)(parents, action),
        parents,
    )
    trail = trail._replace(length=path.length + grows)
    judged = judge(game, evaluate, params, key, contexts, positions, trail)

    outside = tree.num_rows + jnp.arange(tree.num_trees, dtype=jnp.int32)
    node = tree.size
    row = jnp.where(grows, tree.row(node), outside)
    parent_row = jnp.where(grows, leaf_row, outside + tree.num_trees)
    left = jnp.where(is_tried, -jnp.inf, prior_there)
    both = jnp.concatenate([left, judged.prior])
    both_rows = jnp.concatenate([parent_row, row])
    num_children = rows.read(tree.num_children, leaf_row).astype(jnp.int32)
    grown = tree.replace(
        prior=rows.write(tree.prior, both_rows, both),
        children=rows.write_entry(tree.children, parent_row, num_children, node),
        num_children=rows.write(tree.num_children, parent_row, num_children + 1),
        action=rows.write(tree.action, row, action),
        edge_prior=rows.write(tree.edge_prior, row, edge_prior),
        value=rows.write(tree.value, row, judged.value),
        over=rows.write(tree.over, row, judged.over),
        positions=trees.write_positions(tree, row, positions),
        size=node + grows,
        **_beliefs(tree, row, judged),
    )
    if not tree.in_full_rows:
        untried = _best_untried(config, both, jnp.tile(salts, 2), jnp.concatenate([leaf, node]))
        grown = grown.replace(
            untried=rows.write(tree.untried, both_rows, untried.action),
            untried_prior=rows.write(tree.untried_prior, both_rows, untried.prior),
        )
    length = path.length + 1
    below = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None] == length[None]
    nodes = jnp.where(below & grows[None], node[None], path.nodes)
    path = backup.Path(nodes, path.length + grows)
    grown = backup.back_up(grown, path, judged.value)
    return _choose_again(grown, path, judged, config, salts), ok & judged.ok


def _may_grow(tree: Tree, path, leaf, leaf_row, config: SearchConfig) -> jax.Array:
    """bool[B]: there is room for a node below the leaf, if it has an action left."""
    may = ~rows.read(tree.over, leaf_row) & (path.length < config.path_limit)
    if config.num_nodes <= config.num_simulations:
        may &= tree.size < tree.capacity
    if config.expand_after > 1:
        visits = rows.read(tree.visits, leaf_row)
        may &= (visits >= config.expand_after) | (leaf == ROOT)
    return may


def _choose_again(
    tree: Tree, path: backup.Path, judged: Judged, config: SearchConfig, salts: jax.Array
) -> Tree:
    """Credit the actions that the simulations played, and choose again along the paths."""
    if not tree.in_full_rows:
        return choices.choose_again(tree, path, config.select, salts, config.root_select)
    credit = None
    if config.amaf is not None:
        first_play = judged.first_play
        if first_play is None:  # no playout: the moves in the tree count
            first_play = jnp.zeros((tree.num_trees, 2, tree.num_actions), bool)
        counted = amaf.counted(tree, path, first_play, config.amaf)
        credit = full_rows.Credit(counted, judged.value)
    return full_rows.choose_again(tree, path, config.select, salts, credit)


def _read_trail(tree: Tree, path: backup.Path, config: SearchConfig) -> Trail:
    """The positions on the paths, their ends among them, as the new nodes' ancestors.

    This is the step's only read of positions. The parent is taken from it and not from the
    tree, so that what is written depends on all that was read and the write stays in place.
    """
    nodes = jnp.maximum(path.nodes[: config.path_limit + 1], ROOT).T
    return Trail(trees.read_positions(tree, tree.row(0)[:, None] + nodes), path.length + 1)


def _at(trail: Trail, level: jax.Array) -> Any:
    """One ancestor of one trail."""
    return jax.tree.map(lambda x: x[level], trail.positions)
