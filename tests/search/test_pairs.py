"""Every pair of a search's features: equal to the plain search, or refused by the table."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.search import reuse
from gozero.search.config import (
    CONFLICTS,
    Amaf,
    Ensemble,
    Grandfather,
    SearchConfig,
)
from gozero.search.game import Evaluator
from gozero.search.rules.estimators import Estimators
from gozero.search.rules.forced import ForcedPlayouts
from gozero.search.rules.gumbel import GumbelRoot
from gozero.search.rules.operators import MixBackup
from gozero.search.rules.proportional import Gaussian
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import MinimumMse, Rave
from gozero.search.search import begin, search
from tests.reference import ensemble as plain_ensemble
from tests.reference import gumbel as plain_gumbel
from tests.reference import mcts
from tests.search import random_tree, test_worth
from tests.search.comparing import compare_trees, known
from tests.search.gumbel_search import samples

NUM_TREES, SIMULATIONS, MAX_DEPTH = 3, 48, 12
VIRTUAL_LOSS = 1  # other numbers are in test_rules_exact; Gumbel's root wants this one
CODES = np.array([11, 7919, 104729], np.uint32)
KEY, FIRST_KEY = jax.random.key(3), jax.random.key(4)
PLAN = Ensemble(trees=2, every=12, depth=2, share=0.1)
CONSIDERED = 5


class PlainRave(mcts.Rave):
    def __init__(self):
        super().__init__(lambda n, amaf, total, mu: amaf / max(n + amaf + n * amaf * 0.25, 1))


class DensePuct(mcts.Puct):
    """PUCT with dense selection: scores, not priors, order the untried actions."""

    dense = True

    def __call__(self, prior, visits, q, mean, raw, *amaf):
        return super().__call__(prior, visits, q, mean, raw)


class Case(NamedTuple):
    """A feature of the batched search and of the plain one."""

    settings: dict[str, Any] = {}  # noqa: RUF012
    plain: dict[str, Any] = {}  # noqa: RUF012
    rule: Any = None  # the plain search's
    root_rule: Any = None  # the root's Gumbel samples -> the plain root rule
    heuristic: bool = False  # whether the evaluator has one
    tree: bool = False  # whether the search reuses an earlier tree


RAVE = Rave(MinimumMse(0.25))
SIBLINGS = Puct(1.5, first_play="parent", reduction=0.3)
FEATURES = {
    "leaves": Case(
        {"leaves": 4, "virtual_loss": VIRTUAL_LOSS}, {"leaves": 4, "virtual_loss": VIRTUAL_LOSS}
    ),
    "capacity": Case({"capacity": 30}, {"capacity": 30}),
    "expand_after": Case({"expand_after": 3}, {"expand_after": 3}),
    "amaf": Case({"amaf": Amaf(), "select": RAVE}, {"amaf": "either"}, PlainRave()),
    "ancestor": Case(
        {"amaf": Amaf(ancestor=6), "select": RAVE}, {"amaf": "either", "ancestor": 6}, PlainRave()
    ),
    "above": Case(
        {"amaf": Amaf(), "select": Estimators(0.25, 0.3)},
        {"amaf": "either"},
        mcts.Estimators(0.25, 0.3),
    ),
    "siblings": Case({"select": SIBLINGS}, rule=mcts.Puct(1.5, None, "parent", 0.3)),
    "variance": Case({"select": Gaussian(floor=0.5)}, rule=mcts.Gaussian(0.5)),
    "score": Case(
        {"select": Puct(1.5, score=random_tree.UTILITY)}, {"utility": random_tree.PLAIN_UTILITY}
    ),
    "grandfather": Case({"grandfather": Grandfather(visits=4)}, {"grandfather": (4, 0)}),
    "heuristic": Case(heuristic=True),
    "backup": Case({"backup": MixBackup(8.0)}, {"backup": test_worth.plain_mix}),
    "prove": Case({"prove": True}, {"prove": True}),
    "transpositions": Case({"transpositions": True}),
    "early_stop": Case({"early_stop": True}),
    "temperature": Case({"temperature": 0.8}),
    "final_move": Case({"final_move": "bound"}),
    "eval": Case({"final_move": "eval"}),
    "forced": Case(
        {"root_select": ForcedPlayouts(Puct(1.5), 3.0)},
        root_rule=lambda gumbel: mcts.Forced(mcts.Puct(1.5), 3.0),
    ),
    "gumbel": Case(
        {"root_select": GumbelRoot(max_considered=CONSIDERED)},
        root_rule=lambda gumbel: plain_gumbel.Root(gumbel, CONSIDERED, SIMULATIONS),
    ),
    "ensemble": Case({"ensemble": PLAN}),
    "tree": Case({"capacity": 2 * SIMULATIONS + 1}, {"capacity": 2 * SIMULATIONS + 1}, tree=True),
    "prune": Case({"capacity": 30, "prune": True}, {"capacity": 30, "prune": True}),
}
ONE_OF = [
    *({"amaf", "ancestor"}, {"amaf", "above"}, {"ancestor", "above"}),
    *({"siblings", "above"}, {"variance", "above"}),
    *({"siblings", "score"}, {"variance", "score"}, {"above", "score"}),
    *({"forced", "gumbel"}, {"capacity", "tree"}),
    *({"final_move", "eval"}, {"capacity", "prune"}),
    *({"tree", "prune"}, {"siblings", "variance"}),
]
"""Pairs that set the same setting twice; and reuse of a pruned tree, which remembers which of
several equal priors it considered, unlike the plain search."""
REASONS = [conflict.reason for conflict in CONFLICTS]
PAIRS = [pair for pair in itertools.combinations(FEATURES, 2) if set(pair) not in ONE_OF]


def both(pair) -> Case:
    one, other = (FEATURES[name] for name in pair)
    return Case(
        {**one.settings, **other.settings},
        {**one.plain, **other.plain},
        other.rule or one.rule or mcts.Puct(1.5),
        one.root_rule or other.root_rule,
        one.heuristic or other.heuristic,
        one.tree or other.tree,
    )


def config_of(case: Case) -> SearchConfig:
    return SearchConfig(SIMULATIONS, max_depth=MAX_DEPTH, **case.settings)


def evaluator_of(case: Case) -> Evaluator:
    playouts = "amaf" in case.settings
    evaluate = random_tree.with_more(test_worth.EVALUATE, playouts, case.heuristic)
    return Evaluator(random_tree.with_scores(evaluate) if "utility" in case.plain else evaluate)


def run(config, evaluator, codes, key, tree=None):
    roots = random_tree.Position(codes)
    return search(test_worth.GAME, evaluator, key, roots, config, tree)


def started(case: Case):
    """(trees to reuse, the plain trees, the roots u32[B]), after an earlier search and a move."""
    config, evaluator = config_of(case), evaluator_of(case)
    blank = reuse.empty(
        random_tree.Position(CODES), random_tree.NUM_ACTIONS, config, case.heuristic
    )
    first = jax.jit(lambda *args: run(config, evaluator, *args))(CODES, FIRST_KEY, blank)
    action = np.argmax(first.visits, axis=1)
    plain = test_worth.Plain(evaluator.evaluate)
    forest = plain_searches(case, plain, CODES, FIRST_KEY, [[]] * first.tree.num_trees, first)
    each = np.repeat(action, first.tree.num_trees // len(CODES))
    kept = [mcts.reroot(nodes, int(a)) for nodes, a in zip(forest, each, strict=True)]
    codes = [plain.play(int(code), int(a)) for code, a in zip(CODES, action, strict=True)]
    tree = jax.jit(reuse.reroot)(first.tree, jnp.asarray(action, jnp.int32))
    return tree, kept, np.array(codes, np.uint32)


def plain_searches(case: Case, plain, codes, key, starts, result):
    """The plain search's nodes of each tree."""
    config = config_of(case)
    per_game = config.ensemble.trees if config.ensemble else 1
    count = len(codes) * per_game
    seeds = np.asarray(jax.random.bits(jax.random.split(key, 4)[2], (count,), jnp.uint32))
    gumbel = np.asarray(samples(key, count, random_tree.NUM_ACTIONS))
    simulations = np.asarray(result.simulations) // per_game
    forest = []
    for b, code in enumerate(codes):
        options = dict(case.plain)
        if case.root_rule is not None:
            options["root_rule"] = case.root_rule(gumbel[b * per_game])
        if config.sharing:
            options["known"] = known(config, lambda code: (None, np.array([code], np.uint32)))
        rule = case.rule
        if (case.heuristic or "grandfather" in case.plain) and not rule.dense:
            rule = DensePuct(rule.c, rule.c_base, rule.first_play, rule.reduction)
        arguments = int(code), plain.play, plain.evaluate, int(simulations[b]), MAX_DEPTH, rule
        if config.ensemble:
            mine = [int(seed) for seed in seeds[b * per_game :][:per_game]]
            plan = PLAN.every, PLAN.depth, PLAN.share
            group = starts[b * per_game :][:per_game]
            forest += plain_ensemble.search(*arguments, mine, plan, group, **options)
        else:
            forest.append(mcts.search(*arguments, int(seeds[b]), nodes=starts[b], **options))
            if config.sharing:
                assert result.evaluations[b] == options["known"].evaluations
    return forest


