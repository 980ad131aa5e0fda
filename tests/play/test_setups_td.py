"""Temporal-difference search in matches."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go.rules import Rules, legal_actions
from gozero.play.arena import play_match
from gozero.play.player import Turn, random_player
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_player
from gozero.play.td_player import td_player
from gozero.td import shapes
from gozero.td import weights as shape_weights
from gozero.td.shapes import Shapes
from gozero.td.weights import Learnt
from tests.go.stepping import new_games


def nothing(chosen: Shapes) -> Learnt:
    return Learnt(chosen, np.zeros(shapes.sharing(chosen).num_weights + 1, np.float32), {})


@pytest.mark.slow
def test_it_beats_random_moves_with_zero_weights():
    rules = Rules(5, max_moves=80)
    player = td_player(rules, 32, nothing(Shapes(5, largest=2)), lanes=16)
    match = play_match(rules, player, random_player(rules), jax.random.key(0), 8)
    assert match.ok.all()
    assert not match.truncated.any()
    assert match.points.sum() >= 6


@pytest.mark.thorough
def test_learned_weights_are_kept_until_the_game_ends():
    rules, learnt = Rules(3, ko="simple"), nothing(Shapes(3, largest=1))
    player = td_player(rules, 4, learnt, lanes=4, reuse_weights=True)
    states = new_games(rules, 2)
    choose = jax.jit(player.choose)

    def turn(memory, recent):
        legal = jax.vmap(lambda state: legal_actions(rules, state))(states)
        the_turn = Turn(states, legal, jnp.array(recent))
        return np.asarray(choose(player.params, jax.random.key(0), the_turn, memory).memory)

    new, going_on = [[-1, -1], [-1, -1]], [[-1, 4], [-1, 5]]
    first = turn(player.begin(player.params, states), new)
    assert (first[0] != learnt.weights).any()
    np.testing.assert_array_equal(turn(first, new), first)  # another game: initial weights again
    second = turn(first, going_on)
    np.testing.assert_array_equal(second[0], first[0])
    assert (second[1] != first[1]).any()
    assert td_player(rules, 4, learnt).begin is None


@pytest.mark.slow
def test_with_the_packaged_weights():
    rules = Rules(9)
    player, without = td_player(rules, 4, lanes=4), td_player(rules, 0)
    match = play_match(rules, player, without, jax.random.key(1), 4)
    assert match.ok.all()
    assert match.plies.min() > 40


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "size: no weights for 5x5 come with the package"),
        ({"learnt": nothing(Shapes(3))}, r"shapes: for size 3, but the rules are for 5"),
        ({"learnt": nothing(Shapes(5, 1)), "lanes": 0}, "lanes: 0 is not a whole number"),
    ],
)
def test_invalid_flags_are_named(more, message):
    with pytest.raises(ValueError, match=message):
        td_player(Rules(5), **more)


def test_without_a_search_it_plays_the_best_move_by_its_weights(tmp_path):
    """RLGO 1.0."""
    path, chosen = tmp_path / "mine.safetensors", Shapes(3, largest=1)
    share = shapes.sharing(chosen)
    weights = np.zeros(share.num_weights + 1, np.float32)
    shape_weights.save(path, chosen, weights)
    rules, flags = Rules(3), PlayerConfig(search="td", simulations=0, shapes=path)
    player = make_player(rules, flags).player
    states = new_games(rules, 2)
    legal = jax.vmap(lambda state: legal_actions(rules, state))(states)
    turn = Turn(states, legal, jnp.full((2, 2), -1))
    choice = jax.jit(player.choose)(player.params, jax.random.key(0), turn, None)
    assert choice.ok.all()
    assert (np.asarray(choice.action) < 9).all()
    np.testing.assert_array_equal(np.asarray(player.params.weights), weights)
    for search in ("puct", "rave", "annealing"):
        with pytest.raises(ValueError, match="--simulations 0: expected from 1"):
            PlayerConfig(search=search, simulations=0).check()
