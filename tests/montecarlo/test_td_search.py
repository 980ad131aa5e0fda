"""Temporal-difference search as a player."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import rules as go
from gozero.go import scoring
from gozero.montecarlo import local_shape, shapes, td_search
from gozero.montecarlo.shapes import Shapes
from gozero.montecarlo.td import TdConfig
from gozero.montecarlo.td_search import TdSearchConfig

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


def test_a_search_from_nothing_takes_legal_actions_and_passes_only_when_it_must():
    states = stacked([played(RULES, []), played(RULES, KO), played(RULES, [16, 16])])
    actions = compiled(SEARCH)(ZEROS, jax.random.key(0), states)
    legal = jax.vmap(lambda s: go.legal_actions(RULES, s))(states)
    assert not legal[1, 6]
    assert bool(jnp.take_along_axis(legal, actions[:, None], axis=1).all())
    assert bool((actions[:2] < 16).all())
    assert actions[2] == RULES.pass_action
    again = compiled(SEARCH)(ZEROS, jax.random.key(0), states)
    np.testing.assert_array_equal(actions, again)


@pytest.mark.slow
def test_simulations_teach_who_is_winning():
    """After the simulations the side that holds the board is worth more than before."""
    lead = played(RULES, [5, 16, 6, 16, 9, 16, 10], komi=0.5)  # Black has the centre, White none
    learn = jax.jit(functools.partial(td_search.learn, SEARCH))
    weights = learn(ZEROS, jax.random.key(1), lead)
    assert weights[0] == 0
    table = shapes.expand(ZEROS.weight, weights)
    value = lambda position: float(local_shape.value(SHAPES, table, position))
    assert value(lead.position) > 0.7
    swapped = lead.position.replace(black=lead.position.white, white=lead.position.black)
    assert value(swapped) == pytest.approx(1 - value(lead.position), abs=1e-5)


def share_of_wins(rules, komi, one, other, params, count, key):
    """f32[]: what player `one` scores against `other`, each colour in half of the games."""

    def move(i, states):
        keys = jax.random.split(jax.random.fold_in(key, i))
        actions = [player(params, k, states) for player, k in zip((one, other), keys, strict=True)]
        own = (states.position.to_play.astype(jnp.int32) + jnp.arange(count)) % 2 == 0
        return jax.vmap(functools.partial(go.play, rules))(states, jnp.where(own, *actions))

    states = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), go.init(rules, komi)
    )
    states = jax.lax.fori_loop(0, 2 * rules.num_points, move, states)
    score = jax.vmap(lambda s: scoring.area_score(rules, s))(states)
    return jnp.mean((1 + jnp.sign(jnp.where(jnp.arange(count) % 2 == 0, score, -score))) / 2)


@pytest.mark.slow
def test_search_beats_the_policy_that_it_starts_from():
    """5x5 from zeros: the policy it starts from is random; and from weights it has learnt."""
    rules, chosen = go.Rules(size=5), Shapes(5)
    config, komi = TdConfig(rules, chosen), 7.0
    search = td_search.player(TdSearchConfig(config, simulations=200, lanes=16))
    greedy = td_search.player(TdSearchConfig(config, simulations=0))
    start = td_search.params(chosen)
    match = jax.jit(share_of_wins, static_argnums=(0, 2, 3, 5))
    wins = float(match(rules, komi, search, greedy, start, 40, jax.random.key(0)))
    assert wins > 0.8
    once = TdSearchConfig(config, simulations=3000, lanes=32)
    weights = jax.jit(functools.partial(td_search.learn, once))(
        start, jax.random.key(1), go.init(rules, komi)
    )
    learnt = start._replace(weights=weights)
    wins = float(match(rules, komi, search, greedy, learnt, 100, jax.random.key(2)))
    assert wins > 0.6


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"simulations": -1}, "simulations: -1 is not at least 0"),
        ({"lanes": 0}, "lanes: 0 is not at least 1"),
        ({"rate": 0.0}, "rate: 0.0 is not above 0"),
    ],
)
def test_bad_settings_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        TdSearchConfig(TD, **bad)
