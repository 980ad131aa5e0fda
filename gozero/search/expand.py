"""Expansion of B trees in lockstep: the roots first, then a node with each simulation."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gozero.search import backup, choose, dense, prior_counts, root, rows
from gozero.search import tree as trees
from gozero.search.choose import Draws
from gozero.search.config import SearchConfig
from gozero.search.edges import best_edge, rank_untried, tie_break
from gozero.search.evaluate import Judged, judge
from gozero.search.game import Trail
from gozero.search.select import Leaf, find_leaf, played, read_trail
from gozero.search.tree import ROOT, Tree


class Untried(NamedTuple):
    """The best action of a node that has no child."""

    action: jax.Array  # i32[B]
    prior: jax.Array  # f32[B]: -inf if there is none

    def given_up(self, gives_up: jax.Array) -> Untried:
        """None, where bool[B]."""
        return self._replace(prior=jnp.where(gives_up, -jnp.inf, self.prior))


def best_untried(
    config: SearchConfig, prior: jax.Array, salts: jax.Array, nodes: jax.Array
) -> Untried:
    """Of actions with the priors f32[B, A] the rule's first, at random among equals."""
    rank = jax.vmap(lambda prior: rank_untried(config.select, prior))(prior)
    actions = jnp.arange(prior.shape[1])
    priority = jax.vmap(tie_break, in_axes=(0, 0, None))(salts, nodes, actions)
    action = jax.vmap(best_edge)(rank, priority)
    is_it = actions[None] == action[:, None]
    return Untried(action, jnp.max(jnp.where(is_it, prior, -jnp.inf), axis=1))


def grow(
    game, evaluate, params, key, contexts, config: SearchConfig, draws: Draws, tree: Tree, ok
) -> tuple[Tree, jax.Array]:
    """Add each tree's new node, and back its value up.

    Where none may be added the path ends at a node that is there: it is judged again, and its
    value goes up once more.
    """
    leaf = find_leaf(tree, config, draws.salts)
    trail, parents = read_trail(tree, leaf.path, config)
    positions = played(game, parents, leaf)
    trail = trail._replace(length=leaf.path.length + leaf.grows)
    judged = judge(game, evaluate, params, key, contexts, positions, trail)
    return add_leaf(tree, leaf, positions, judged, config, draws), ok & judged.ok


def add_leaf(
    tree: Tree,
    leaf: Leaf,
    positions: Any,
    judged: Judged,
    config: SearchConfig,
    draws: Draws,
    counts: jax.Array | None = None,
) -> Tree:
    """Write the nodes of the leaves at positions [B], and back their values up.

    Args:
      tree, leaf, positions, judged: what was found, and what it was judged to be.
      config, draws: of the search.
      counts: bool[B]: a tree's simulation counts; else nothing goes up. None: all do.
    """
    parent_row, row = leaf.new_rows(tree)
    path = leaf.longer_path(tree.size)
    others = []
    if leaf.grandfather is not None and config.grandfather is not None:
        others.append(leaf.grandfather.believed(config.grandfather, judged.prior >= 0))
    both, both_rows = jnp.concatenate([leaf.left, judged.prior]), jnp.concatenate([parent_row, row])
    grown = tree.replace(
        prior=rows.write(tree.prior, both_rows, both),
        value=rows.write(tree.value, row, judged.value),
        over=rows.write(tree.over, row, judged.over),
        positions=trees.write_positions(tree, row, positions),
        size=tree.size + leaf.grows,
        **new_edge(tree, leaf, parent_row, row),
        **prior_counts.prior_counts(tree, row, judged, *others),
    )
    if tree.in_full_rows:
        grown = grown.replace(untried_prior=open_to_try(tree, row))
    else:
        nodes = jnp.concatenate([leaf.path.end, tree.size])
        untried = best_untried(config, both, jnp.tile(draws.salts, 2), nodes)
        gives_up = jnp.concatenate([leaf.gives_up, jnp.zeros_like(leaf.gives_up)])
        untried = untried.given_up(gives_up)
        grown = grown.replace(
            untried=rows.write(tree.untried, both_rows, untried.action),
            untried_prior=rows.write(tree.untried_prior, both_rows, untried.prior),
        )
    # (What was proven is read before anything is written.)
    value = backup.of_end(tree, leaf.row, judged.value)
    end_proven = backup.proven_by_game(tree, leaf.row, judged.proven, leaf.grows)
    counted = path
    if counts is not None:
        counted = path._replace(length=jnp.where(counts, path.length, -1))
    grown = backup.back_up(grown, counted, value)
    grown = backup.back_up_worth(grown, path, end_proven, config)
    return choose_again(grown, path, judged, config, draws, leaf.gives_up)


def open_to_try(tree: Tree, row: jax.Array) -> jax.Array:
    """`untried_prior` where new nodes at rows i32[B] have not given up; see `dense`."""
    return rows.write(tree.untried_prior, row, jnp.zeros(row.shape))


def new_edge(tree: Tree, leaf: Leaf, parent_row: jax.Array, row: jax.Array) -> dict[str, jax.Array]:
    """The arrays that join a new node to its parent."""
    num_children = rows.read(tree.num_children, leaf.row).astype(jnp.int32)
    return {
        "children": rows.write_entry(tree.children, parent_row, num_children, tree.size),
        "num_children": rows.write(tree.num_children, parent_row, num_children + leaf.grows),
        "parent": rows.write(tree.parent, row, leaf.path.end),
        "action": rows.write(tree.action, row, leaf.action),
        "edge_prior": rows.write(tree.edge_prior, row, leaf.edge_prior),
    }


