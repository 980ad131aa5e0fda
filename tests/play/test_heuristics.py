"""Heuristics added to an evaluator, by name."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import rules as go
from gozero.nets import network
from gozero.nets.network import NetworkConfig
from gozero.play import heuristics
from gozero.play.evaluators import playout_evaluator
from gozero.play.networks import network_evaluator
from gozero.playouts.policies.mogo import handcrafted
from gozero.search.game import Ancestors, Evaluation
from tests.go.stepping import new_games

RULES = go.Rules(size=5)


def test_a_network_with_a_heuristic_is_prepared():
    """Its parameters are then a part of the evaluator's."""
    config = NetworkConfig(blocks=1, channels=32)
    params = network.init(config, jax.random.key(0))
    evaluator = network_evaluator(RULES, config, params)
    assert evaluator.prepare is not None
    with_values = heuristics.add_heuristic(RULES, evaluator, "even", visits=4)
    prepared = with_values.prepared()
    jax.tree.map(
        np.testing.assert_array_equal, prepared.params.evaluator, evaluator.prepared().params
    )
    assert prepared.prepared().params.evaluator.keys() == prepared.params.evaluator.keys()


PLAYOUTS = playout_evaluator(RULES, first_plays=True)
EVALUATOR = PLAYOUTS._replace(
    evaluate=lambda params, key, seen: Evaluation(jnp.zeros((4, 26)), jnp.full(4, 0.25))
)
"""A constant evaluator, which compiles faster than playouts."""


@functools.cache
def games():
    """Four games after some moves."""
    move = jax.jit(jax.vmap(lambda s, a: go.play(RULES, s, a)))
    states = new_games(RULES, 4)
    for actions in ([6, 12, 7, 0], [7, 11, 6, 1], [25, 17, 8, 5]):
        states = move(states, jnp.array(actions))
    return states


def evaluated(name: str, **confidences):
    evaluator = heuristics.add_heuristic(RULES, EVALUATOR, name, **confidences)

    def run(params, states):
        ancestors = Ancestors(None, jnp.zeros(states.komi.shape, jnp.int32))
        seen = jax.vmap(lambda s, p: evaluator.observe(s, p, ancestors))(states, states.position)
        return evaluator.evaluate(params, jax.random.key(0), seen), seen

    return jax.jit(run)(evaluator.params, games())


def test_even_game_discourages_moves_that_no_playout_plays():
    evaluation, _ = evaluated("even", amaf_visits=7)
    expected = np.where(handcrafted.never_played(RULES, games().position), -1.0, 0.0)
    np.testing.assert_array_equal(evaluation.heuristic.amaf_value, expected)
    np.testing.assert_array_equal(evaluation.heuristic.amaf_visits, np.full((4, 26), 7))
    assert evaluation.heuristic.value is evaluation.heuristic.visits is None
    assert (evaluation.value == 0.25).all()


def test_mogos_moves_answer_the_last_one():
    evaluation, seen = evaluated("mogo", visits=3, amaf_visits=50)
    value = handcrafted.heuristic(RULES)
    expected = value(None, jax.random.key(0), (seen.position, seen.last))
    np.testing.assert_array_equal(evaluation.heuristic.value, expected)
    np.testing.assert_array_equal(evaluation.heuristic.amaf_value, expected)
    assert (evaluation.heuristic.visits == 3).all()
    assert seen.last.tolist() == [-1, 17, 8, 5]
    assert {-1.0, 0.0, 1.0} == set(np.unique(expected))


def test_good_moves_count_as_wins():
    plain, seen = evaluated("even", amaf_visits=30)
    evaluation, _ = evaluated("even", amaf_visits=30, good_visits=10)
    good = handcrafted.heuristic(RULES)(None, jax.random.key(0), (seen.position, seen.last)) > 0
    assert good.any()
    np.testing.assert_array_equal(evaluation.heuristic.amaf_visits, np.where(good, 40, 30))
    expected = np.where(good, 0.25, plain.heuristic.amaf_value)
    np.testing.assert_allclose(evaluation.heuristic.amaf_value, expected)
    assert evaluation.heuristic.visits is None


def test_the_description_of_a_heuristic():
    about = heuristics.add_heuristic(RULES, EVALUATOR, "even", amaf_visits=7).about
    assert about["heuristic"] == {"name": "even", "visits": 0, "amaf_visits": 7}
    assert about["evaluator"] == "playout"


@pytest.mark.parametrize(
    ("name", "confidences", "message"),
    [
        ("good", {"visits": 1}, "heuristic: 'good' is not one of even, mogo, shape"),
        ("even", {}, "visits, amaf_visits: both are 0"),
        ("even", {"visits": -1}, "visits: -1 is neither from 0 to 131070"),
        ("even", {"amaf_visits": 150_000}, "amaf_visits: 150000 is neither from 0 to 131070"),
        (
            "even",
            {"visits": 1, "good_visits": 1},
            "good_visits: 1; expected at least 0, and 0 without amaf",
        ),
        ("even", {"visits": 1, "shapes": "x.npz"}, "shapes: x.npz is not used by .*'even'"),
        ("shape", {"visits": 1}, "size: no weights for 5x5 come with the package, only for sizes"),
    ],
)
def test_invalid_arguments_are_named(name, confidences, message):
    with pytest.raises(ValueError, match=message):
        heuristics.add_heuristic(RULES, EVALUATOR, name, **confidences)
