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
    tree, found = _find(game, config, draws, tree)
    count, num_levels, num_trees = found.nodes.shape
    # Leaf k of tree b has index b * K + k, so its random draws do not depend on the batch.
    many = lambda x: jnp.repeat(x, count, axis=0)
    by_tree = lambda x: jnp.swapaxes(x, 0, 1).reshape(-1)
    nodes = jnp.transpose(found.nodes, (1, 2, 0)).reshape(num_levels, -1)
    paths = Path(nodes, by_tree(found.length))
    first_rows = many(tree.row(0))
    trail, positions = expand.read_trail(game, tree, paths, config, first_rows)
    row = first_rows + paths.end
    evaluated = evaluate_positions(
        game, evaluator, key, jax.tree.map(many, contexts), positions, trail
    )
    utility, center = config.score_utility, jax.tree.map(many, draws.score_center)
    evaluated = with_utility(evaluated, utility, center, trail.length)
    grows = by_tree(found.grows)
    outside = tree.num_rows + jnp.arange(row.size, dtype=jnp.int32)
    tree = expand.write_evaluated(
        tree,
        jnp.where(grows, row, outside),
        paths.end,
        evaluated,
        config.select,
        many(draws.tie_seeds),
    )

    split = lambda x: jnp.swapaxes(x.reshape(num_trees, count, *x.shape[1:]), 0, 1)
    by_leaf = jax.tree.map(split, evaluated)

    def back_up(k, tree):
        path, one = found.path(k), jax.tree.map(lambda x: x[k], by_leaf)
        tree = backup.lose(tree, path, -config.virtual_loss, utility)
        row = tree.row(path.end)
        tree = backup.back_up(tree, path, backup.of_end(tree, row, one.value), one.utility)
        end_proven = backup.proven_by_game(tree, row, one.proven, found.grows[k])
        tree = backup.back_up_values(tree, path, end_proven, config.backup)
        return expand.choose_again(tree, path, one, config, draws, found.tree_full[k])

    return lax.fori_loop(0, count, back_up, tree), ok & jnp.all(by_leaf.ok, axis=0)


def _find(game, config: SearchConfig, draws: Draws, tree: Tree) -> tuple[Tree, _LeafPaths]:
    """Add the new nodes without evaluations or children, with virtual losses on their paths."""
    num_levels = select.num_levels(config)

    def one_more(k, carry):
        tree, found = carry
        leaf = select.find_leaf(tree, config, draws.tie_seeds)
        positions = expand.played(game, trees.read_positions(tree, leaf.row), leaf)
        parent_row, row = leaf.new_rows(tree)
        path = leaf.longer_path(tree.size)
        grown = tree.replace(
            prior=rows.write(tree.prior, parent_row, leaf.left),
            positions=trees.write_positions(tree, row, positions),
            size=tree.size + leaf.grows,
            **expand.new_edge(tree, leaf, parent_row, row),
        )
        if tree.is_dense:
            grown = dense.open_rows(grown, row)
        else:
            untried = config.select, draws.tie_seeds, leaf.path.end, leaf.tree_full
            grown = choose.write_untried(grown, parent_row, leaf.left, *untried)
        grown = backup.lose(grown, path, config.virtual_loss, config.score_utility)
        grown = expand.choose_again(grown, path, None, config, draws, leaf.tree_full)
        here = _LeafPaths(path.nodes, path.length, leaf.grows, leaf.tree_full)
        put = functools.partial(lax.dynamic_update_index_in_dim, index=k, axis=0)
        return grown, jax.tree.map(put, found, here)

    count = config.leaves
    blank = _LeafPaths(
        nodes=jnp.full((count, num_levels, tree.num_trees), NO_NODE, jnp.int32),
        length=jnp.zeros((count, tree.num_trees), jnp.int32),
        grows=jnp.zeros((count, tree.num_trees), bool),
        tree_full=jnp.zeros((count, tree.num_trees), bool),
    )
    return lax.fori_loop(0, count, one_more, (tree, blank))
