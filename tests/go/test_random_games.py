"""Random games on every kind of board, beside the plain reference and sgfmill."""

from __future__ import annotations

import pytest

from gozero.go import rules as go
from tests.go.stepping import NO_LIMIT, compare_random_games

# size, ko, games, moves: one size for each number of rows a word holds, and a word of one row.
QUICK = [
    (2, "positional", 80, 60),
    (3, "simple", 60, 120),
    (3, "positional", 80, 120),
    (4, "positional", 60, 120),
    (5, "simple", 30, 120),
    (5, "positional", 40, 120),
    (7, "positional", 20, 160),
    (9, "positional", 10, 220),
    (13, "simple", 3, 300),
    (19, "positional", 2, 260),
]


@pytest.mark.parametrize(("size", "ko", "games", "moves"), QUICK)
def test_random_games_agree_with_reference_and_sgfmill(size, ko, games, moves):
    rules = go.Rules(size=size, ko=ko, max_moves=NO_LIMIT)
    counts = compare_random_games(rules, games, moves, seed=size)
    assert counts["positions"] > games * 10
    assert counts["captures"] > 0
    if ko == "positional" and size <= 5:
        assert counts["bans"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("ko", ["simple", "positional"])
@pytest.mark.parametrize("size", range(2, 20))
def test_every_size_agrees_over_many_games(size, ko):
    rules = go.Rules(size=size, ko=ko, max_moves=NO_LIMIT)
    games = max(6, 900 // size**2)
    counts = compare_random_games(rules, games, 3 * size**2 + 60, seed=100 + size)
    assert counts["positions"] > games * 10
