"""Openings of matches: legal, no two to the same board, in an order that stays."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from gozero.go import rules as go
from train import openings

RULES = go.Rules(size=3, ko="simple")
KEY = jax.random.key(4)


def boards(drawn):
    """{the stones of each}."""
    states = openings.after(RULES, drawn)
    found = np.asarray(jax.vmap(lambda state: go.stones(RULES, state))(states))
    return {board.tobytes() for board in found}


@pytest.mark.parametrize(("plies", "count"), [(1, 9), (2, 72), (3, 252)])
def test_all_of_them_come_once_and_then_they_have_run_out(plies, count):
    drawn = openings.distinct(RULES, plies, KEY, 10_000)
    assert drawn.shape == (count, plies)
    assert len(boards(drawn)) == count


def test_as_many_as_are_wanted_and_with_more_the_first_stay():
    few, many = (openings.distinct(RULES, 4, KEY, most) for most in (5, 600))
    assert (few.shape, many.shape) == ((5, 4), (600, 4))
    np.testing.assert_array_equal(few, many[:5])
    assert len(boards(many)) == 600
    other = openings.distinct(RULES, 4, jax.random.key(5), 5)
    assert (other != few).any()
