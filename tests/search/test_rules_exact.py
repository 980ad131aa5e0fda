"""Each selection rule in the batched search against its formula in the plain one, at every node.

Every search is compiled, so the default suite combines settings; the tests one by one are slow.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

from gozero.search.config import Amaf, SearchConfig
from gozero.search.edges import Edges
from gozero.search.rules.estimators import Estimators
from gozero.search.rules.expert import ExpertBias
from gozero.search.rules.forced import ForcedPlayouts
from gozero.search.rules.katago import KataGoPuct
from gozero.search.rules.proportional import Boltzmann, Gaussian
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import AmafOnly, HandSelected, MinimumMse, Rave
from gozero.search.rules.selective import Pruning, Widening
from gozero.search.rules.ucb1 import Flat, Ucb1
from tests.reference import mcts
from tests.search import random_tree
from tests.search.comparing import compare_searches
from tests.search.evaluators import hash_evaluate

NUM_TREES, SIMULATIONS, MAX_DEPTH = 5, 120, 20
EVALUATE = hash_evaluate(random_tree.NUM_ACTIONS, 1.5, 0.6)
PLAIN = random_tree.Plain(EVALUATE)

PARENT = Puct(1.5, first_play="parent", reduction=0.3)
PLAIN_PARENT = mcts.Puct(1.5, first_play="parent", reduction=0.3)
FIVE = {"leaves": 5, "virtual_loss": 3}
RULES = {
    # rule, plain rule, settings of both
    "katago's": (
        KataGoPuct(1.0, 0.45, 50.0, 0.2, spread=0.85),
        mcts.KataGoPuct(1.0, 0.45, 50.0, 0.2, 0.85),
        {},
    ),
    "five leaves, ucb1": (Ucb1(0.7), mcts.Ucb1(0.7), FIVE),
}
THOROUGH = {
    "forced playouts, first play as the parent, less, a full tree": (
        *(PARENT, PLAIN_PARENT, {"capacity": 70}),
    ),
    "ucb1-tuned": (Ucb1(1.5, tuned=True), mcts.Ucb1(1.5, tuned=True), {}),
    "gaussian, widening": (
        *(Widening(Gaussian(), 2.0, 1.2), mcts.Widening(mcts.Gaussian(), 2.0, 1.2), {}),
    ),
    "boltzmann, pruning, a full tree": (
        Pruning(Boltzmann(0.3), 0.7, 4),
        mcts.Pruning(mcts.Boltzmann(0.3), 0.7, 4),
        {"capacity": 70},
    ),
}
ONE_BY_ONE = {
    "gaussian": (Gaussian(), mcts.Gaussian(), {}),
    "gaussian, five leaves": (Gaussian(), mcts.Gaussian(), FIVE),
    "boltzmann": (Boltzmann(0.3), mcts.Boltzmann(0.3), {}),
    "widening": (Widening(Puct(2.0), 3.0), mcts.Widening(mcts.Puct(2.0), 3.0, 1.4), {}),
    "pruning": (Pruning(Puct(2.0), 0.5, 4), mcts.Pruning(mcts.Puct(2.0), 0.5, 4), {}),
    "puct": (Puct(2.0), mcts.Puct(2.0), {}),
    "puct with a growing c": (Puct(1.0, c_base=20.0), mcts.Puct(1.0, c_base=20.0), {}),
    "first play as the parent, less": (PARENT, PLAIN_PARENT, {}),
    "first play a loss": (Puct(1.5, first_play="loss"), mcts.Puct(1.5, first_play="loss"), {}),
    "forced playouts": (Puct(1.0), mcts.Puct(1.0), {}),
    "forced playouts, first play as the parent, less": (PARENT, PLAIN_PARENT, {}),
    "a depth limit that binds": (Puct(1.0), mcts.Puct(1.0), {}),
    "five leaves": (Puct(2.0), mcts.Puct(2.0), FIVE),
    "five leaves, first play as the parent": (
        Puct(1.0, first_play="parent"),
        mcts.Puct(1.0, first_play="parent"),
        FIVE,
    ),
    "ucb1": (Ucb1(0.7), mcts.Ucb1(0.7), {}),
    "greedy, urgent": (Ucb1(0.0, 0.6), mcts.Ucb1(0.0, 0.6), {}),
}


def by_length(default, thorough, slow):
    """The cases' names, with their marks."""
    return [
        *default,
        *(pytest.param(name, marks=pytest.mark.thorough) for name in thorough),
        *(pytest.param(name, marks=pytest.mark.slow) for name in slow),
    ]