def refusal(case: Case) -> str:
    """The error for a pair, raised at once or when the search begins; empty if it is allowed."""
    try:
        config, evaluator = config_of(case), evaluator_of(case)
        tree = None
        if case.tree:
            roots = random_tree.Position(CODES)
            tree = reuse.empty(roots, random_tree.NUM_ACTIONS, config, case.heuristic)
        if case.tree or case.heuristic:  # otherwise the settings alone decide
            roots = random_tree.Position(jnp.asarray(CODES))
            jax.eval_shape(lambda: begin(test_worth.GAME, evaluator, KEY, roots, config, tree))
    except ValueError as error:
        return str(error)
    return ""


def test_the_table_names_existing_features():
    known = set(FEATURES)
    known |= {"own_visits", "prior_counts", "heuristic_visits", "virtual_losses"}
    for conflict in CONFLICTS:
        assert {conflict.first, conflict.second} <= known, conflict
        assert conflict.reason
    pairs = [frozenset((conflict.first, conflict.second)) for conflict in CONFLICTS]
    assert len(set(pairs)) == len(pairs)


REFUSED = {
    *("leaves grandfather", "leaves backup"),
    *("amaf siblings", "ancestor siblings", "siblings grandfather", "siblings heuristic"),
    *("above backup", "above transpositions", "above ensemble"),
    *("amaf variance", "ancestor variance", "variance grandfather", "variance heuristic"),
    *("variance ensemble",),
    *("amaf score", "ancestor score", "score grandfather", "score heuristic"),
    *("score backup", "score prove", "score transpositions", "score ensemble"),
    *("amaf backup", "amaf transpositions", "ancestor backup", "ancestor transpositions"),
    *("ancestor ensemble", "grandfather backup", "grandfather transpositions"),
    *("grandfather ensemble", "heuristic backup", "heuristic transpositions", "heuristic gumbel"),
    *("backup transpositions", "backup ensemble", "prove transpositions", "prove early_stop"),
    *("prove gumbel", "transpositions early_stop", "transpositions ensemble"),
    *("early_stop temperature", "early_stop ensemble", "temperature final_move"),
    *("temperature eval", "eval ensemble"),
    *("gumbel ensemble", "gumbel tree"),
    *("backup prune", "prove prune", "transpositions prune", "gumbel prune", "ensemble prune"),
}