def choose_again(
    tree: Tree,
    path: trees.Path,
    judged: Judged | None,
    config: SearchConfig,
    draws: Draws,
    gives_up: jax.Array,
) -> Tree:
    """Choose again along the paths; with a judgement, credit the actions of the simulations."""
    own_root = config.root_select is not None
    if not tree.in_full_rows:
        if own_root:
            # Before the other nodes: what it writes they read, and it reads nothing they write.
            tree = root.choose(tree, root.actions(tree), config, draws)
        # What gives up chooses among its children; else the last node of a path has none.
        path = path._replace(length=path.length + gives_up)
        return choose.choose_again(tree, path, config.select, draws.salts, int(own_root))
    credit = None
    if config.amaf is not None and judged is not None:
        counted = backup.amaf_counted(tree, path, first_play(judged), config.amaf)
        credit = dense.Credit(counted, judged.value)
    given_up = gives_up if config.fills else None
    tree = dense.choose_again(tree, path, config.select, draws.salts, credit, given_up)
    return root.choose(tree, root.actions(tree), config, draws) if own_root else tree


def choose_at(
    tree: Tree, nodes: jax.Array, count: jax.Array, config: SearchConfig, draws: Draws
) -> Tree:
    """Choose again at some nodes of each tree, and credit nothing.

    Args:
      tree: the trees.
      nodes: i32[L, B], none twice; a root comes first.
      count: i32[B]: so many of them.
      config, draws: of the search.
    """
    # Full rows are chosen at to the end of a path, others up to there.
    path = trees.Path(nodes, count - 1 if tree.in_full_rows else count)
    no_one = jnp.zeros(tree.num_trees, bool)
    return choose_again(tree, path, None, config, draws, no_one)


def first_play(judged: Judged) -> jax.Array:
    """bool[B, 2, A]: what the playouts played; nothing if there were none, or the game was over."""
    if judged.first_play is not None:
        return judged.first_play & ~judged.over[:, None, None]
    num_trees, num_actions = judged.prior.shape
    return jnp.zeros((num_trees, 2, num_actions), bool)


def judge_roots(
    game, evaluate, params, key, noise_key, contexts, roots, config: SearchConfig
) -> Judged:
    """Judge the roots; the priors are softened and noisy."""
    num_trees = jax.tree.leaves(roots)[0].shape[0]
    stacked = jax.tree.map(
        lambda x: jnp.broadcast_to(x[:, None], (num_trees, config.path_limit, *x.shape[1:])),
        roots,
    )
    trail = Trail(stacked, jnp.zeros(num_trees, jnp.int32))
    judged = judge(game, evaluate, params, key, contexts, roots, trail)
    prior = judged.prior
    if config.root_temperature != 1:
        prior = jax.vmap(root.soften, in_axes=(0, None))(prior, config.root_temperature)
    if config.dirichlet_fraction > 0:
        alpha = config.dirichlet_alpha or root.board_alpha(prior.shape[1])
        keys = jax.random.split(noise_key, num_trees)
        prior = jax.vmap(root.add_dirichlet, in_axes=(0, 0, None, None))(
            keys, prior, alpha, config.dirichlet_fraction
        )
    return judged._replace(prior=prior)


def plant(tree: Tree, judged: Judged, roots, config: SearchConfig, draws: Draws) -> Tree:
    """Write the roots as node 0 of each tree, which is empty."""
    row = tree.row(ROOT)
    tree = tree.replace(
        prior=rows.write(tree.prior, row, judged.prior),
        visits=rows.write(tree.visits, row, jnp.ones_like(row)),
        value_sum=rows.write(tree.value_sum, row, judged.value),
        value=rows.write(tree.value, row, judged.value),
        over=rows.write(tree.over, row, judged.over),
        positions=trees.write_positions(tree, row, roots),
        size=tree.size + 1,
        **prior_counts.prior_counts(tree, row, judged),
    )
    tree = backup.back_up_worth(tree, alone(tree), judged.proven, config)
    if tree.in_full_rows:
        tree = tree.replace(untried_prior=open_to_try(tree, row))
        credit = None
        if config.amaf is not None:
            mine = first_play(judged)[:, 0]
            credit = dense.Credit(rows.pack(mine)[None], judged.value)
        tree = dense.choose_again(tree, alone(tree), config.select, draws.salts, credit)
    else:
        nodes = jnp.full(tree.num_trees, ROOT)
        untried = best_untried(config, judged.prior, draws.salts, nodes)
        tree = tree.replace(
            untried=rows.write(tree.untried, row, untried.action),
            untried_prior=rows.write(tree.untried_prior, row, untried.prior),
        )
    if config.root_select is not None:
        tree = root.choose(tree, trees.by_action(tree, ROOT, 0), config, draws)
    return tree


def choose_at_roots(tree: Tree, config: SearchConfig, draws: Draws) -> Tree:
    """Choose at roots that have children already, and credit nothing."""
    path = alone(tree)
    return choose_at(tree, path.nodes, path.length + 1, config, draws)


def alone(tree: Tree) -> trees.Path:
    """Paths that begin and end at the roots."""
    nodes = jnp.full((1, tree.num_trees), ROOT, jnp.int32)
    return trees.Path(nodes, jnp.zeros(tree.num_trees, jnp.int32))
