"""The C yardstick plays the same kind of games as our playouts: their averages agree."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.throughput import yardstick
from gozero.go import rules as go
from gozero.playouts.policies.uniform import uniform_playouts

pytestmark = pytest.mark.skipif(not yardstick.installed(), reason="no gcc")

KOMI = 6.5


def difference_in_errors(mean, error, other_mean, other_error):
    """The difference of two means in standard errors."""
    return abs(mean - other_mean) / math.hypot(error, other_error)


@pytest.mark.thorough
def test_averages_match_our_playouts():
    size, games = 5, 20_000
    theirs = yardstick.play(size, games, seed=1)
    rules = go.Rules(size=size, ko="simple")
    positions = jax.vmap(lambda _: go.empty_position(rules))(jnp.arange(games))
    ours = jax.jit(lambda p, k: uniform_playouts(rules, p, k))(positions, jax.random.key(1))
    for sample, name in [(ours.moves, "mean_moves"), (ours.score > KOMI, "black_wins")]:
        sample = np.asarray(sample, np.float64)
        error = sample.std() / math.sqrt(games)
        difference = difference_in_errors(
            theirs[name], theirs[f"{name}_error"], sample.mean(), error
        )
        assert difference < 3, (name, theirs[name], sample.mean())


def test_averages_match_libego():
    """libEGO's figures: 10,000 games on 9x9 (110.9 moves, 44.4% won by Black)."""
    theirs = yardstick.play(9, 50_000, seed=1)
    assert abs(theirs["mean_moves"] - 110.9) < 3 * theirs["mean_moves_error"]
    assert abs(theirs["black_wins"] - 0.444) < 3 * theirs["black_wins_error"]


def test_first_plays_change_no_game_and_share_the_board():
    plain, amaf = (yardstick.play(5, 1000, seed=3, amaf=amaf) for amaf in (False, True))
    assert amaf["mean_moves"] == plain["mean_moves"]
    assert amaf["black_wins"] == plain["black_wins"]
    assert 25 / 3 < amaf["mean_first_plays_by_black"] < 2 * 25 / 3


def test_the_seed_decides_the_games():
    first, again, other = (yardstick.play(5, 1000, seed=s)["mean_moves"] for s in (1, 1, 2))
    assert first == again != other