@pytest.mark.thorough
def test_which_pairs_are_refused():
    """Exactly those in the table. (Nothing is compiled.)"""
    refusals = {" ".join(pair): refusal(both(pair)) for pair in PAIRS}
    result = {name: text for name, text in refusals.items() if text}
    assert set(result) == REFUSED
    for text in result.values():
        assert any(reason in text for reason in REASONS), text


DEFAULT = {"capacity expand_after"}
THOROUGH = {"capacity above", "leaves prove"}


def marks_of(name):
    if name in DEFAULT:
        return []
    return [pytest.mark.thorough if name in THOROUGH else pytest.mark.slow]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=marks_of(name))
        for name in map(" ".join, PAIRS)
        if name not in REFUSED
    ],
)
def test_a_pair_is_equal_to_the_plain_search(name):
    case = both(name.split())
    config, evaluator = config_of(case), evaluator_of(case)
    tree, starts, codes = started(case) if case.tree else (None, [[]] * 2 * NUM_TREES, CODES)
    compiled = jax.jit(lambda *args: run(config, evaluator, *args))
    result = jax.tree.map(np.asarray, compiled(codes, KEY, tree))
    plain = test_worth.Plain(evaluator.evaluate)
    forest = plain_searches(case, plain, codes, KEY, starts, result)
    assert result.ok.all()
    assert sum(map(len, forest)) > 3 * NUM_TREES
    for b, nodes in enumerate(forest):
        for node in nodes:
            if config.sharing and node.over:  # its priors are not evaluated then
                node.prior = result.tree.prior[b * result.tree.capacity + node.index]
        compare_trees(result.tree, b, nodes)
    roots = np.array([nodes[0].visits for nodes in forest])
    roots = roots.reshape(len(codes), -1, random_tree.NUM_ACTIONS)
    np.testing.assert_array_equal(result.visits, roots.sum(axis=1))
