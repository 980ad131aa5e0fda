"""Comparing batched searches with the plain one, and a tree's arrays with plain nodes."""

from __future__ import annotations

import functools

import jax
import numpy as np

from gozero.search import transpositions, values
from gozero.search import tree as trees
from gozero.search.tree import NO_NODE
from tests import priors
from tests.hlo import AS_USERS_FUSE, moves_in_loops
from tests.reference import mcts
from tests.search import random_tree


def compare_searches(run, codes, key, config, plain, rule, root_rules=None, **settings):
    """Compare a batched search of hashed games with a plain search of each, node by node.

    Args:
      run: (codes, key) -> SearchResult.
      codes: u32[B]; the roots.
      config: the batched search's settings.
      plain: the plain game, `random_tree.Plain` or one like it.
      rule, settings: those of the plain search.
      root_rules: its rule at each root, where that differs.

    Returns:
      The result, and each plain tree's nodes.
    """
    result = jax.tree.map(np.asarray, run(codes, key))
    forest = plain_searches(codes, key, config, plain, rule, root_rules, **settings)
    for b, nodes in enumerate(forest):
        compare_trees(result.tree, b, nodes)
        np.testing.assert_array_equal(result.visits[b], nodes[0].visits)
    assert result.ok.all()
    return result, forest


def plain_searches(codes, key, config, plain, rule, root_rules=None, **settings):
    """The nodes of a plain search of each root, with the arguments of `compare_searches`."""
    return [
        mcts.search(
            int(code),
            plain.play,
            plain.evaluate,
            config.num_simulations,
            config.max_depth,
            rule,
            int(tie_seed),
            root_rules[b] if root_rules else None,
            **settings,
        )
        for b, (code, tie_seed) in enumerate(zip(codes, tie_seeds(key, len(codes)), strict=True))
    ]


def compare_with_and_without(name, evaluate, codes, key, config, rule, root_rules=None, **settings):
    """Compare searches of `random_tree.GAME` with plain ones, and check invariant 2.

    Some tree must differ from the plain one without the setting `name`, one of `settings`; the
    other arguments are as in `compare_searches`. Returns each plain tree's nodes.
    """
    run = random_tree.compiled_search(evaluate, config, len(codes), options=AS_USERS_FUSE)
    assert moves_in_loops(run.as_text(), len(codes) * config.num_nodes) == []  # invariant 2
    arguments = random_tree.Plain(evaluate), rule, root_rules
    _, forest = compare_searches(run, codes, key, config, *arguments, **settings)
    del settings[name]
    without = plain_searches(codes, key, config, *arguments, **settings)
    states = lambda nodes: [node.state for node in nodes]
    assert any(states(one) != states(other) for one, other in zip(forest, without, strict=True))
    return forest


def tie_seeds(key, num_trees):
    """u32[B]: the tie seeds of a search with this key."""
    return np.asarray(jax.random.bits(jax.random.split(key, 4)[2], (num_trees,), np.uint32))


def known(config, seen):
    """An empty `Known` for a plain search, with the keys of the batched one.

    `seen` maps a state to the (position [1], observation [1]) that the batched search sees.
    """
    keys = _keys_of(config.sharing)
    key_of = functools.cache(lambda state: tuple(keys(seen(state)).tolist()))
    return mcts.Known(key_of, trees.num_slots(config.num_nodes))


@functools.cache
def _keys_of(sharing):
    return jax.jit(lambda x: transpositions.keys(sharing, None, x[0], None, x[1])[0])


def compare_trees(tree, b, nodes):
    """Compare tree b of a batch with the plain search's nodes: every number of every node."""
    tree = jax.tree.map(np.asarray, tree)  # otherwise every slice would be compiled
    rows = slice(b * tree.capacity, b * tree.capacity + len(nodes))
    assert int(tree.size[b]) == len(nodes)
    # A node is evaluated more than once where no child could be added.
    value_sums = [n.own_sum + n.value_sum.sum() + n.other_sum for n in nodes]
    visits = [n.num_visits() for n in nodes]
    np.testing.assert_array_equal(tree.visits[rows], visits)
    np.testing.assert_array_equal(values.to_int64(tree.value_sum)[rows], value_sums)
    np.testing.assert_array_equal(tree.value[rows], [n.value for n in nodes])
    np.testing.assert_array_equal(tree.over[rows], [n.over for n in nodes])
    children, action = tree.children[rows], tree.action[rows]
    num_children, parent = tree.num_children[rows], tree.parent[rows]
    assert parent[0] == NO_NODE
    for i, node in enumerate(nodes):
        result = children[i, : num_children[i]]
        assert {action[c]: c for c in result} == {a: n.index for a, n in node.children.items()}
        assert list(result) == sorted(result)
        assert (parent[result] == i).all()
        left = np.where(
            np.isin(np.arange(len(node.prior)), list(node.children)), -np.inf, node.prior
        )
        priors.assert_equal(tree.prior[rows][i], left.astype(np.float32))
        taken = node.prior[list(node.children)].astype(np.float32)
        priors.assert_equal(tree.edge_prior[rows][result], taken)
    if tree.squares is not None:
        squares = values.to_int64(tree.squares)[rows]
        np.testing.assert_array_equal(squares, [n.own_squares + n.square_sum.sum() for n in nodes])
    if tree.scores is not None:
        sums = values.to_int64(tree.scores.sums)[rows]
        np.testing.assert_array_equal(sums, [n.own_utility + n.utility_sum.sum() for n in nodes])
        np.testing.assert_array_equal(tree.scores.own[rows], [n.utility for n in nodes])
    if tree.backup_value is not None:
        np.testing.assert_array_equal(tree.backup_value[rows], [n.backup_value for n in nodes])
    if tree.proven is not None:
        np.testing.assert_array_equal(tree.proven[rows], [n.proven for n in nodes])
    if tree.amaf is not None:
        np.testing.assert_array_equal(tree.amaf.visits[rows], [n.amaf_visits for n in nodes])
        sums = values.to_int64(tree.amaf.sums)[rows]
        np.testing.assert_array_equal(sums, [n.amaf_sum for n in nodes])
    if tree.prior_counts is not None:
        np.testing.assert_array_equal(
            tree.prior_counts.visits[rows], [n.guess_visits for n in nodes]
        )
        np.testing.assert_array_equal(tree.prior_counts.sums[rows], [n.guess_sum for n in nodes])
