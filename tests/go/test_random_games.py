"""Random games on every kind of board, against the plain reference and sgfmill."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from gozero.go import rules as go
from gozero.go.coords import KO_RULES
from tests.go.stepping import NO_LIMIT, compare_random_games

# size, ko, suicide, games, moves: one size for each number of rows per word (two rows: slow), and
# words of one row, up to 25 of them.
QUICK = [
    (2, "positional", False, 40, 60),
    pytest.param(2, "situational", True, 40, 60, marks=pytest.mark.thorough),
    pytest.param(3, "simple", False, 60, 120, marks=pytest.mark.thorough),
    pytest.param(3, "positional", False, 40, 120, marks=pytest.mark.thorough),
    pytest.param(3, "situational", False, 60, 120, marks=pytest.mark.slow),
    (3, "positional", True, 30, 120),
    pytest.param(4, "positional", False, 30, 120, marks=pytest.mark.thorough),
    pytest.param(4, "simple", True, 30, 120, marks=pytest.mark.slow),
    pytest.param(5, "simple", False, 30, 120, marks=pytest.mark.slow),
    pytest.param(5, "positional", False, 40, 120, marks=pytest.mark.thorough),
    pytest.param(7, "situational", True, 12, 120, marks=pytest.mark.thorough),
    (9, "positional", False, 4, 220),
    pytest.param(13, "simple", False, 3, 300, marks=pytest.mark.slow),
    pytest.param(19, "positional", False, 1, 360, marks=pytest.mark.thorough),
    pytest.param(19, "positional", False, 2, 260, marks=pytest.mark.slow),
    pytest.param(25, "situational", False, 1, 30, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("size", "ko", "suicide", "games", "moves"), QUICK)
def test_random_games_agree_with_reference_and_sgfmill(size, ko, suicide, games, moves):
    rules = go.Rules(size=size, ko=ko, suicide=suicide, max_moves=NO_LIMIT)
    counts = compare_random_games(rules, games, moves, seed=size)
    assert counts["positions"] > games * 10
    if size < 25:
        assert counts["captures"] > 0
    if size < 25 and suicide:
        assert counts["suicides"] > 0
    if ko != "simple" and size <= 5:
        assert counts["bans"] > 0
    if moves == 360:
        assert counts["kos"] > 0
    if ko != "simple" and suicide and size <= 3:
        assert counts["suicide_bans"] > 0


@pytest.mark.parametrize(
    ("size", "ko", "suicide"),
    [
        (2, "situational", False),
        pytest.param(3, "situational", True, marks=pytest.mark.thorough),
        (3, "positional", True),
    ],
)
def test_superko_holds_when_a_player_moves_twice(size, ko, suicide):
    """The turn is given away without a pass, so the player to move must be stored, not counted."""
    rules = go.Rules(size=size, ko=ko, suicide=suicide, max_moves=NO_LIMIT)
    counts = compare_random_games(rules, 30, 80, seed=size, extra_turns=0.2)
    assert counts["bans"] > 0
    assert not suicide or counts["suicide_bans"] > 0


@pytest.mark.slow
def test_a_hundred_thousand_positions_agree():
    """Sizes 2 to 25, all ko rules, suicide on and off; above 7x7, two of those six in rotation.

    Up to 7x7 every position of a game is compared, above that about forty spread over it.
    """
    total = Counter()
    for size in range(2, 26):
        for i, (ko, suicide) in enumerate(itertools.product(KO_RULES, (False, True))):
            if size > 7 and (size + i) % 3:
                continue
            rules = go.Rules(size=size, ko=ko, suicide=suicide, max_moves=NO_LIMIT)
            moves = min(3 * size**2 + 60, NO_LIMIT)
            games, every = (4000 // moves, 1) if size <= 7 else (2, moves // 40)
            counts = compare_random_games(rules, games, moves, size, every=every)
            print(size, ko, suicide, dict(counts), flush=True)
            total += counts
    print(dict(total))
    assert total["positions"] >= 100_000
    assert min(total[name] for name in ("captures", "suicides", "bans", "suicide_bans")) > 100
