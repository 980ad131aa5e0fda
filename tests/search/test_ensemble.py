"""Several trees of a game that exchange: against plain ones, by hand, and what they come to."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.search import ensemble
from gozero.search import tree as trees
from gozero.search.amaf import Amaf
from gozero.search.config import SearchConfig
from gozero.search.ensemble import Ensemble
from gozero.search.footprint import memory
from gozero.search.gumbel import GumbelRoot
from gozero.search.operators import max_backup
from gozero.search.rave import MinimumMse, Rave
from gozero.search.search import search
from gozero.search.selection import Puct
from tests.reference import ensemble as plain_ensemble
from tests.reference import mcts
from tests.search import random_tree, tictactoe
from tests.search.comparing import compare_trees
from tests.search.judges import hash_evaluate

NUM_GAMES, NUM_TREES, SIMULATIONS, MAX_DEPTH = 3, 3, 120, 20
TOGETHER = Ensemble(trees=NUM_TREES, every=35, depth=2, share=0.04)
CONFIG = SearchConfig(
    SIMULATIONS, max_depth=MAX_DEPTH, select=Puct(2.0, first_play="parent"), ensemble=TOGETHER
)
CODES = np.random.RandomState(4).randint(1, 2**31, NUM_GAMES).astype(np.uint32)
KEY = jax.random.key(5)


def with_ties(evaluate):
    """Priors of a few sizes only: what is drawn among equals makes the trees differ."""

    def rounded(params, key, codes):
        judged = evaluate(params, key, codes)
        return judged._replace(prior_logits=jnp.round(judged.prior_logits))

    return rounded


PUCT_EVALUATE = with_ties(hash_evaluate(random_tree.NUM_ACTIONS, 0.7, 0.6))
RAVE_EVALUATE = random_tree.with_more(hash_evaluate(random_tree.NUM_ACTIONS, 1.5, 0.6), True, True)


@functools.cache
def searched(config, evaluate):
    @jax.jit
    def run(codes, key):
        roots = random_tree.Position(codes)
        return search(random_tree.GAME, evaluate, None, key, jnp.zeros(NUM_GAMES), roots, config)

    return jax.tree.map(np.asarray, run(CODES, KEY))


def compare(result, config, evaluate, plain_rule, **options):
    """With the plain trees, every number of every node; and what they say together."""
    group = config.ensemble
    count = NUM_GAMES * group.trees
    salts = np.asarray(jax.random.bits(jax.random.split(KEY, 4)[2], (count,), jnp.uint32))
    plain = random_tree.Plain(evaluate)
    for b, code in enumerate(CODES):
        forest = plain_ensemble.search(
            int(code),
            plain.play,
            plain.judge,
            config.num_simulations,
            config.max_depth,
            plain_rule,
            [int(salt) for salt in salts[b * group.trees :][: group.trees]],
            (group.every, group.depth, group.share),
            **options,
        )
        for k, nodes in enumerate(forest):
            compare_trees(result.tree, b * group.trees + k, nodes)
        roots = [nodes[0] for nodes in forest]
        assert len({tuple(root.visits) for root in roots}) > 1  # they do differ
        visits, sums = (sum(getattr(root, name) for root in roots) for name in NAMES)
        np.testing.assert_array_equal(result.visits[b], visits)
        assert visits.sum() == result.simulations[b] == group.trees * config.num_simulations
        np.testing.assert_array_equal(result.q[b], mcts.mean(sums, visits))
        np.testing.assert_array_equal(result.policy_target[b], (visits / visits.sum(dtype=np.float32)).astype(np.float32))
        assert result.visits[b, result.action[b]] == visits.max()
        value = sum(plain_ensemble.own(root)[1] for root in roots) / mcts.ONE
        assert result.value[b] == pytest.approx(value / (visits.sum() + group.trees), abs=1e-6)
        # At each of many places something has been said.
        assert plain_ensemble.exchange(forest, group.depth, group.share) > 6
    assert result.ok.tolist() == [True] * NUM_GAMES


NAMES = "visits", "value_sum"


def test_equal_to_plain_trees_at_every_node():
    result = searched(CONFIG, PUCT_EVALUATE)
    compare(result, CONFIG, PUCT_EVALUATE, mcts.Puct(2.0, first_play="parent"))


def test_with_actions_that_all_trees_know_of():
    """All moves as first are exchanged too, but what a heuristic believes counts once."""
    rule = Rave(MinimumMse(0.25))
    config = dataclasses.replace(CONFIG, select=rule, amaf=Amaf())
    beta = lambda n, amaf, total, mu: amaf / max(n + amaf + n * amaf * 0.25, 1)
    result = searched(config, RAVE_EVALUATE)
    compare(result, config, RAVE_EVALUATE, mcts.Rave(beta), amaf="either")
