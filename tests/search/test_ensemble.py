"""Several trees of a game that exchange statistics: against plain trees, and by hand."""

from __future__ import annotations

import dataclasses
import functools
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.limits import VALUE_ONE
from gozero.search import choose, ensemble, expand, proofs, reuse
from gozero.search import tree as trees
from gozero.search.config import Amaf, Ensemble, Grandfather, SearchConfig
from gozero.search.game import Evaluator
from gozero.search.memory import memory_of, optional_arrays
from gozero.search.rules.gumbel import GumbelRoot
from gozero.search.rules.operators import max_backup
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import MinimumMse, Rave
from gozero.search.runner import Budget, Runner
from gozero.search.search import search
from gozero.search.tree import NO_NODE
from tests.hlo import moves_in_loops
from tests.reference import ensemble as plain_ensemble
from tests.reference import mcts
from tests.search import random_tree, tictactoe
from tests.search.comparing import compare_trees
from tests.search.evaluators import hash_evaluate
from tests.search.test_games import (
    stacked,
    tictactoe_children,
    tictactoe_positions,
    tictactoe_value,
)
from tests.test_invariants import assert_lowers

NUM_GAMES, NUM_TREES, SIMULATIONS, MAX_DEPTH = 3, 3, 120, 20
TOGETHER = Ensemble(trees=NUM_TREES, every=35, depth=2, share=0.04)
CONFIG = SearchConfig(
    SIMULATIONS, max_depth=MAX_DEPTH, select=Puct(2.0, first_play="parent"), ensemble=TOGETHER
)
RAVE_CONFIG = dataclasses.replace(CONFIG, select=Rave(MinimumMse(0.25)), amaf=Amaf())
CODES = np.random.RandomState(4).randint(1, 2**31, NUM_GAMES).astype(np.uint32)
KEY = jax.random.key(5)


def with_ties(evaluate):
    """Few distinct priors and prior counts, so that random tie-breaks make the trees differ."""

    def rounded(params, key, codes):
        evaluated = evaluate(params, key, codes)
        heuristic = evaluated.heuristic
        if heuristic is not None:
            heuristic = heuristic._replace(
                value=jnp.round(heuristic.value),
                visits=heuristic.visits % 2,
                amaf_value=jnp.round(heuristic.amaf_value),
                amaf_visits=jnp.ones_like(heuristic.amaf_visits),
            )
        return evaluated._replace(
            prior_logits=jnp.round(evaluated.prior_logits), heuristic=heuristic
        )

    return rounded


PUCT_EVALUATE = with_ties(hash_evaluate(random_tree.NUM_ACTIONS, 0.7, 0.6))
RAVE_EVALUATE = with_ties(random_tree.with_more(PUCT_EVALUATE, True, True))


@functools.cache
def searched(config, evaluate):
    run = jax.jit(random_tree.search_of(evaluate, config))
    return jax.tree.map(np.asarray, run(CODES, KEY))


def compare(result, config, evaluate, plain_rule, **options):
    """Compare with the plain trees: every number of every node, and the merged result."""
    group = config.ensemble
    count = NUM_GAMES * group.trees
    tie_seeds = np.asarray(jax.random.bits(jax.random.split(KEY, 4)[2], (count,), jnp.uint32))
    plain, num_places = random_tree.Plain(evaluate), []
    for b, code in enumerate(CODES):
        forest = plain_ensemble.search(
            int(code),
            plain.play,
            plain.evaluate,
            config.num_simulations,
            config.max_depth,
            plain_rule,
            [int(tie_seed) for tie_seed in tie_seeds[b * group.trees :][: group.trees]],
            (group.every, group.depth, group.share),
            **options,
        )
        for k, nodes in enumerate(forest):
            compare_trees(result.tree, b * group.trees + k, nodes)
        roots = [nodes[0] for nodes in forest]
        assert len({tuple(root.visits) for root in roots}) > 1  # they do differ
        names = "visits", "value_sum"
        visits, sums = (sum(getattr(root, name) for root in roots) for name in names)
        np.testing.assert_array_equal(result.visits[b], visits)
        assert visits.sum() == result.simulations[b] == group.trees * config.num_simulations
        np.testing.assert_array_equal(result.q[b], mcts.mean(sums, visits))
        np.testing.assert_allclose(result.policy_target[b], visits / visits.sum(), rtol=1e-6)
        assert result.visits[b, result.action[b]] == visits.max()
        value = sum(plain_ensemble.own(root)[1] for root in roots) / mcts.ONE
        assert result.value[b] == pytest.approx(value / (visits.sum() + group.trees), abs=1e-6)
        num_places.append(plain_ensemble.exchange(forest, group.depth, group.share))
    assert max(num_places) > 6
    assert result.ok.tolist() == [True] * NUM_GAMES


