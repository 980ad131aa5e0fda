"""Bad arguments raise a ValueError on the host that names the argument."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gozero
from gozero.go import rules as go
from tests.go.stepping import new_games

RULES = go.Rules(size=3)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"size": 1}, "size: 1 is not a board size from 2 to 25"),
        ({"size": 26}, "size: 26 is not a board size from 2 to 25"),
        ({"size": 9.0}, "size: 9.0 is not a whole number"),
        ({"size": True}, "size: True"),
        ({"ko": "super"}, "ko: 'super' is not a ko rule; use one of simple, positional, situat"),
        ({"ko": None}, "ko: None"),
        ({"suicide": 1}, "suicide: 1 is not True or False"),
        ({"max_moves": 0}, "max_moves: 0"),
        ({"max_moves": 30.5}, "max_moves: 30.5"),
        ({"max_moves": 2**15}, "max_moves: 32768"),
    ],
)
def test_rules(arguments, says):
    with pytest.raises(ValueError, match=says):
        go.Rules(**arguments)


@pytest.mark.parametrize(
    "komi", [float("nan"), float("inf"), 0.3, 1e30, 1000.5, [0.5, 1.5], "7", None, True]
)
def test_komi(komi):
    with pytest.raises(ValueError, match="komi: "):
        go.init(RULES, komi)


def test_komi_under_jit():
    with pytest.raises(ValueError, match=r"komi: shape \(2,\)"):
        jax.jit(lambda komi: go.init(RULES, komi))(jnp.zeros(2))


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (1.0, "action: dtype float"),
        (np.float32(1), "action: dtype float32"),
        (True, "action: dtype bool"),
        (jnp.array([1, 2]), r"action: shape \(2,\) for one game.*jax.vmap"),
        ([1], r"action: shape \(1,\)"),
        ("D4", "action: dtype <U2"),
    ],
)
def test_actions(action, says):
    with pytest.raises(ValueError, match=says):
        go.play(RULES, go.init(RULES), action)
    if not isinstance(action, str | list):
        with pytest.raises(ValueError, match=says):
            jax.jit(lambda a: go.play(RULES, go.init(RULES), a))(action)


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (go.Rules(size=4), "state: a game on 3x3, but the rules are for 4x4"),
        (
            go.Rules(size=3, ko="simple"),
            "state: a game with past boards, .* ko='simple', .* keep none",
        ),
        (go.Rules(size=3, ko="situational"), "state: a game under positional ko"),
        (go.Rules(size=3, max_moves=19), "up to 18 moves, but the rules allow 19"),
    ],
)
@pytest.mark.parametrize(
    "function",
    [lambda r, s: go.play(r, s, 0), go.legal_actions, go.stones, gozero.area_score],
)
def test_a_state_of_other_rules(rules, says, function):
    with pytest.raises(ValueError, match=says):
        function(rules, go.init(RULES))


def test_a_batch_where_one_game_is_expected():
    states = new_games(RULES, 2)
    for function in (go.legal_actions, go.stones, gozero.area_score, gozero.ownership):
        with pytest.raises(ValueError, match=r"state: games of shape \(2,\).*jax.vmap"):
            function(RULES, states)
    with pytest.raises(ValueError, match=r"state: games of shape \(2,\)"):
        go.play(RULES, states, 0)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, jnp.int32])
def test_any_integer_is_an_action(dtype):
    state = go.play(RULES, go.init(RULES), dtype(4))
    assert int(go.stones(RULES, state)[1, 1]) == 1
