"""The roots: judged, and planted as the first nodes of their trees."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gozero.search import amaf, backup, full_rows, growth, noise, root, rows, worth
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.game import Trail
from gozero.search.judging import Judged, judge
from gozero.search.noise import Draws
from gozero.search.tree import ROOT, Tree


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
        prior = jax.vmap(noise.soften, in_axes=(0, None))(prior, config.root_temperature)
    if config.dirichlet_fraction > 0:
        alpha = config.dirichlet_alpha or noise.board_alpha(prior.shape[1])
        keys = jax.random.split(noise_key, num_trees)
        prior = jax.vmap(noise.add_dirichlet, in_axes=(0, 0, None, None))(
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
        **growth.beliefs(tree, row, judged),
    )
    tree = worth.back_up(tree, alone(tree), judged.proven, config)
    if tree.in_full_rows:
        tree = tree.replace(untried_prior=growth.open_to_try(tree, row))
        credit = None
        if config.amaf is not None:
            mine = growth.first_play(judged)[:, 0]
            credit = full_rows.Credit(amaf.pack(mine)[None], judged.value)
        tree = full_rows.choose_again(tree, alone(tree), config.select, draws.salts, credit)
    else:
        nodes = jnp.full(tree.num_trees, ROOT)
        untried = growth.best_untried(config, judged.prior, draws.salts, nodes)
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
    return growth.choose_at(tree, path.nodes, path.length + 1, config, draws)


def alone(tree: Tree) -> backup.Path:
    """Paths that begin and end at the roots."""
    nodes = jnp.full((1, tree.num_trees), ROOT, jnp.int32)
    return backup.Path(nodes, jnp.zeros(tree.num_trees, jnp.int32))