@pytest.mark.slow
def test_equal_to_plain_trees_at_every_node():
    result = searched(CONFIG, PUCT_EVALUATE)
    compare(result, CONFIG, PUCT_EVALUATE, mcts.Puct(2.0, first_play="parent"))


@pytest.mark.slow
def test_exchanges_between_steps_of_several_leaves():
    config = dataclasses.replace(CONFIG, leaves=5)
    result, plain_rule = searched(config, PUCT_EVALUATE), mcts.Puct(2.0, first_play="parent")
    compare(result, config, PUCT_EVALUATE, plain_rule, leaves=5, virtual_loss=3)


@pytest.mark.thorough
def test_with_amaf_and_a_heuristic():
    """All-moves-as-first statistics are exchanged too, but a heuristic's counts are added once."""
    beta = lambda n, amaf, total, mu: amaf / max(n + amaf + n * amaf * 0.25, 1)
    result = searched(RAVE_CONFIG, RAVE_EVALUATE)
    compare(result, RAVE_CONFIG, RAVE_EVALUATE, mcts.Rave(beta), amaf="either")
    shape = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)
    roots = random_tree.Position(shape(CODES))
    memory = memory_of(roots, random_tree.NUM_ACTIONS, RAVE_CONFIG, prior_counts=True)
    assert memory.total == sum(x.nbytes for x in jax.tree.leaves(result.tree))
    assert memory.per_game == memory.total // NUM_GAMES


# --- by hand --------------------------------------------------------------------------

ONE = VALUE_ONE
BY_HAND = SearchConfig(
    40, capacity=5, select=Puct(0.1), ensemble=Ensemble(trees=3, every=10, depth=2, share=0.25)
)


def hand_made(*nodes_of_trees):
    """Trees of three actions from nodes (actions that lead there, visits, sum of values).

    All priors are 1/2. The only untried action is a root's action 1 where it has no child by it.
    """
    tree = trees.allocate(jnp.zeros((3, 1)), 3, 5, optional_arrays(BY_HAND))
    tree = jax.tree.map(np.array, tree)
    for k, nodes in enumerate(nodes_of_trees):
        number = {line: n for n, (line, *_) in enumerate(nodes)}
        tree.size[k] = len(nodes)
        for n, (line, visits, value) in enumerate(nodes):
            row = 5 * k + n
            tree.visits[row], tree.value_sum[row] = visits, value * ONE
            if line:
                parent = 5 * k + number[line[:-1]]
                tree.children[parent, tree.num_children[parent]] = n
                tree.num_children[parent] += 1
                tree.action[row], tree.edge_prior[row] = line[-1], 0.5
        if (1,) not in number:
            tree.untried[5 * k], tree.untried_prior[5 * k] = 1, 0.5
            tree.prior[5 * k, 1] = 0.5
    return tree


THREE = (
    [((), 10, 1.0), ((0,), 6, -3.0), ((1,), 3, 1.5), ((0, 1), 4, 2.0)],
    [((), 10, -1.0), ((0,), 2, 2.0), ((1,), 7, -3.5)],
    [((), 10, 0.5), ((0,), 9, 4.5), ((0, 1), 4, 1.0), ((0, 2), 4, -2.0)],
)


@functools.cache
def make_exchange():
    """jitted (tree, is_due) -> (tree after the exchange and new choices, its merged root)."""

    @jax.jit
    def exchange(tree, is_due):
        exchanged = ensemble.exchange(tree, BY_HAND.ensemble, is_due)
        draws = choose.Draws(jnp.arange(3, dtype=jnp.uint32), jnp.zeros((3, 3)))
        tree = expand.choose_at(exchanged.tree, exchanged.nodes, exchanged.count, BY_HAND, draws)
        return tree, ensemble.merged_roots(tree, BY_HAND.ensemble)

    return lambda tree, is_due=True: jax.tree.map(np.array, exchange(tree, is_due))


def held(tree, k, count):
    """[(visits, sum)] of the first nodes of a tree."""
    row = slice(5 * k, 5 * k + count)
    return list(zip(tree.visits[row].tolist(), (tree.value_sum[row] / ONE).tolist(), strict=True))


