"""Expansion: add a node to each tree, back up its value, and choose again along its path."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from gozero.compile import mode
from gozero.search import backup, choose, dense, in_kernel, root, rows
from gozero.search import tree as trees
from gozero.search.choose import Draws
from gozero.search.config import SearchConfig
from gozero.search.evaluate import Evaluated
from gozero.search.game import Ancestors, History, where_games
from gozero.search.prior_counts import evaluation_fields
from gozero.search.select import Leaf
from gozero.search.tree import ROOT, Path, Tree


def new_positions(
    game: History, tree: Tree, leaf: Leaf, config: SearchConfig
) -> tuple[Ancestors, Any]:
    """(the ancestors of the positions to evaluate, these positions [B]), one for each tree."""
    ancestors, parents = read_ancestors(game, tree, leaf.path, config)
    positions = positions_to_evaluate(game, parents, leaf)
    return ancestors._replace(length=leaf.path.length + leaf.grows), positions


def positions_to_evaluate(game, parents: Any, leaf: Leaf) -> Any:
    """The positions to evaluate: those of the new nodes, or of the leaves where none is added."""
    return where_games(leaf.grows, jax.vmap(game.play)(parents, leaf.action), parents)


def read_ancestors(
    game: History,
    tree: Tree,
    path: Path,
    config: SearchConfig,
    first_rows: jax.Array | None = None,
) -> tuple[Ancestors, Any]:
    """(the ancestors of the ends of M paths, the positions at these ends).

    `first_rows`, i32[M], are the rows of the roots of the paths' trees; None: one path per tree.

    With one leaf per step, this is the step's only read of positions. The ends are taken from its
    result and not from the tree, so that the later write depends on everything that was read, and
    XLA can do it in place.
    """
    first_rows = tree.row(0) if first_rows is None else first_rows
    if not game.sees_ancestors:
        ends = trees.read_positions(tree, first_rows + path.end)
        repeated = lambda x: jnp.broadcast_to(x[:, None], (len(x), config.path_limit, *x.shape[1:]))
        return Ancestors(jax.tree.map(repeated, ends), path.length), ends
    nodes = jnp.maximum(path.nodes[: config.path_limit + 1], ROOT).T
    positions = trees.read_positions(tree, first_rows[:, None] + nodes, jnp.max(path.length) + 1)
    ends = jax.tree.map(lambda x: jax.vmap(lambda x, i: x[i])(x, path.length), positions)
    ancestors = jax.tree.map(lambda x: x[:, : config.path_limit], positions)
    return Ancestors(ancestors, path.length), ends


def add_leaf(
    tree: Tree,
    leaf: Leaf,
    positions: Any,
    evaluated: Evaluated,
    config: SearchConfig,
    draws: Draws,
    counts: jax.Array | None = None,
) -> Tree:
    """Add the leaves' new nodes with positions [B], and back up their values.

    Args:
      tree, leaf, positions, evaluated: the trees, their leaves, and the leaves' evaluations.
      config, draws: of the search.
      counts: bool[B]: whether the tree's simulation counts; if not, no value is backed up. None:
        all count.
    """
    positions = positions if evaluated.positions is None else evaluated.positions
    by_stage = functools.partial(_add_by_stage, config, counts)
    args = tree, leaf, positions, evaluated, draws
    is_plain = counts is None and leaf.grandfather is None and evaluated.heuristic is None
    is_plain &= config.amaf is None or not config.amaf.legal_only
    if not (is_plain and in_kernel.fits(tree, config.rule)):
        return by_stage(*args)
    return mode.by_platform(*args, cuda=functools.partial(_add_in_kernel, config), default=by_stage)


def _add_in_kernel(
    config: SearchConfig, tree: Tree, leaf: Leaf, positions: Any, evaluated: Evaluated, draws: Draws
) -> Tree:
    """`add_leaf` in one kernel on a GPU: see `in_kernel`."""
    leaves = in_kernel.leaves_of(positions)
    new = in_kernel.NewNodes(leaves, evaluated.prior, evaluated.over, leaf.grows, leaf.action)
    root_inputs = in_kernel.root_inputs(config, draws.gumbel)
    update = in_kernel.Update(
        leaf.path,
        draws.tie_seeds,
        new,
        evaluated.value,
        in_kernel.credited_plays(evaluated, config),
        leaf.tree_full if config.fills else None,
        root_inputs,
    )
    has_root_rule = config.root_select is not None and root_inputs is None
    grown = in_kernel.run(tree, update, in_kernel.settings_of(config))
    if has_root_rule:
        grown = root.choose_at_roots(grown, root.actions(grown), config, draws)
    return grown


def _add_by_stage(
    config: SearchConfig,
    counts: jax.Array | None,
    tree: Tree,
    leaf: Leaf,
    positions: Any,
    evaluated: Evaluated,
    draws: Draws,
) -> Tree:
    path = leaf.longer_path(tree.size)
    grown = _add_node(tree, leaf, positions, evaluated, config, draws)
    # (Proofs are read from the tree before anything is written.)
    value = backup.of_end(tree, leaf.row, evaluated.value)
    end_proven = backup.proven_by_game(tree, leaf.row, evaluated.proven, leaf.grows)
    counted = path
    if counts is not None:
        counted = path._replace(length=jnp.where(counts, path.length, -1))
    grown = backup.back_up(grown, counted, value, evaluated.utility)
    grown = backup.back_up_values(grown, path, end_proven, config.backup)
    return choose_again(grown, path, evaluated, config, draws, leaf.tree_full)


def _add_node(
    tree: Tree, leaf: Leaf, positions: Any, evaluated: Evaluated, config: SearchConfig, draws: Draws
) -> Tree:
    """The trees with the leaves' new nodes; each array is written once."""
    parent_row, row = leaf.new_rows(tree)
    heuristics = []
    if leaf.grandfather is not None and config.grandfather is not None:
        counts = config.grandfather.visits, config.grandfather.amaf_visits
        heuristics.append(leaf.grandfather.heuristic(*counts, legal=evaluated.prior >= 0))
    priors = jnp.concatenate([leaf.other_priors, evaluated.prior])
    prior_rows = jnp.concatenate([parent_row, row])
    grown = tree.replace(
        prior=rows.write(tree.prior, prior_rows, priors),
        positions=trees.write_positions(tree, row, positions),
        size=tree.size + leaf.grows,
        **new_edge(tree, leaf, parent_row, row),
        **evaluation_fields(tree, row, evaluated, *heuristics),
    )
    if tree.is_dense:
        return dense.open_rows(grown, row)
    nodes = jnp.concatenate([leaf.path.end, tree.size])
    seeds = jnp.tile(draws.tie_seeds, 2)
    tree_full = jnp.concatenate([leaf.tree_full, jnp.zeros_like(leaf.tree_full)])
    return choose.write_untried(grown, prior_rows, priors, config.rule, seeds, nodes, tree_full)


