"""Networks of other games: heads that fit the actions, against NumPy, in files and in a search."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.go import go_game
from gozero.games.registry import make_game
from gozero.go.rules import Rules
from gozero.nets import network, weights
from gozero.nets.network import NetworkConfig
from gozero.play.evaluators import make_evaluator
from gozero.play.networks import network_evaluator
from gozero.search.config import SearchConfig
from gozero.search.game import Game
from gozero.search.search import search
from tests.nets.test_heads import waves
from tests.reference import network as reference

ROWS, COLUMNS, CHANNELS = 2, 3, 4
apply = jax.jit(network.apply, static_argnums=0)


def toy(num_actions) -> Game:
    """A game of ROWS * COLUMNS moves, whose bool observation counts the moves made."""
    last = ROWS * COLUMNS

    def observe(state):
        filled = jnp.arange(last).reshape(ROWS, COLUMNS, 1) < state
        return jnp.broadcast_to(filled, (ROWS, COLUMNS, CHANNELS))

    return Game(
        num_actions=num_actions,
        init=lambda key: jnp.int32(0),
        play=lambda state, action: jnp.minimum(state + 1, last),
        legal=lambda state: jnp.broadcast_to(state < last, (num_actions,)),
        outcome=lambda state: (state >= last, jnp.float32(-1)),
        observe=observe,
        max_moves=last,
    )


@pytest.mark.parametrize(
    ("num_actions", "head"), [(6, "points"), (7, "points and pass"), (3, "dense"), (9, "dense")]
)
def test_the_policy_head_follows_from_the_actions(num_actions, head):
    config = network.of_game(toy(num_actions), blocks=2, channels=4, pool_every=2)
    assert config.observation == (ROWS, COLUMNS, CHANNELS)
    assert config.policy_head == head
    params = waves(config)
    planes = np.sin(np.arange(2 * 24, dtype=np.float32)).reshape(2, ROWS, COLUMNS, CHANNELS)
    output = apply(config, params, planes)
    assert output.policy_logits.shape == (2, num_actions)
    assert output.ownership is None
    for i in range(2):
        for name, expected in reference.forward(params, planes[i]).items():
            np.testing.assert_allclose(getattr(output, name)[i], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "size", "observation", "head"),
    [("connect4", None, (6, 7, 3), "dense"), ("hex", 5, (5, 5, 3), "points")],
)
def test_games_of_the_library(name, size, observation, head):
    config = network.of_game(make_game(name, size))
    assert (config.observation, config.policy_head) == (observation, head)


@pytest.mark.parametrize("num_actions", [3, pytest.param(6, marks=pytest.mark.thorough)])
def test_a_search_takes_the_game_in_place_of_rules(num_actions):
    game = toy(num_actions)
    evaluator = network_evaluator(game)
    assert evaluator.about["observation"] == (ROWS, COLUMNS, CHANNELS)
    assert "features" not in evaluator.about
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 4))
    config = SearchConfig(num_simulations=8, select=evaluator.select)
    result = jax.jit(lambda states: search(game, evaluator, jax.random.key(1), states, config))(
        states
    )
    assert result.visits.sum(axis=1).tolist() == [8] * 4
    assert bool(result.ok.all())


def test_weights_of_a_game_round_trip(tmp_path):
    config = network.of_game(toy(3), blocks=1, channels=4)
    path = weights.save(tmp_path / "w.safetensors", waves(config), config, game="toy")
    found, params, about = weights.load(path)
    assert found == config
    assert (about["size"], about["game"], about["planes"]) == (ROWS, "toy", CHANNELS)
    jax.tree.map(np.testing.assert_array_equal, params, waves(config))
    network_evaluator(toy(3), found, params)
    for other, says in (
        (toy(6), r"with 3 actions; this game needs one for .* with 6 actions"),
        (Rules(size=3), "a game other than Go"),
    ):
        with pytest.raises(ValueError, match=says):
            network_evaluator(other, found, params)


def test_evaluators_of_a_game_by_name(tmp_path):
    game = toy(3)
    assert make_evaluator(game, "playout").about == {"evaluator": "rollout"}
    fresh = make_evaluator(game, "network", seed=3)
    config = network.of_game(game)
    path = weights.save(tmp_path / "w.safetensors", fresh.params, config)
    again = make_evaluator(game, "network", path)
    jax.tree.map(np.testing.assert_array_equal, again.params, fresh.params)
    assert again.about["weights"] == str(path)
    with pytest.raises(ValueError, match="applies only to Go"):
        make_evaluator(game, "network", features="compact")
    with pytest.raises(ValueError, match="a game other than Go"):
        make_evaluator(Rules(size=2), "network", path)


def test_invalid_networks_of_a_game():
    with pytest.raises(ValueError, match=r"a network needs planes .* give the Rules"):
        network_evaluator(go_game(Rules(size=3)))
    with pytest.raises(ValueError, match="the network is for Go; this game needs"):
        network_evaluator(toy(3), NetworkConfig())
    with pytest.raises(ValueError, match="give both, or neither for Go"):
        NetworkConfig(num_actions=3)
    with pytest.raises(
        ValueError, match="auxiliary: only networks for Go have heads for ownership and score"
    ):
        network.of_game(toy(3), auxiliary=True)
    with pytest.raises(ValueError, match="give the board size"):
        weights.save("w.safetensors", {}, NetworkConfig())