def check_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_three_trees_by_hand():
    """Shared from a quarter of 30 visits: place 0 has 17, 1 has 10, (0, 1) has 8; (0, 2) only 4."""
    exchanged, _ = make_exchange()(hand_made(*THREE))
    assert held(exchanged, 0, 4) == [(30, 0.5), (17, 3.5), (10, -2.0), (8, 3.0)]
    assert held(exchanged, 1, 3) == [(30, 0.5), (17, 3.5), (10, -2.0)]
    assert held(exchanged, 2, 4) == [(30, 0.5), (17, 3.5), (8, 3.0), (4, -2.0)]
    # At the root -3.5 / 17 against 2 / 10; untried, 0 + 0.1 / 2 sqrt(1 + 17).
    assert exchanged.next[[0, 5, 10]].tolist() == [2, 2, NO_NODE]
    assert exchanged.next[[1, 11]].tolist() == [3, 3]  # the only child; and -3 / 8 against 2 / 4


def test_a_tree_that_reaches_a_node_later_gains_all_its_statistics():
    exchanged, _ = make_exchange()(hand_made(*THREE))
    # Four simulations: one of the first tree to 1, three of the second to 0, 1.
    for row, visits, value in [(0, 1, 0.5), (2, 1, -0.5), (5, 3, 1.0), (6, 3, -1.0), (8, 3, 1.0)]:
        exchanged.visits[row] += visits
        exchanged.value_sum[row] += value * ONE
    exchanged.children[6, 0], exchanged.num_children[6], exchanged.action[8], exchanged.size[1] = (
        3,
        1,
        1,
        4,
    )
    again, found = make_exchange()(exchanged)
    assert held(again, 0, 4) == [(34, 2.0), (20, 2.5), (11, -2.5), (11, 4.0)]
    assert held(again, 1, 4) == held(again, 0, 4)
    assert held(again, 2, 4) == [(34, 2.0), (20, 2.5), (11, 4.0), (4, -2.0)]
    assert found.edges.visits.tolist() == [[20, 11, 0]]
    np.testing.assert_allclose(found.edges.q, [[-2.5 / 20, 2.5 / 11, 0]], rtol=1e-6)
    np.testing.assert_allclose(found.edges.prior, [[0.5, 0.5, -np.inf]])
    assert float(found.value[0]) == pytest.approx(2 / 34)
    # A second exchange changes nothing, and there is none before it is due.
    check_same(make_exchange()(again)[0], again)
    not_due, same = make_exchange()(exchanged, False)
    check_same(not_due, exchanged)
    check_same(same, found)


def test_the_order_of_the_trees_does_not_matter():
    turned, found = make_exchange()(hand_made(*THREE[::-1]))
    as_they_were, same = make_exchange()(hand_made(*THREE))
    by_tree = lambda x: x.reshape(3, -1, *x.shape[1:])
    turned_back = jax.tree.map(lambda x: by_tree(x)[::-1], turned)
    check_same(turned_back, jax.tree.map(by_tree, as_they_were))
    check_same(found, same)


# --- as a search ----------------------------------------------------------------------


@pytest.mark.slow
def test_one_tree_is_a_search():
    alone = searched(dataclasses.replace(CONFIG, ensemble=None), PUCT_EVALUATE)
    one = searched(dataclasses.replace(CONFIG, ensemble=Ensemble(1, every=35)), PUCT_EVALUATE)
    assert one.raw_value is None
    check_same(one._replace(tree=one.tree.replace(last_sync=None)), alone._replace(raw_value=None))


@pytest.mark.slow
def test_a_chunked_search_is_equal():
    whole = searched(CONFIG, PUCT_EVALUATE)
    runner = Runner(random_tree.GAME, Evaluator(PUCT_EVALUATE), CONFIG, chunk=16)
    arguments = (KEY, random_tree.Position(CODES))
    check_same(runner.search(*arguments), whole)
    check_same(runner.search(*arguments, Budget(seconds=1e6)), whole)


@pytest.mark.slow
def test_trees_merged_only_at_the_end():
    never = dataclasses.replace(TOGETHER, every=None)
    result = searched(dataclasses.replace(CONFIG, ensemble=never), PUCT_EVALUATE)
    late = dataclasses.replace(TOGETHER, every=SIMULATIONS)
    check_same(result, searched(dataclasses.replace(CONFIG, ensemble=late), PUCT_EVALUATE))
    assert (result.tree.last_sync.visits == 0).all()
    assert result.visits.sum(axis=1).tolist() == [NUM_TREES * SIMULATIONS] * NUM_GAMES


