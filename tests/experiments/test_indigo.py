"""Indigo's territory statistics in `surveyed`, against the plain reference."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.surveyed import indigo
from gozero.go.rules import Rules, init, legal_actions, play
from gozero.play.annealing import Annealing
from gozero.play.player import Turn
from gozero.playouts import engine
from tests.reference import ordered as reference
from tests.reference.go import ReferenceGame

RULES, KOMI = Rules(3), 0.5


def two_games():
    """(two of our states, the reference's game of the second)."""
    states = [init(RULES, KOMI), play(RULES, init(RULES, KOMI), 4)]
    game = ReferenceGame(3, ko="simple")
    game.play(4)
    return jax.tree.map(lambda *x: jnp.stack(x), *states), game


def test_weights_by_hand():
    """Of 4 playouts, a point's owner is always the same (two points), 3 to 1, and 2 to 2."""
    result = indigo.weights(jnp.array([4, -4, 2, 0]), jnp.int32(4))
    np.testing.assert_allclose(result, [indigo.LEAST, indigo.LEAST, 0.75, 1.0])
    np.testing.assert_array_equal(indigo.weights(jnp.zeros(2, jnp.int32), jnp.int32(0)), [1, 1])


@pytest.mark.thorough
def test_statistics_match_the_reference():
    config, key = Annealing(RULES, simulations=20, lanes=8), jax.random.key(1)
    states, game = two_games()
    result = jax.jit(lambda key: indigo.learn(config, key, states))(key)
    visits, sums = (np.zeros((2, 9), np.int64) for _ in range(2))
    owners = np.zeros(9, np.int64)
    positions = jax.tree.map(lambda x: jnp.repeat(x, 8, axis=0), states.position)
    assert config.rounds == 3
    for i in range(3):
        mean = np.asarray(1 / indigo.weights(owners.astype(np.int32), np.int32(8 * i)))
        clock = engine.init_clock(positions, jax.random.fold_in(key, i), engine.lane_ids(16))
        for lane in range(8, 16):
            place = mean * reference.places(np.zeros((2, 9)), 1.0, int(clock.stride[lane]))
            end, actions = reference.play_out(game, place)
            reference.add(visits, sums, game, end, actions, KOMI)
            owners += end.owners()
    np.testing.assert_array_equal(result.values.visits[1], visits)
    np.testing.assert_array_equal(result.values.sums[1], sums)
    np.testing.assert_array_equal(result.owners[1], owners)
    assert 0 < np.abs(owners).max() < 24 < visits.sum()


@pytest.mark.thorough
def test_it_plays_the_best_value():
    config, key = Annealing(RULES, simulations=64), jax.random.key(0)
    states, _ = two_games()
    legal = jax.vmap(lambda state: legal_actions(RULES, state))(states)
    turn = Turn(states, legal, jnp.full((2, 2), -1))
    chosen = jax.jit(indigo.player(config, resign=-0.05).choose)(None, key, turn, None)
    known = jax.jit(indigo.learn, static_argnums=0)(config, key, states)
    black, white = np.array(known.values.q[0, 0]), np.array(known.values.q[1, 1])
    white[4] = -2  # Black's stone is there
    assert chosen.action.tolist() == [black.argmax(), white.argmax()]
    assert chosen.resigns.tolist() == [black.max() < -0.05, white.max() < -0.05]
