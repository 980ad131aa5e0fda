"""Each selection rule in the batched search against its formula in the plain one, at every node."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.search.amaf import Amaf
from gozero.search.config import SearchConfig
from gozero.search.rave import AmafOnly, HandSelected, MinimumMse, Rave
from gozero.search.search import search
from gozero.search.selection import ForcedPlayouts, Puct, Ucb1
from tests.reference import mcts
from tests.search import random_tree
from tests.search.comparing import compare_trees
from tests.search.judges import hash_evaluate

NUM_TREES, SIMULATIONS, MAX_DEPTH = 5, 120, 20
EVALUATE = hash_evaluate(random_tree.NUM_ACTIONS, 1.5, 0.6)

RULES = {
    "puct": (Puct(2.0), mcts.Puct(2.0)),
    "puct with a growing c": (Puct(1.0, c_base=20.0), mcts.Puct(1.0, c_base=20.0)),
    "first play as the parent, less": (
        Puct(1.5, first_play="parent", reduction=0.3),
        mcts.Puct(1.5, first_play="parent", reduction=0.3),
    ),
    "first play a loss": (Puct(1.5, first_play="loss"), mcts.Puct(1.5, first_play="loss")),
    "forced playouts": (Puct(1.0), mcts.Puct(1.0)),
    "a depth limit that binds": (Puct(1.0), mcts.Puct(1.0)),
    "five leaves": (Puct(2.0), mcts.Puct(2.0)),
    "five leaves, first play as the parent": (
        Puct(1.0, first_play="parent"),
        mcts.Puct(1.0, first_play="parent"),
    ),
    "ucb1": (Ucb1(0.7), mcts.Ucb1(0.7)),
    "greedy": (Ucb1(0.0), mcts.Ucb1(0.0)),
}


def most(cases, *slow):
    """The names of cases; some are slow ones, for each is compiled."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in slow)) for name in cases]


@pytest.mark.parametrize(
    "name",
    most(
        RULES,
        "puct",
        "puct with a growing c",
        "first play a loss",
        "a depth limit that binds",
        "five leaves, first play as the parent",
        "greedy",
    ),
)
def test_equal_to_the_plain_search_at_every_node(name):
    rule, plain_rule = RULES[name]
    codes = np.random.RandomState(len(name)).randint(1, 2**31, NUM_TREES).astype(np.uint32)
    root_rule = plain_root_rule = None
    options = {"leaves": 5, "virtual_loss": 3} if name.startswith("five leaves") else {}
    if name == "forced playouts":
        root_rule, plain_root_rule = ForcedPlayouts(rule, 3.0), mcts.Forced(plain_rule, 3.0)
    max_depth = 3 if name.startswith("a depth limit") else MAX_DEPTH
    config = SearchConfig(
        SIMULATIONS, max_depth=max_depth, select=rule, root_select=root_rule, **options
    )
    key = jax.random.key(len(name))

    @jax.jit
    def run(codes, key):
        roots = random_tree.Position(codes)
        contexts = jnp.zeros(len(codes))
        return search(random_tree.GAME, EVALUATE, None, key, contexts, roots, config)

    result = run(codes, key)
    salts = np.asarray(jax.random.bits(jax.random.split(key, 4)[2], (NUM_TREES,), jnp.uint32))
    plain = random_tree.Plain(EVALUATE)
    sizes = []
    for b in range(NUM_TREES):
        nodes = mcts.search(
            int(codes[b]),
            plain.play,
            plain.judge,
            SIMULATIONS,
            max_depth,
            plain_rule,
            int(salts[b]),
            plain_root_rule,
            **options,
        )
        compare_trees(result.tree, b, nodes)
        np.testing.assert_array_equal(result.visits[b], nodes[0].visits)
        sizes.append(len(nodes))
    assert max(sizes) > SIMULATIONS / 2  # not all of them end at once
    assert bool(result.ok.all())


HAND, EVEN, UNEVEN, ALL = HandSelected(20.0), MinimumMse(0.25), MinimumMse(0.25, False), AmafOnly()
PLAIN_BETA = {
    HAND: lambda n, amaf, total, mu: np.sqrt(20 / (3 * total + 20)),
    EVEN: lambda n, amaf, total, mu: amaf / max(n + amaf + n * amaf * 0.25, 1),
    UNEVEN: lambda n, amaf, total, mu: (
        amaf / max(n + amaf + n * amaf * 0.0625 / np.clip(mu * (1 - mu), 0.0099, 1), 1)
    ),
    ALL: lambda n, amaf, total, mu: 1,
}
FULL_ROWS = {
    # rule, colours that count, playouts, heuristic, config
    "rave": (Rave(EVEN), "either", True, False, {}),
    "uct-rave, same colour": (Rave(UNEVEN, c=0.3), "same", True, False, {}),
    "hand-selected, heuristic": (Rave(HAND, first_play=0.4), "either", True, True, {}),
    "all later moves, no playouts": (Rave(ALL), "either", False, False, {}),
    "ucb1 with a heuristic": (Ucb1(0.5), None, False, True, {}),
    "four leaves": (Rave(EVEN), "either", True, False, {"leaves": 4, "virtual_loss": 2}),
    "several visits before a node": (Rave(EVEN), "either", True, False, {"expand_after": 3}),
}


@pytest.mark.parametrize(
    "name", most(FULL_ROWS, "rave", "all later moves, no playouts", "ucb1 with a heuristic")
)
def test_rules_that_know_more_of_an_untried_action(name):
    rule, first, playouts, heuristic, options = FULL_ROWS[name]
    evaluate = random_tree.with_more(EVALUATE, playouts, heuristic)
    codes = np.random.RandomState(len(name)).randint(1, 2**31, NUM_TREES).astype(np.uint32)
    amaf = Amaf(first) if first else None
    config = SearchConfig(SIMULATIONS, max_depth=MAX_DEPTH, select=rule, amaf=amaf, **options)
    key = jax.random.key(len(name))

    @jax.jit
    def run(codes, key):
        roots = random_tree.Position(codes)
        contexts = jnp.zeros(len(codes))
        return search(random_tree.GAME, evaluate, None, key, contexts, roots, config)

    result = run(codes, key)
    salts = np.asarray(jax.random.bits(jax.random.split(key, 4)[2], (NUM_TREES,), jnp.uint32))
    plain = random_tree.Plain(evaluate)
    if isinstance(rule, Rave):
        plain_rule = mcts.Rave(PLAIN_BETA[rule.schedule], rule.c, rule.first_play)
    else:
        plain_rule = mcts.HeuristicUcb1(rule.c)
    for b in range(NUM_TREES):
        nodes = mcts.search(
            int(codes[b]),
            plain.play,
            plain.judge,
            SIMULATIONS,
            MAX_DEPTH,
            plain_rule,
            int(salts[b]),
            amaf=first,
            **options,
        )
        compare_trees(result.tree, b, nodes)
        np.testing.assert_array_equal(result.visits[b], nodes[0].visits)
    assert bool(result.ok.all())
