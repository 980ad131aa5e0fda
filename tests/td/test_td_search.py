"""Temporal-difference search as a player."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import rules as go
from gozero.go import scoring
from gozero.td import local_shape, shapes, td_search
from gozero.td.shapes import Shapes
from gozero.td.td import TdConfig
from gozero.td.td_search import TdSearchConfig

RULES = go.Rules(size=4)
SHAPES = Shapes(4, largest=2)
TD = TdConfig(RULES, SHAPES, epsilon=0.2)
SEARCH = TdSearchConfig(TD, simulations=64, lanes=16)
ZEROS = td_search.params(SHAPES)


def played(rules: go.Rules, actions: list[int], komi: float = 7.0) -> go.GameState:
    state = go.init(rules, komi)
    for action in actions:
        state = go.play(rules, state, action)
    return state


def stacked(states: list[go.GameState]) -> go.GameState:
    return jax.tree.map(lambda *x: jnp.stack(x), *states)


@functools.cache
def compiled(config: TdSearchConfig):
    return jax.jit(td_search.player(config))


KO = [1, 2, 4, 7, 9, 10, 6, 5]  # . X O . / X O . O / . X O . / . . . ., White has taken at 5


@pytest.mark.slow
def test_with_zero_weights_actions_are_legal_and_passes_forced():
    states = stacked([played(RULES, []), played(RULES, KO), played(RULES, [16, 16])])
    (actions, _), _ = compiled(SEARCH)(ZEROS, jax.random.key(0), states)
    legal = jax.vmap(lambda s: go.legal_actions(RULES, s))(states)
    assert not legal[1, 6]
    assert bool(jnp.take_along_axis(legal, actions[:, None], axis=1).all())
    assert bool((actions[:2] < 16).all())
    assert actions[2] == RULES.pass_action
    again = compiled(SEARCH)(ZEROS, jax.random.key(0), states)[0].action
    np.testing.assert_array_equal(actions, again)


@pytest.mark.slow
def test_simulations_learn_who_is_winning():
    """After the simulations the side that is ahead is worth more than before."""
    lead = played(RULES, [5, 16, 6, 16, 9, 16, 10], komi=0.5)  # Black has the centre, White none
    learn = jax.jit(functools.partial(td_search.learn, SEARCH))
    weights = learn(ZEROS, jax.random.key(1), lead)
    assert weights[0] == 0
    table = shapes.expand(ZEROS.weight_index, weights)
    value = lambda position: float(local_shape.value(SHAPES, table, position))
    assert value(lead.position) > 0.7
    swapped = lead.position.replace(black=lead.position.white, white=lead.position.black)
    assert value(swapped) == pytest.approx(1 - value(lead.position), abs=1e-5)


def blacks_wins(rules, komi, black, white, count, params, key):
    """f32[]: the score of player `black` against `white` over `count` games."""

    def move(i, states):
        take = lambda player: (
            lambda states: player(params, jax.random.fold_in(key, i), states)[0].action
        )
        actions = jax.lax.cond(i % 2 == 0, take(black), take(white), states)
        return jax.vmap(functools.partial(go.play, rules))(states, actions)

    states = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), go.init(rules, komi)
    )
    states = jax.lax.fori_loop(0, 2 * rules.num_points, move, states)
    score = jax.vmap(lambda s: scoring.area_score(rules, s))(states)
    return jnp.mean((1 + jnp.sign(score)) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("learnt", [False, True])
def test_search_beats_the_policy_that_it_starts_from(learnt):
    """5x5. With zero weights that policy is random; otherwise it has learnt from 2,000 own games.

    Komi is 13, at which both colours win games; at 7 Black wins most of them.
    """
    rules, chosen, komi = go.Rules(size=5), Shapes(5, largest=2), 13.0
    config = TdConfig(rules, chosen)
    search = td_search.player(TdSearchConfig(config, simulations=100, lanes=32))
    greedy = td_search.player(TdSearchConfig(config, simulations=0))
    start = td_search.params(chosen)
    if learnt:
        before = TdSearchConfig(config, simulations=2000, lanes=32)
        learn = jax.jit(functools.partial(td_search.learn, before))
        start = start._replace(weights=learn(start, jax.random.key(1), go.init(rules, komi)))
    match = jax.jit(blacks_wins, static_argnums=(0, 1, 2, 3, 4))
    keys = jax.random.split(jax.random.key(0))
    wins = float(match(rules, komi, search, greedy, 48, start, keys[0]))
    wins += 1 - float(match(rules, komi, greedy, search, 48, start, keys[1]))
    print(f"search against greedy: {wins / 2:.3f}")
    assert wins / 2 > (0.6 if learnt else 0.8)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"simulations": -1}, "simulations: -1 is not a whole number of at least 0"),
        ({"lanes": 0}, "lanes: 0 is not a whole number of at least 1"),
        ({"rate": 0.0}, "rate: 0.0 is not above 0"),
    ],
)
def test_bad_settings_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        TdSearchConfig(TD, **bad)
