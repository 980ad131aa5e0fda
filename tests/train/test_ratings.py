"""Elo of many players: cases worked by hand, a grid search over ratings, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gozero.runs import statistics
from train.ratings import PRIOR_ELO, Result, rate

DROP = 1.959964**2 / 2


def height(ratings, results, prior=PRIOR_ELO):
    """The log-likelihood of {player: Elo} plus the prior's logarithm, term by term."""
    pairs = {result[:2] for result in results}
    total = -sum((ratings[a] - ratings[b]) ** 2 for a, b in pairs) / (2 * prior**2)
    for first, second, points, games in results:
        wins = statistics.expected_score(ratings[first] - ratings[second])
        total += points * math.log(wins) + (games - points) * math.log1p(-wins)
    return total


@pytest.mark.parametrize(
    ("points", "elo"), [(32, 0.0), (48, 190.85), (16, -190.85), (60.5, 495.08)]
)
def test_two_players(points, elo):
    rating = rate([Result("a", "chance", points, 64)], "chance")["a"]
    assert rating.elo == pytest.approx(elo, abs=0.2)
    assert rating.elo == pytest.approx(statistics.elo(points / 64), abs=0.3)
    assert (rating.points, rating.games) == (points, 64)


def test_the_anchor_is_0():
    rating = rate([Result("a", "b", 48, 64)], "a")
    assert rating["a"][:4] == (0, 0, 0, 0)
    assert rating["b"].elo == pytest.approx(-190.85, abs=0.1)
    assert rate([Result("a", "b", 48, 64)], "a", subset=["b"]) == {"b": rating["b"]}


def test_a_chain_adds_up():
    """In a chain of players who met only their neighbours, each step depends on its own match."""
    results = [Result("b", "a", 15, 20), Result("c", "b", 10, 30), Result("d", "c", 36, 40)]
    rating = rate(results, "a")
    steps = [statistics.elo(score) for score in (15 / 20, 10 / 30, 36 / 40)]
    for player, elo in zip("bcd", itertools.accumulate(steps), strict=True):
        assert rating[player].elo == pytest.approx(elo, abs=0.5)
    # Variances add up along the chain: 1 / (k^2 n p (1 - p)) each.
    parts = [
        1 / ((math.log(10) / 400) ** 2 * n * p * (1 - p))
        for n, p in ((20, 15 / 20), (30, 1 / 3), (40, 0.9))
    ]
    for player, variance in zip("bcd", itertools.accumulate(parts), strict=True):
        assert rating[player].error == pytest.approx(math.sqrt(variance), rel=0.01)


def test_matches_of_a_pair_are_one_and_the_order_does_not_matter():
    separate = [Result("a", "o", 9, 10), Result("o", "a", 4, 10), Result("b", "a", 3, 4)]
    together = [Result("b", "a", 3, 4), Result("a", "o", 15, 20)]
    for player, rating in rate(separate, "o").items():
        assert rating == pytest.approx(rate(together, "o")[player])


def test_a_grid_of_all_ratings():
    """Estimates and intervals of two players, by exhaustive search over a grid."""
    results = [Result("a", "o", 7.5, 10), Result("b", "o", 9, 10), Result("b", "a", 5, 8)]
    places = np.arange(-400, 1300, 4.0)
    heights = np.array(
        [[height({"o": 0.0, "a": a, "b": b}, results) for b in places] for a in places]
    )
    top = heights.max()
    rating = rate(results, "o")
    for player, axis in (("a", 1), ("b", 0)):
        profile = heights.max(axis=axis)
        inside = places[profile >= top - DROP]
        result = rating[player]
        assert result.elo == pytest.approx(places[profile.argmax()], abs=4)
        assert result.low == pytest.approx(inside[0], abs=5)
        assert result.high == pytest.approx(inside[-1], abs=5)


def test_many_games_make_an_interval_of_standard_errors():
    results = [Result("a", "o", 6000, 10_000), Result("b", "a", 5500, 10_000)]
    for player in "ab":
        result = rate(results, "o")[player]
        assert result.high - result.elo == pytest.approx(1.96 * result.error, rel=0.02)
        assert result.elo - result.low == pytest.approx(1.96 * result.error, rel=0.02)


@pytest.mark.parametrize("points", [0, 64])
def test_players_who_won_or_lost_everything_have_finite_ratings(points):
    result = rate([Result("a", "o", points, 64)], "o")["a"]
    sign = 1 if points else -1
    assert 1000 < sign * result.elo < 2000
    # 64 log(1 + 10^(-x / 400)) is 1.92, the interval's drop in log-likelihood, at x = 602.
    least, most = sorted((abs(result.low), abs(result.high)))
    assert least == pytest.approx(602, abs=2)
    assert most < 2 * PRIOR_ELO
    assert result.low * result.high > 0


def test_later_players_do_not_move_one_who_won_everything():
    """In a run the first network beats chance in every game, and each later one that before it."""
    first = [Result("1", "chance", 64, 64)]
    later = [Result(str(i), str(i - 1), 40, 64) for i in range(2, 12)]
    alone = rate(first, "chance")["1"].elo
    rating = rate(first + later, "chance")
    assert rating["1"].elo == pytest.approx(alone, abs=1)
    assert rating["11"].elo == pytest.approx(alone + 10 * statistics.elo(40 / 64), abs=3)


def test_players_unconnected_to_the_anchor_get_the_prior():
    results = [Result("a", "o", 1, 2), Result("c", "d", 3, 4)]
    rating = rate(results, "o", prior=300.0)
    assert rating["c"].elo == pytest.approx(-rating["d"].elo)
    assert 0 < rating["c"].elo < statistics.elo(3 / 4) / 2
    assert rating["c"].high > 300


def test_known_ratings_are_recovered_from_results():
    rng = np.random.default_rng(0)
    true = {name: 150.0 * i for i, name in enumerate("abcdefgh")}
    results = []
    for first, second in itertools.combinations(true, 2):
        share = statistics.expected_score(true[first] - true[second])
        results.append(Result(first, second, rng.binomial(400, share), 400))
    rating = rate(results, "a")
    assert all(rating[name].low < elo < rating[name].high for name, elo in true.items() if elo)


@pytest.mark.parametrize(
    ("results", "more", "word"),
    [
        ([], {}, "anchor: 'o' has not played any game"),
        ([Result("a", "b", 1, 2)], {}, "anchor: 'o' has not played any game"),
        ([Result("o", "o", 1, 2)], {}, "'o' cannot play against itself"),
        ([Result("a", "o", 3, 2)], {}, "3 points in 2 games"),
        ([Result("a", "o", 1, 2)], {"confidence": 1.0}, "confidence: .* got 1.0"),
        ([Result("a", "o", 1, 2)], {"prior": 0.0}, "prior: .* got 0.0"),
    ],
)
def test_refusals(results, more, word):
    with pytest.raises(ValueError, match=word):
        rate(results, "o", **more)
