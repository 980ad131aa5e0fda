"""The search's doors: what goes in, what comes out, what is refused."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gozero
from gozero.search.game import Evaluation
from gozero.search.search import SearchConfig, search
from tests.search import tictactoe

POSITIONS = tictactoe.boards(
    "XX. OO. ...",  # X wins at 2
    "OO. X.. .X.",  # X must stop 2
    "... ... ...",
    "XOX XOO OXX",  # over: drawn
    "OOO XX. X..",  # over: lost
)
CONFIG = SearchConfig(num_simulations=300)


@functools.cache
def searched(config=CONFIG, seed=0):
    run = jax.jit(
        lambda roots, key: search(
            tictactoe.GAME, tictactoe.even, None, key, jnp.zeros(5), roots, config
        )
    )
    return run(POSITIONS, jax.random.key(seed))


def test_it_wins_and_defends_in_a_game_that_is_not_go():
    result = searched()
    assert result.action[:2].tolist() == [2, 2]
    assert float(result.value[0]) > 0.8
    assert float(result.q[0, 2]) == 1.0
    assert abs(float(result.value[2])) < 0.15


def test_visits_and_targets():
    result = searched()
    assert result.visits.sum(axis=1).tolist() == [300, 300, 300, 0, 0]
    np.testing.assert_allclose(result.policy_target.sum(axis=1)[:3], 1.0, rtol=1e-6)
    occupied = np.asarray(POSITIONS.own | POSITIONS.other)
    assert (np.asarray(result.visits)[occupied] == 0).all()
    assert bool(result.ok.all())


def test_a_finished_root_is_not_searched():
    result = searched()
    assert result.visits[3:].sum() == 0
    assert result.value[3:].tolist() == [0.0, -1.0]
    assert result.tree.size.tolist()[3:] == [1, 1]


def test_same_key_same_search_and_ties_differ_by_key():
    a, b = searched(), searched(seed=0)
    np.testing.assert_array_equal(a.visits, b.visits)
    few = SearchConfig(num_simulations=1)
    firsts = {int(searched(few, seed).visits[2].argmax()) for seed in range(12)}
    assert len(firsts) > 3  # nine equal first moves: the first visit is drawn among them


def test_root_noise_changes_root_priors_only():
    plain = searched(SearchConfig(num_simulations=20))
    noisy = searched(SearchConfig(num_simulations=20, dirichlet_fraction=0.5, dirichlet_alpha=1.0))
    roots = np.arange(5) * plain.tree.capacity
    prior = np.asarray(noisy.tree.prior[roots[2]])
    assert prior.sum() == pytest.approx(1.0, abs=1e-5)
    assert len(set(prior.tolist())) == 9
    assert (prior >= 0.5 / 9 - 1e-6).all()
    below = np.asarray(noisy.tree.prior[roots[2] + 1])
    below = below[below >= 0]
    np.testing.assert_allclose(below, 1 / len(below), rtol=1e-6)
    illegal = np.asarray(POSITIONS.own | POSITIONS.other)[0]
    assert np.isneginf(np.asarray(noisy.tree.prior[roots[0]])[illegal]).all()


def test_temperature_draws_in_proportion_to_visits():
    warm = SearchConfig(num_simulations=30, temperature=1.0)
    drawn = {int(searched(warm, seed).action[2]) for seed in range(10)}
    assert len(drawn) > 2


def test_a_nan_evaluation_marks_its_game_and_spoils_no_other():
    def sick(params, key, observations):
        evaluation = tictactoe.even(params, key, observations)
        ill = observations.own[:, 8] | observations.other[:, 8]
        value = jnp.where(ill, jnp.nan, evaluation.value)
        return Evaluation(evaluation.prior_logits, value)

    config = SearchConfig(num_simulations=40)
    roots = tictactoe.boards("XX. OO. ...", "OO. X.. .X.")

    def run(evaluate):
        key = jax.random.key(1)
        return search(tictactoe.GAME, evaluate, None, key, jnp.zeros(2), roots, config)

    result, sound = jax.jit(lambda: run(sick))(), jax.jit(lambda: run(tictactoe.even))()
    assert result.ok.tolist() == [False, False]
    assert np.isfinite(np.asarray(result.value)).all()
    assert result.visits.sum(axis=1).tolist() == [40, 40]
    assert sound.ok.tolist() == [True, True]


def test_the_package_runs_a_search():
    result = gozero.search(
        tictactoe.GAME,
        tictactoe.even,
        None,
        jax.random.key(0),
        jnp.zeros(5),
        POSITIONS,
        SearchConfig(num_simulations=2),
    )
    assert result.visits.sum() == 6


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_simulations", 0),
        ("capacity", 64),
        ("max_depth", 0),
        ("dirichlet_fraction", 1.5),
        ("dirichlet_alpha", 0.0),
        ("temperature", -1.0),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        SearchConfig(**{field: value})


def test_bad_arguments():
    arguments = (tictactoe.GAME, tictactoe.even, None, jax.random.key(0))
    with pytest.raises(ValueError, match="leading axes"):
        search(*arguments, jnp.zeros(3), POSITIONS, CONFIG)
    with pytest.raises(ValueError, match="tree"):
        search(*arguments, jnp.zeros(5), POSITIONS, CONFIG, tree=searched().tree)


def test_data_does_not_retrace():
    traces = []

    def run(roots, key):
        traces.append(1)
        return search(
            tictactoe.GAME,
            tictactoe.even,
            None,
            key,
            jnp.zeros(5),
            roots,
            SearchConfig(num_simulations=3),
        ).action

    jitted = jax.jit(run)
    for seed in range(3):
        jitted(
            jax.tree.map(lambda x: x[::-1], POSITIONS) if seed else POSITIONS, jax.random.key(seed)
        )
    assert len(traces) == 1