@pytest.mark.parametrize("name", by_length(RULES, THOROUGH, ONE_BY_ONE))
def test_equal_to_the_plain_search_at_every_node(name):
    rule, plain_rule, settings = (RULES | THOROUGH | ONE_BY_ONE)[name]
    root_rule = plain_root_rule = None
    if name.startswith("forced playouts"):
        root_rule, plain_root_rule = ForcedPlayouts(rule, 3.0), mcts.Forced(plain_rule, 3.0)
    max_depth = 3 if name.startswith("a depth limit") else MAX_DEPTH
    config = SearchConfig(
        SIMULATIONS, max_depth=max_depth, select=rule, root_select=root_rule, **settings
    )
    forest = compare(name, EVALUATE, PLAIN, config, plain_rule, plain_root_rule, **settings)
    assert max(map(len, forest)) > SIMULATIONS / 2  # not all of them end early
    # A full tree does not evaluate its root again.
    assert all(nodes[0].evaluated <= 1 for nodes in forest if nodes[0].children)


def test_flat_monte_carlo():
    """Simulates the root's actions in turn, with a new evaluation each time."""
    config = SearchConfig(50, max_depth=1, select=Flat(), final_move="value")
    codes = np.arange(1, 1 + NUM_TREES, dtype=np.uint32) * np.uint32(7919)
    run, key = random_tree.compiled_search(EVALUATE, config, NUM_TREES), jax.random.key(5)
    result, forest = compare_searches(run, codes, key, config, PLAIN, mcts.Flat())
    for b, (root, *others) in enumerate(forest):
        legal = root.prior >= 0
        assert np.ptp(root.visits[legal]) <= 1 < legal.sum() == len(others)
        values = np.array(
            [-PLAIN.evaluate(PLAIN.play(int(codes[b]), a))[1] for a in range(len(legal))]
        )
        assert values[result.action[b]] == values[legal].max()


@pytest.mark.slow
def test_a_rule_may_ignore_statistics():
    evaluate = random_tree.with_more(EVALUATE, playouts=True, heuristic=False)
    config = SearchConfig(50, max_depth=1, select=Flat(), amaf=Amaf())
    codes = np.arange(1, 1 + NUM_TREES, dtype=np.uint32) * np.uint32(7919)
    result = random_tree.compiled_search(evaluate, config, NUM_TREES)(codes, jax.random.key(5))
    for visits in np.asarray(result.visits):
        assert np.ptp(visits[visits > 0]) <= 1


def compare(name, evaluate, plain, config, rule, root_rule=None, **settings):
    """Compare a batched search with plain ones; returns the plain nodes of each tree."""
    codes = np.random.RandomState(len(name)).randint(1, 2**31, NUM_TREES).astype(np.uint32)
    run, key = random_tree.compiled_search(evaluate, config, NUM_TREES), jax.random.key(len(name))
    root_rules = [root_rule] * NUM_TREES
    return compare_searches(run, codes, key, config, plain, rule, root_rules, **settings)[1]


def mixture_beta(n, amaf, total, mu_amaf, mu):
    """Eq. 46 with b = 1/4, where mu* is the mixture itself: from Eq. 47 on, four times over."""
    of = lambda mean: amaf / max(n + amaf + n * amaf * 0.0625 / (mean * (1 - mean)), 1)
    beta = of(0.5)
    for _ in range(4):
        beta = of(np.clip((1 - beta) * mu + beta * mu_amaf, 0.01, 0.99))
    return beta


