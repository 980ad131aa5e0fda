"""Openings of matches: legal, no two to the same position, in a fixed order."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from gozero.games.go import go_game
from gozero.games.hex import hex_game
from gozero.go import rules as go
from gozero.play import openings

RULES = go.Rules(size=3, ko="simple")
GAME = go_game(RULES)
KEY = jax.random.key(4)


def boards(drawn):
    """{(each position's stones, the point that ko bans)}."""
    states = openings.after(GAME, drawn)
    cells = np.asarray(jax.vmap(lambda state: go.stones(RULES, state))(states))
    return {(board.tobytes(), int(ko)) for board, ko in zip(cells, states.position.ko, strict=True)}


@pytest.mark.parametrize(
    ("plies", "count"), [(1, 9), (2, 72), pytest.param(3, 252, marks=pytest.mark.thorough)]
)
def test_all_openings_come_once(plies, count):
    drawn = openings.distinct(GAME, plies, KEY, 10_000)
    assert drawn.shape == (count, plies)
    assert len(boards(drawn)) == count


def test_the_first_openings_do_not_depend_on_the_number():
    few, many = (openings.distinct(GAME, 4, KEY, most) for most in (5, 600))
    assert (few.shape, many.shape) == ((5, 4), (600, 4))
    np.testing.assert_array_equal(few, many[:5])
    assert len(boards(many)) == 600
    other = openings.distinct(GAME, 4, jax.random.key(5), 5)
    assert (other != few).any()


def test_of_any_game():
    game = hex_game(3)
    drawn = openings.distinct(game, 2, KEY, 10_000)
    assert drawn.shape == (72, 2)
    assert (drawn[:, 0] != drawn[:, 1]).all()
    assert not jax.vmap(game.outcome)(openings.after(game, drawn))[0].any()
