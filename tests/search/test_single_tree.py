"""A single tree, with one kernel per step on a CPU, equals the same tree in a batch."""

from __future__ import annotations

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import mode, stages
from gozero.games.connect_four import connect_four_game
from gozero.games.go import go_game
from gozero.games.rollouts import rollout_evaluator
from gozero.go.rules import Rules, init
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_setup
from gozero.search.config import Amaf, SearchConfig
from gozero.search.prior_counts import with_heuristic
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import Rave
from gozero.search.search import search
from tests.search import random_tree
from tests.search.test_ancestors import EVALUATE, EVEN

CODES = np.random.RandomState(5).randint(1, 2**31, 3).astype(np.uint32)
PLAYOUTS = random_tree.with_more(EVALUATE, True, False)
HEURISTIC = random_tree.with_more(EVALUATE, True, True)
RAVE = dict(select=Rave(EVEN), amaf=Amaf())
CASES = {
    "puct": (EVALUATE, SearchConfig(200, select=Puct(), max_depth=6)),
    "rave": (PLAYOUTS, SearchConfig(200, max_depth=6, **RAVE)),
    "rave, a heuristic, leaves": (HEURISTIC, SearchConfig(198, leaves=3, max_depth=6, **RAVE)),
    "full trees": (EVALUATE, SearchConfig(200, select=Puct(), capacity=60)),
    "pruned trees": (PLAYOUTS, SearchConfig(300, capacity=60, prune=True, **RAVE)),
    "legal only": (PLAYOUTS, SearchConfig(60, select=Rave(EVEN), amaf=Amaf(legal_only=True))),
    "proofs": (EVALUATE, SearchConfig(200, select=Puct(), prove=True)),
}
BY_DEFAULT = {"puct"}


def searched(evaluate, config, codes):
    lowered = jax.jit(random_tree.search_of(evaluate, config)).lower(codes, jax.random.key(1))
    return lowered, jax.tree.map(np.asarray, lowered.compile()(codes, jax.random.key(1)))


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.thorough] * (c not in BY_DEFAULT)) for c in CASES]
)
def test_a_single_tree_equals_one_in_a_batch(case):
    lowered, one = searched(*CASES[case], CODES[:1])
    _, several = searched(*CASES[case], CODES)
    for alone, among in zip(jax.tree.leaves(one.tree), jax.tree.leaves(several.tree), strict=True):
        np.testing.assert_array_equal(alone, among.reshape(3, -1, *among.shape[1:])[0])
    np.testing.assert_array_equal(one.visits[0], several.visits[0])
    steps = lowered.as_text().count("jaxpr_as_fun")
    assert steps > 0 or case == "legal only"  # its scatter has no kernel code


@pytest.mark.parametrize(
    ("ko", "flags"),
    [
        pytest.param("positional", {"playouts": "mm-atari"}, marks=pytest.mark.thorough),
        pytest.param("simple", {"playouts": "mogo"}, marks=pytest.mark.thorough),
        pytest.param(
            *("simple", {"playouts": "mogo", "priors": "mm", "expert_bonus": 0.1}),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_step_with_playouts_is_one_kernel(ko, flags, monkeypatch):
    """With tables of strengths, and if the last move before the root is not known."""
    rules = Rules(size=3, ko=ko)
    flags = {"search": "rave", "simulations": 30, **flags}
    evaluator, config, *_ = make_setup(rules, PlayerConfig(**flags))
    states = jax.vmap(lambda komi: init(rules, komi))(jnp.zeros(2))

    def run():
        by_params = lambda params, states, key: search(
            go_game(rules), evaluator._replace(params=params), key, states, config
        )
        lowered = jax.jit(by_params).lower(evaluator.params, states, jax.random.key(1))
        result = lowered.compile()(evaluator.params, states, jax.random.key(1))
        kernels = lowered.as_text().count("func.func private @jaxpr_as_fun")
        return kernels, result.visits, result.q

    def no_kernel(function, first, *args, word=None, reduced=0):
        return function(first, *args)

    kernels, *found = run()
    monkeypatch.setattr(stages, "step_kernel", no_kernel)
    kernels_without, *expected = run()
    assert kernels == 1  # the whole step; else the descent and the backup have one each
    assert kernels_without == 0
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.thorough
@pytest.mark.parametrize("heuristic", [False, True])
def test_a_new_tree_with_rows_of_actions_compiles(heuristic, monkeypatch):
    """XLA aborted the process: the array of visits of a single new tree is a constant."""
    game = connect_four_game(4, 4)
    evaluator, config = rollout_evaluator(game, first_plays=True), SearchConfig(8)
    config = dataclasses.replace(config, select=evaluator.select, amaf=Amaf())
    if heuristic:
        even = lambda params, key, observed: jnp.zeros((1, game.num_actions))
        evaluate = with_heuristic(evaluator.evaluate, even, amaf_visits=5)
        evaluator = evaluator._replace(evaluate=evaluate)
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 1))

    def run():
        run = lambda states, key: search(game, evaluator, key, states, config).tree
        return jax.jit(run)(states, jax.random.key(1))

    found = run()
    monkeypatch.setenv(mode.VARIABLE, "plain")
    expected = run()
    assert found.visits[0] == 9
    for name in ("visits", "value_sum", "next", "amaf"):
        chex.assert_trees_all_equal(getattr(found, name), getattr(expected, name))