PER_ACTION, MIXTURE = HandSelected(20.0, per_action=True), MinimumMse(0.25, "mixture")
HAND, EVEN, UNEVEN, ALL = HandSelected(20.0), MinimumMse(0.25), MinimumMse(0.25, "amaf"), AmafOnly()
PLAIN_BETA = {
    HAND: lambda n, amaf, total, mu: np.sqrt(20 / (3 * total + 20)),
    EVEN: lambda n, amaf, total, mu: amaf / max(n + amaf + n * amaf * 0.25, 1),
    UNEVEN: lambda n, amaf, total, mu: (
        amaf / max(n + amaf + n * amaf * 0.0625 / np.clip(mu * (1 - mu), 0.0099, 1), 1)
    ),
    ALL: lambda n, amaf, total, mu: 1,
    PER_ACTION: lambda n, amaf, total, mu: np.sqrt(20 / (3 * n + 20)),
    MIXTURE: mixture_beta,
}
FOUR, THIRD = {"leaves": 4, "virtual_loss": 2}, {"expand_after": 3}
DENSE = {
    # rule, colours that count, playouts, heuristic, settings of both
    "by the action, an initial value, the plain bonus": (
        Rave(PER_ACTION, c=0.3, first_play=0.4, initial=0.6, bonus="plain"),
        *("either", True, False, {}),
    ),
}
DENSE_THOROUGH = {
    "uct-rave, same colour, several visits before a node": (
        *(Rave(UNEVEN, c=0.3), "same", True, False, THIRD),
    ),
    "hand-selected, heuristic, four leaves, a full tree, at the root apart": (
        *(Rave(HAND, first_play=0.4), "either", True, True, {**FOUR, "capacity": 70}),
    ),
    "the mixture": (Rave(MIXTURE), "either", True, False, {}),
    "experts, four leaves": (ExpertBias(Rave(EVEN), 0.2, 3.0), "either", True, False, FOUR),
}
DENSE_ONE_BY_ONE = {
    "rave": (Rave(EVEN), "either", True, False, {}),
    "uct-rave, same colour": (Rave(UNEVEN, c=0.3), "same", True, False, {}),
    "estimators, four leaves": (Estimators(0.25, 0.3), "either", True, False, FOUR),
    "hand-selected, heuristic": (Rave(HAND, first_play=0.4), "either", True, True, {}),
    "all later moves, no playouts": (Rave(ALL), "either", False, False, {}),
    "ucb1 with a heuristic": (Ucb1(0.5), None, False, True, {}),
    "four leaves": (Rave(EVEN), "either", True, False, FOUR),
    "four leaves, a full tree": (Rave(EVEN), "either", True, False, {**FOUR, "capacity": 70}),
    "ucb1 with a heuristic, four leaves, a full tree": (
        *(Ucb1(0.5), None, False, True, {**FOUR, "capacity": 70}),
    ),
    "ucb1 with a heuristic, at the root apart": (Ucb1(0.5), None, False, True, {}),
    "hand-selected, heuristic, four leaves": (
        *(Rave(HAND, first_play=0.4), "either", True, True, FOUR),
    ),
    "several visits before a node": (Rave(EVEN), "either", True, False, THIRD),
}


@pytest.mark.parametrize("name", by_length(DENSE, DENSE_THOROUGH, DENSE_ONE_BY_ONE))
def test_rules_with_statistics_of_untried_actions(name):
    rule, first, playouts, heuristic, settings = (DENSE | DENSE_THOROUGH | DENSE_ONE_BY_ONE)[name]
    evaluate = random_tree.with_more(EVALUATE, playouts, heuristic)
    amaf = Amaf(first) if first else None
    own_root = name.endswith("at the root apart")  # the same rule, in the code of root rules
    config = SearchConfig(
        SIMULATIONS,
        max_depth=MAX_DEPTH,
        select=rule,
        root_select=rule if own_root else None,
        amaf=amaf,
        **settings,
    )
    if isinstance(rule, Estimators):
        plain_rule = mcts.Estimators(rule.bias, rule.above_bias)
    elif isinstance(rule, ExpertBias):
        of_rave = mcts.Rave(PLAIN_BETA[rule.rule.schedule])
        plain_rule = mcts.ExpertBias(of_rave, rule.bonus, rule.visits)
    elif isinstance(rule, Rave):
        more = {"initial": rule.initial, "plain": rule.bonus == "plain"}
        plain_rule = mcts.Rave(PLAIN_BETA[rule.schedule], rule.c, rule.first_play, **more)
    else:
        plain_rule = mcts.HeuristicUcb1(rule.c)
    plain, root_rule = random_tree.Plain(evaluate), plain_rule if own_root else None
    compare(name, evaluate, plain, config, plain_rule, root_rule, amaf=first, **settings)


@pytest.mark.parametrize("schedule", [HAND, EVEN, UNEVEN, PER_ACTION, MIXTURE])
@pytest.mark.parametrize("bonus", ["finite", "plain"])
@pytest.mark.parametrize("initial", [None, 0.6])
def test_scores_equal_those_of_the_plain_rule(schedule, bonus, initial):
    random = np.random.RandomState(1)
    visits, amaf_visits = random.randint(0, 9, (2, 12))
    visits[:4] = amaf_visits[2:6] = 0
    q, amaf_q = random.uniform(-1, 1, (2, 12)).astype(np.float32)
    q, amaf_q = np.where(visits, q, np.float32(0)), np.where(amaf_visits, amaf_q, np.float32(0))
    rule = Rave(schedule, c=0.3, first_play=0.4, initial=initial, bonus=bonus)
    plain = mcts.Rave(PLAIN_BETA[schedule], 0.3, 0.4, initial, bonus == "plain")
    prior, total = np.ones(12, np.float32), np.int32(visits.sum())
    scores = rule(Edges(prior, visits, q, np.float32(0), total, None, amaf_visits, amaf_q))
    expected = plain(prior, visits, q, None, None, amaf_visits, amaf_q)
    np.testing.assert_allclose(scores, expected, rtol=2e-6)
