"""Ordered playouts beside the plain reference."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import rules as go
from gozero.playouts import engine
from gozero.playouts.policies import ordered
from tests.playouts.positions import SETTLED, game_of, positions_of, random_games
from tests.reference import ordered as reference
from tests.reference.go import BLACK

RULES = go.Rules(5)


@jax.jit
def played(order, positions, key):
    ids = engine.lane_ids(positions.to_play.size)
    clock = engine.init_clock(positions, key, ids)
    return engine.play_out(ordered.policy(order), RULES, positions, key), clock


def test_whole_playouts_match_the_reference():
    games = random_games(5, 24, seed=2)
    rank = np.array([np.random.RandomState(colour).permutation(25) for colour in (0, 1)])
    for temperature in (0.0, 4.0):
        lists = jnp.repeat(jnp.array(rank, jnp.float32)[..., None], 24, axis=-1)
        order = ordered.Order(lists, jnp.full_like(lists, temperature))
        ended, clock = played(order, positions_of(games), jax.random.key(3))
        for lane, game in enumerate(games):
            place = reference.places(rank, temperature, int(clock.stride[lane]))
            end, actions = reference.play_out(game, place)
            assert ended.moves[lane] == len(actions)
            assert ended.score[lane] == end.area()
            assert not actions or ended.first_action[lane] == actions[0]


def test_how_far_down_a_point_is_moved():
    """By n places or more with the probability exp(-n / T)."""
    positions = positions_of([game_of("..... " * 5)] * 4096)
    order = ordered.Order(jnp.zeros((2, 25, 4096)), jnp.full((2, 25, 4096), 3.0))
    clock = engine.init_clock(positions, jax.random.key(0), engine.lane_ids(4096))
    for down in np.asarray(ordered.places(order, clock)):
        for n in (1, 3, 6):
            np.testing.assert_allclose(np.mean(down >= n), np.exp(-n / 3), atol=0.005)
        assert abs(np.corrcoef(down[:2])[0, 1]) < 0.06  # four deviations


def test_a_pass_only_without_other_moves():
    order = ordered.Order(jnp.zeros((2, 25, 1)), jnp.zeros((2, 25, 1)))
    ended, _ = played(order, positions_of([game_of(SETTLED, BLACK)]), jax.random.key(0))
    assert ended.moves.tolist() == [2]
    assert ended.first_action.tolist() == [25]