@pytest.mark.slow
def test_proofs_of_the_trees_are_correct():
    positions = random.Random(1).sample(tictactoe_positions(), 200)
    has = lambda stones: np.array([p in stones for p in range(9)])
    roots = stacked([tictactoe.Board(has(own), has(other)) for own, other in positions])
    config = SearchConfig(120, prove=True, ensemble=Ensemble(3, every=20))

    @jax.jit
    def run(roots, key):
        return search(tictactoe.GAME, Evaluator(tictactoe.even), key, roots, config)

    result = run(roots, jax.random.key(0))
    proven, values = np.asarray(result.proven), [tictactoe_value(*p) for p in positions]
    of_trees = np.asarray(result.tree.proven).reshape(200, 3, -1)[:, :, 0]
    is_known = proven != proofs.UNKNOWN
    assert (is_known >= (of_trees > 0).any(axis=1)).all()
    assert is_known.mean() > 0.5
    np.testing.assert_array_equal((proven - proofs.DRAW)[is_known], np.array(values)[is_known])
    np.testing.assert_array_equal(result.value[is_known], np.array(values)[is_known])
    for b, (position, move) in enumerate(zip(positions, np.asarray(result.action), strict=True)):
        if is_known[b]:
            assert -tictactoe_children(*position)[int(move)] == values[b]


@pytest.mark.slow
@pytest.mark.parametrize("amaf", [False, True])
def test_invariants_of_the_hot_path(amaf):
    config, evaluate = (RAVE_CONFIG, RAVE_EVALUATE) if amaf else (CONFIG, PUCT_EVALUATE)

    def run(codes, bits):
        roots, key = random_tree.Position(codes), jax.random.wrap_key_data(bits)
        result = search(random_tree.GAME, Evaluator(evaluate), key, roots, config)
        return result.visits, result.tree.visits

    arguments = CODES, jax.random.key_data(KEY)
    assert_lowers(run, *arguments)
    text = jax.jit(run).lower(*arguments).compile().as_text()
    assert moves_in_loops(text, NUM_GAMES * NUM_TREES * config.num_nodes) == []


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Ensemble(trees=0), "trees"),
        (lambda: Ensemble(every=0), "every"),
        (lambda: Ensemble(depth=-1), "depth"),
        (lambda: Ensemble(share=0.0), "share"),
        (lambda: Ensemble(share=1.5), "share"),
        (lambda: SearchConfig(ensemble=True), "ensemble"),
        (
            lambda: SearchConfig(16_384, ensemble=Ensemble(8)),
            "num_simulations: .* at most 16382",
        ),
        (lambda: SearchConfig(leaves=4, ensemble=Ensemble(every=50)), r"ensemble: .* multiple"),
        (lambda: SearchConfig(early_stop=True, ensemble=Ensemble()), "ensemble"),
        (lambda: SearchConfig(transpositions=True, ensemble=Ensemble()), "ensemble"),
        (lambda: SearchConfig(backup=max_backup, ensemble=Ensemble()), "ensemble"),
        (lambda: SearchConfig(root_select=GumbelRoot(), ensemble=Ensemble()), "ensemble"),
        (lambda: SearchConfig(grandfather=Grandfather(visits=5), ensemble=Ensemble()), "ensemble"),
        (lambda: SearchConfig(amaf=Amaf(ancestor=5), ensemble=Ensemble()), "ensemble"),
    ],
)
def test_bad_settings(make, field):
    with pytest.raises(ValueError, match=f"^{field}"):
        make()


def test_the_visit_limit_of_a_sum():
    config = SearchConfig(16_382, ensemble=Ensemble(8))
    assert 8 * (config.num_simulations + 1) * ONE < 2**31


def test_a_tree_of_another_batch_is_refused():
    roots = random_tree.Position(CODES)
    tree = reuse.empty(roots, random_tree.NUM_ACTIONS, SearchConfig(4))
    config = SearchConfig(4, ensemble=Ensemble(2))
    arguments = (random_tree.GAME, Evaluator(PUCT_EVALUATE), KEY, roots)
    with pytest.raises(ValueError, match=r"^tree: its batch is 3; this search needs 6"):
        search(*arguments, config, tree)
