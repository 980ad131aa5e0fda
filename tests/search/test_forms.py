"""The forms that a search takes on other platforms give exactly the same results."""

from __future__ import annotations

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.search import lanes, reuse
from gozero.search import tree as trees
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rules.gumbel import GumbelInterior, GumbelRoot
from gozero.search.rules.rave import Rave
from gozero.search.rules.ucb1 import Ucb1
from gozero.search.search import search
from tests.compile.forms import PLATFORMS, form_of
from tests.go.stepping import new_games
from tests.search import random_tree
from tests.search.evaluators import hash_evaluate, observe_position


def random_game(simulations=48, **settings):
    evaluate = hash_evaluate(random_tree.NUM_ACTIONS, 3.0, 0.6)
    if "amaf" in settings:
        evaluate = random_tree.with_more(evaluate, True, False)
    config = SearchConfig(simulations, **settings)
    codes = jnp.arange(1, 6, dtype=jnp.uint32) * np.uint32(7919)
    run = random_tree.compiled_search(evaluate, config, len(codes))
    return run(codes, jax.random.key(3))


def rerooted():
    """Trees rerooted at the next move and pruned."""

    def smaller(tree, action):
        return reuse.prune(reuse.reroot(tree, action), 4)

    result = random_game(10, capacity=12, select=Ucb1(1.0))
    return result._replace(tree=jax.jit(smaller)(result.tree, result.action))


def in_go(size, simulations, num_games):
    rules = go.Rules(size=size)
    evaluator = Evaluator(hash_evaluate(rules.num_actions), observe=observe_position)
    config = SearchConfig(simulations, select=Ucb1(1.0), max_depth=20)
    run = jax.jit(lambda key, states: search(go_game(rules), evaluator, key, states, config))
    return run(jax.random.key(0), new_games(rules, num_games))


def go_with_wide_nodes():
    """Roots with more children than `rows.SOME`."""
    result = in_go(6, 60, 3)
    assert jnp.max(result.tree.num_children) > 32
    return result


def one_game_of_go():
    """Whose boards, like the words of all boards, are arrays of one row or column."""
    result = in_go(2, 24, 1)
    assert jnp.max(result.tree.parent) > 1
    return result


SEARCHES = {
    "puct": random_game,
    "puct, full trees": lambda: random_game(capacity=20),
    "gumbel": lambda: random_game(select=GumbelInterior(), root_select=GumbelRoot()),
    "gumbel, small trees": lambda: random_game(
        10, expand_after=2, max_depth=3, select=GumbelInterior(), root_select=GumbelRoot()
    ),
    "trees to go on from": rerooted,
    "rave": lambda: random_game(select=Rave(), amaf=Amaf()),
    "proofs, several leaves": lambda: random_game(prove=True, leaves=4, virtual_loss=1),
    "ucb1 on 6x6": go_with_wide_nodes,
    "one game of go": one_game_of_go,
}


SLOW = {"puct", "gumbel", "puct, full trees", "rave", "proofs, several leaves", "ucb1 on 6x6"}
THOROUGH = {"gumbel, small trees", "trees to go on from", "one game of go"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            one,
            marks=[pytest.mark.slow] * (one in SLOW) + [pytest.mark.thorough] * (one in THOROUGH),
        )
        for one in SEARCHES
    ],
)
def test_other_platforms_give_equal_results(name, monkeypatch):
    here = jax.device_get(SEARCHES[name]())
    for platform in PLATFORMS:
        with form_of(platform, monkeypatch):
            there = jax.device_get(SEARCHES[name]())
        for field in ("action", "visits", "q", "value", "ok"):
            one, other = getattr(here, field), getattr(there, field)
            np.testing.assert_array_equal(one, other, err_msg=f"{field} on {platform}")
        for field in ("visits", "value_sum", "children", "next", "size", "prior", "untried"):
            one, other = getattr(here.tree, field), getattr(there.tree, field)
            np.testing.assert_array_equal(one, other, err_msg=f"tree.{field} on {platform}")
        if platform == "cuda":  # whose kernels write every array
            jax.tree.map(np.testing.assert_array_equal, here.tree, there.tree)


def test_a_plain_function_for_the_roots_needs_trees_in_rows(monkeypatch):
    """Its scores are checked there."""
    roots = random_tree.Position(jnp.arange(128, dtype=jnp.uint32))
    tree = jax.eval_shape(lambda: trees.allocate(roots, random_tree.NUM_ACTIONS, 9))
    with form_of("tpu", monkeypatch):
        assert lanes.fit(tree, SearchConfig(8))
        assert lanes.fit(tree, SearchConfig(8, root_select=GumbelRoot()))
        assert not lanes.fit(tree, SearchConfig(8, root_select=lambda edges: edges.q))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("platform", "more"),
    [
        pytest.param("cpu", {}, id="cpu", marks=pytest.mark.thorough),
        pytest.param(
            "cpu", {"transpositions": True}, id="cpu, transpositions", marks=pytest.mark.thorough
        ),
        pytest.param("tpu", {}, id="tpu"),
    ],
)
def test_a_search_without_kept_trees_gives_equal_results(platform, more, monkeypatch):
    """On a TPU trees become rows only if they are kept; no other result depends on the rows."""
    config = SearchConfig(8, max_depth=3, select=GumbelInterior(), root_select=GumbelRoot(), **more)
    evaluator = Evaluator(hash_evaluate(random_tree.NUM_ACTIONS, 3.0, 0.6))
    codes = jnp.arange(1, 4, dtype=jnp.uint32)

    @functools.partial(jax.jit, static_argnums=0)
    def run(keep_tree, codes):
        key = jax.random.key(1)
        states = random_tree.Position(codes)
        return search(random_tree.GAME, evaluator, key, states, config, keep_tree=keep_tree)

    in_rows, brought_back = lanes.in_rows, []

    def spoilt(*arguments):
        brought_back.append(arguments)
        return in_rows(*arguments).replace(num_children=arguments[1].num_children * 0)

    monkeypatch.setattr(lanes, "in_rows", spoilt)
    with form_of("tpu", monkeypatch) if platform == "tpu" else contextlib.nullcontext():
        with_trees, without = jax.device_get((run(True, codes), run(False, codes)))
    assert len(brought_back) == (platform == "tpu")
    assert without.tree is None
    assert with_trees.prior.shape == with_trees.visits.shape
    jax.tree.map(np.testing.assert_array_equal, without, with_trees._replace(tree=None))
