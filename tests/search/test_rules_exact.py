"""Each selection rule in the batched search against its formula in the plain one, at every node."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.search.config import SearchConfig
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
    "ucb1": (Ucb1(0.7), mcts.Ucb1(0.7)),
    "greedy": (Ucb1(0.0), mcts.Ucb1(0.0)),
}


@pytest.mark.parametrize("name", RULES)
def test_equal_to_the_plain_search_at_every_node(name):
    rule, plain_rule = RULES[name]
    codes = np.random.RandomState(len(name)).randint(1, 2**31, NUM_TREES).astype(np.uint32)
    root_rule = plain_root_rule = None
    if name == "forced playouts":
        root_rule, plain_root_rule = ForcedPlayouts(rule, 3.0), mcts.Forced(plain_rule, 3.0)
    max_depth = 3 if name.startswith("a depth limit") else MAX_DEPTH
    config = SearchConfig(
        num_simulations=SIMULATIONS, max_depth=max_depth, select=rule, root_select=root_rule
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
        )
        compare_trees(result.tree, b, nodes)
        np.testing.assert_array_equal(result.visits[b], nodes[0].visits)
        sizes.append(len(nodes))
    assert max(sizes) > SIMULATIONS / 2  # not all of them end at once
    assert bool(result.ok.all())