def new_edge(tree: Tree, leaf: Leaf, parent_row: jax.Array, row: jax.Array) -> dict[str, jax.Array]:
    """The arrays that link a new node and its parent, with the link written."""
    num_children = rows.read(tree.num_children, leaf.row).astype(jnp.int32)
    return {
        "children": rows.write_entry(tree.children, parent_row, num_children, tree.size),
        "num_children": rows.write(tree.num_children, parent_row, num_children + leaf.grows),
        "parent": rows.write(tree.parent, row, leaf.path.end),
        "action": rows.write(tree.action, row, leaf.action),
        "edge_prior": rows.write(tree.edge_prior, row, leaf.edge_prior),
    }


def write_evaluated(
    tree: Tree, row: jax.Array, node: jax.Array, evaluated: Evaluated, select, tie_seeds: jax.Array
) -> Tree:
    """Write the evaluations of new nodes at rows i32[B K]; rows outside the tree are dropped."""
    written = tree.replace(
        prior=rows.write(tree.prior, row, evaluated.prior),
        **evaluation_fields(tree, row, evaluated),
    )
    if evaluated.positions is not None:
        positions = trees.write_positions(tree, row, evaluated.positions)
        written = written.replace(positions=positions)
    if tree.is_dense:  # a blank `untried_prior` would mean a full tree
        return dense.open_rows(written, row)
    return choose.write_untried(written, row, evaluated.prior, select, tie_seeds, node)


def choose_again(
    tree: Tree,
    path: Path,
    evaluated: Evaluated | None,
    config: SearchConfig,
    draws: Draws,
    tree_full: jax.Array,
) -> Tree:
    """Choose again along the paths; if `evaluated` is given, credit the simulations' actions."""
    has_root_rule = config.root_select is not None
    if not tree.is_dense:
        if has_root_rule:
            # Before the other nodes, which read what it writes; it reads nothing that they write.
            tree = root.choose_at_roots(tree, root.actions(tree), config, draws)
        # In a full tree the last node of a path chooses among its children; else it has none.
        path = path._replace(length=path.length + tree_full)
        return choose.choose_again(tree, path, config.rule, draws.tie_seeds, int(has_root_rule))
    credit = None
    if config.amaf is not None and evaluated is not None:
        counted = backup.amaf_counted(tree, path, evaluated.credited, config.amaf.first)
        credit = dense.Credit(counted, evaluated.value, config.amaf.legal_only)
    is_full = tree_full if config.fills else None
    tree = dense.choose_again(tree, path, config.rule, draws.tie_seeds, credit, is_full)
    return root.choose_at_roots(tree, root.actions(tree), config, draws) if has_root_rule else tree


def choose_at(
    tree: Tree, nodes: jax.Array, count: jax.Array, config: SearchConfig, draws: Draws
) -> Tree:
    """Choose again at some nodes of each tree, without crediting any actions.

    Args:
      tree: the trees.
      nodes: i32[L, B], without duplicates; the root comes first.
      count: i32[B]: how many of each tree's nodes to use.
      config, draws: of the search.
    """
    # Dense selection chooses at all nodes of a path, cached selection at all but the last.
    path = Path(nodes, count - 1 if tree.is_dense else count)
    not_full = jnp.zeros(tree.num_trees, bool)
    return choose_again(tree, path, None, config, draws, not_full)


def choose_again_at_roots(tree: Tree, config: SearchConfig, draws: Draws) -> Tree:
    """Choose again at the roots of trees that have children, without crediting any actions."""
    path = root.root_path(tree)
    return choose_at(tree, path.nodes, path.length + 1, config, draws)
