"""Every game meets the search's requirements of a `Game`."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.connect_four import connect_four_game
from gozero.games.go import go_game
from gozero.games.hex import hex_game
from gozero.games.registry import NAMES, make_game, named_game
from gozero.go.rules import Rules
from gozero.nets.features import FEATURES
from gozero.play.evaluators import over_symmetries
from gozero.search.game import symmetries_of
from tests.games import contract
from tests.search import tictactoe
from tests.test_invariants import primitives

GAMES = {
    "tic-tac-toe": tictactoe.GAME,
    "connect four": connect_four_game(),
    "connect four, 4x5": connect_four_game(4, 5),
    "connect four, 8x7": connect_four_game(8, 7),
    "hex 3x3": hex_game(3),
    "hex 7x7": hex_game(7),
    "go 3x3": go_game(Rules(size=3)),
    "go 3x3, as planes": go_game(
        Rules(size=3), functools.partial(FEATURES["compact"].observe, Rules(size=3))
    ),
}


@pytest.mark.parametrize("name", GAMES)
def test_contract(name):
    results = contract.check_contract(GAMES[name])
    assert np.any(results != 0)


@pytest.mark.parametrize("name", ["tic-tac-toe", "connect four", "hex 7x7"])
def test_the_last_mover_never_loses(name):
    contract.check_values_change_sides(GAMES[name])


@pytest.mark.parametrize(
    "name", ["connect four", "connect four, 4x5", "hex 3x3", "hex 7x7", "go 3x3, as planes"]
)
def test_symmetries(name):
    contract.check_symmetries(GAMES[name])


def test_a_function_of_symmetries_is_refused():
    old = lambda planes, policy: (planes[None], policy[None])
    game = connect_four_game()._replace(symmetries=old)
    message = r"^symmetries: this game's are a function; they must be gozero\.Symmetries"
    for use in (symmetries_of, contract.check_symmetries, lambda x: over_symmetries(x, None)):
        with pytest.raises(ValueError, match=message):
            use(game)


@pytest.mark.parametrize("name", ["connect four", "hex 7x7"])
def test_invariant_1_rules_gather_nothing(name):
    game = GAMES[name]

    def step(state, action):
        after = game.play(state, action)
        return after, game.legal(after), game.outcome(after), game.observe(after)

    states = jax.eval_shape(lambda: contract.new_states(game))
    actions = jax.ShapeDtypeStruct((contract.BATCH,), np.int32)
    result = primitives(jax.make_jaxpr(jax.vmap(step))(states, actions).jaxpr)
    assert result.isdisjoint({"gather", "scatter", "dynamic_slice", "dynamic_update_slice", "sort"})
    assert "select_n" in result


def test_games_by_name():
    assert make_game("connect4").num_actions == 7
    assert make_game("hex").num_actions == 121
    assert make_game("hex", 5).num_actions == 25
    assert make_game("go", 5).num_actions == 26
    assert make_game("hex", np.int64(5)) is make_game("hex", 5) is hex_game(np.uint8(5))
    assert connect_four_game(np.int64(7)) is make_game("connect4") is connect_four_game(7, height=6)
    for name in NAMES:
        named = named_game(name)
        assert len(named.action_names) == len(set(named.action_names)) == named.game.num_actions


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("chess", None, r"^game: 'chess' is not one of go, connect4, hex, pgx:NAME"),
        ("pgx", None, r"^game: 'pgx' is not one of"),
        ("hex:", 5, r"^game: 'hex:' is not one of"),
        ("go:9", None, r"^game: 'go:9' is not one of"),
        ("connect4", 7, r"^size: connect4 comes in one size"),
        ("hex", 14, r"^size: 14 is not from 3 to 13"),
        ("hex", 3.0, r"^size: 3.0 is not from 3 to 13"),
    ],
)
def test_bad_names_and_sizes(name, size, message):
    make_game("hex", 3)  # in the cache, where 3.0 equals 3
    with pytest.raises(ValueError, match=message):
        make_game(name, size)


def test_records_of_games():
    assert named_game("connect4").record([3, 3, 2]) == "4 4 3"
    assert named_game("hex", 3).record([4, 2, 7]) == "b2 c1 b3"
    assert named_game("go", 3).record([4, 9]) == "B2 pass"


@pytest.mark.parametrize("game", [connect_four_game(), hex_game(5)])
def test_an_action_of_another_shape_or_type_is_refused(game):
    state = game.init(jax.random.key(0))
    assert jax.tree.leaves(game.play(state, 2))  # an int is an action
    with pytest.raises(ValueError, match="action: dtype float32 is not an integer type"):
        game.play(state, jnp.float32(2))
    with pytest.raises(ValueError, match=r"action: shape \(3,\) for one game, .* jax.vmap"):
        game.play(state, jnp.arange(3))


def test_games_are_made_once():
    assert connect_four_game() is connect_four_game()
    assert hex_game(5) is hex_game(5)
