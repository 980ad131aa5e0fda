"""The local shape heuristic combined with playouts, in a search of Go."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.play.evaluators import playout_evaluator
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Ancestors
from gozero.search.prior_counts import with_heuristic
from gozero.search.search import search
from gozero.td import local_shape, shapes
from gozero.td.shapes import Shapes
from tests.go.stepping import new_games

RULES, SHAPES = go.Rules(size=3), Shapes(3, largest=2)
EVALUATOR = playout_evaluator(RULES, first_plays=True)


@functools.cache
def table() -> jax.Array:
    count = shapes.sharing(SHAPES).num_weights
    weights = np.random.default_rng(0).normal(size=count + 1).astype(np.float32)
    weights[0] = 0
    return local_shape.table(SHAPES, weights)


@pytest.mark.thorough
def test_values_are_scaled_from_win_probabilities():
    heuristic = local_shape.heuristic(RULES, SHAPES)

    def run(table, states):
        ancestors = Ancestors(None, jnp.zeros(states.komi.shape, jnp.int32))
        seen = jax.vmap(lambda s, p: EVALUATOR.observe(s, p, ancestors))(states, states.position)
        after = jax.vmap(lambda s, a: go.play(RULES, s, a), (None, 0))
        values = jax.vmap(
            lambda s: jax.vmap(lambda p: local_shape.value(SHAPES, table, p))(
                after(s, jnp.arange(10)).position
            )
        )(states)
        return heuristic(table, jax.random.key(0), seen), values

    states = new_games(RULES, 4)
    move = jax.vmap(lambda s, a: go.play(RULES, s, a))
    states = move(states, jnp.array([0, 4, 9, 1]))  # White to play
    states = jax.tree.map(lambda *x: jnp.concatenate(x), new_games(RULES, 1), states)
    found, for_black = jax.jit(run)(table(), states)
    expected = 2 * for_black - 1
    expected = expected.at[1:].multiply(-1.0)
    legal = jax.vmap(lambda s: go.legal_actions(RULES, s))(states)
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(jnp.where(legal, found - expected, 0.0), 0.0, atol=1e-5)
    assert bool((jnp.abs(found) <= 1).all())


@pytest.mark.slow
def test_a_search_starts_from_the_heuristics_values():
    heuristic = local_shape.heuristic(RULES, SHAPES)
    value = local_shape.heuristic(RULES, SHAPES, table_of=lambda params: params[1])
    own = lambda params, key, observations: EVALUATOR.evaluate(params[0], key, observations)
    evaluate = with_heuristic(own, value, visits=3, amaf_visits=50)
    config = SearchConfig(num_simulations=1, amaf=Amaf(), select=EVALUATOR.select)

    def run(table, states):
        evaluator = EVALUATOR._replace(evaluate=evaluate, params=(EVALUATOR.params, table))
        return search(go_game(RULES), evaluator, jax.random.key(1), states, config)

    states = new_games(RULES, 2)
    result = jax.jit(run)(table(), states)
    assert bool(result.ok.all())
    values = heuristic(table(), jax.random.key(0), (states.position, states.komi))
    # The one simulation takes the heuristic's best action.
    best = jnp.take_along_axis(values, result.action[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(best, values.max(axis=1), atol=1e-5)
