"""Several leaves of each tree per step, evaluated together.

Each descent leaves a virtual loss on its path, so that the next one goes elsewhere: simulations
that the player who chose the path has lost (Chaslot et al. 2008; Silver et al. 2016, n_vl = 3).
The evaluations then replace the virtual losses. A descent that reaches a node added by another one
of the same step ends there, and that node is evaluated twice.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.search import backup, choose, dense, expand, rows, select
from gozero.search import tree as trees
from gozero.search.choose import Draws
from gozero.search.config import SearchConfig
from gozero.search.evaluate import evaluate_positions, with_utility
from gozero.search.game import Evaluator, History
from gozero.search.tree import NO_NODE, Path, Tree


class _LeafPaths(NamedTuple):
    """K leaves of each tree."""

    nodes: jax.Array  # i32[K, D + 1, B]: the paths
    length: jax.Array  # i32[K, B]
    grows: jax.Array  # bool[K, B]: whether the last node of the path was added for this leaf
    tree_full: jax.Array  # bool[K, B]: whether none was added because the tree is full

    def path(self, k: jax.Array) -> Path:
        return Path(self.nodes[k], self.length[k])


def simulate(
    game: History,
    evaluator: Evaluator,
    key,
    contexts,
    config: SearchConfig,
    draws: Draws,
    tree: Tree,
    ok: jax.Array,
) -> tuple[Tree, jax.Array]:
    """Find `config.leaves` leaves of each tree, evaluate all together, and back up their values."""
    tree, leaf_paths = _find_leaves(game, config, draws, tree)
    count, num_levels, num_trees = leaf_paths.nodes.shape
    # Leaf k of tree b has index b * K + k, so its random draws do not depend on the batch.
    repeated = lambda x: jnp.repeat(x, count, axis=0)
    by_tree = lambda x: jnp.swapaxes(x, 0, 1).reshape(-1)
    nodes = jnp.transpose(leaf_paths.nodes, (1, 2, 0)).reshape(num_levels, -1)
    paths = Path(nodes, by_tree(leaf_paths.length))
    first_rows = repeated(tree.row(0))
    ancestors, positions = expand.read_ancestors(game, tree, paths, config, first_rows)
    row = first_rows + paths.end
    contexts = jax.tree.map(repeated, contexts)
    evaluated = evaluate_positions(
        game, evaluator, key, contexts, positions, ancestors, config.counts_left
    )
    utility, center = config.score_utility, jax.tree.map(repeated, draws.score_center)
    evaluated = with_utility(evaluated, utility, center, ancestors.length)
    grows = by_tree(leaf_paths.grows)
    outside = tree.num_rows + jnp.arange(row.size, dtype=jnp.int32)
    tree = expand.write_evaluated(
        tree,
        jnp.where(grows, row, outside),
        paths.end,
        evaluated,
        config.rule,
        repeated(draws.tie_seeds),
    )

    split = lambda x: jnp.swapaxes(x.reshape(num_trees, count, *x.shape[1:]), 0, 1)
    by_leaf = jax.tree.map(split, evaluated)

    def back_up(k, tree):
        path, evaluation = leaf_paths.path(k), jax.tree.map(lambda x: x[k], by_leaf)
        tree = backup.add_virtual_losses(tree, path, -config.virtual_loss, utility)
        row = tree.row(path.end)
        tree = backup.back_up(
            tree, path, backup.of_end(tree, row, evaluation.value), evaluation.utility
        )
        end_proven = backup.proven_by_game(tree, row, evaluation.proven, leaf_paths.grows[k])
        tree = backup.back_up_values(tree, path, end_proven, config.backup)
        return expand.choose_again(tree, path, evaluation, config, draws, leaf_paths.tree_full[k])

    return lax.fori_loop(0, count, back_up, tree), ok & jnp.all(by_leaf.ok, axis=0)


def _find_leaves(game, config: SearchConfig, draws: Draws, tree: Tree) -> tuple[Tree, _LeafPaths]:
    """Add the new nodes without evaluations or children, with virtual losses on their paths."""
    num_levels = select.num_levels(config)

    def add_one(k, carry):
        tree, leaf_paths = carry
        leaf = select.find_leaf(tree, config, draws.tie_seeds)
        positions = expand.positions_to_evaluate(game, trees.read_positions(tree, leaf.row), leaf)
        parent_row, row = leaf.new_rows(tree)
        path = leaf.longer_path(tree.size)
        grown = tree.replace(
            prior=rows.write(tree.prior, parent_row, leaf.other_priors),
            positions=trees.write_positions(tree, row, positions),
            size=tree.size + leaf.grows,
            **expand.new_edge(tree, leaf, parent_row, row),
        )
        if tree.is_dense:
            grown = dense.open_rows(grown, row)
        else:
            untried = config.rule, draws.tie_seeds, leaf.path.end, leaf.tree_full
            grown = choose.write_untried(grown, parent_row, leaf.other_priors, *untried)
        grown = backup.add_virtual_losses(grown, path, config.virtual_loss, config.score_utility)
        grown = expand.choose_again(grown, path, None, config, draws, leaf.tree_full)
        leaf_path = _LeafPaths(path.nodes, path.length, leaf.grows, leaf.tree_full)
        write = functools.partial(lax.dynamic_update_index_in_dim, index=k, axis=0)
        return grown, jax.tree.map(write, leaf_paths, leaf_path)

    count = config.leaves
    blank = _LeafPaths(
        nodes=jnp.full((count, num_levels, tree.num_trees), NO_NODE, jnp.int32),
        length=jnp.zeros((count, tree.num_trees), jnp.int32),
        grows=jnp.zeros((count, tree.num_trees), bool),
        tree_full=jnp.zeros((count, tree.num_trees), bool),
    )
    return lax.fori_loop(0, count, add_one, (tree, blank))
