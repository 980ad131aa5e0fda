"""Names of points."""

from __future__ import annotations

import doctest

import pytest

from gozero.go import coords


def test_examples_in_the_docstrings():
    assert doctest.testmod(coords).failed == 0


@pytest.mark.parametrize("size", [2, 9, 19, 25])
def test_round_trips(size):
    for action in range(size * size + 1):
        assert coords.from_gtp(size, coords.to_gtp(size, action)) == action
        assert coords.from_sgf(size, coords.to_sgf(size, action)) == action


def test_known_points():
    assert coords.to_gtp(19, 72) == "Q16"
    assert coords.to_sgf(19, 72) == "pd"
    assert coords.from_sgf(19, "tt") == 361
    assert coords.from_sgf(25, "tt") == 19 * 25 + 19


@pytest.mark.parametrize("vertex", ["I5", "A0", "A10", "K1", "", "5", "AA", "D4x", "D-1", "D٣"])
def test_bad_vertices(vertex):
    with pytest.raises(ValueError, match="expected A1 to J9, or pass"):
        coords.from_gtp(9, vertex)


@pytest.mark.parametrize("point", ["a", "jj", "AA", "abc", "zz"])
def test_bad_sgf_points(point):
    with pytest.raises(ValueError, match="invalid SGF point"):
        coords.from_sgf(9, point)


@pytest.mark.parametrize("action", [-1, 81, 82])
def test_bad_actions(action):
    with pytest.raises(ValueError, match="not a point"):
        coords.row_col(9, action)
