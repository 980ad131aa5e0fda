"""Scores, intervals, Elo and the sequential test, against numbers worked by hand."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from gozero.runs import statistics
from gozero.runs.statistics import Sprt, Tally

Z = 1.959963984540054


def test_a_tally_counts():
    games = Tally.of([1, 1, 0.5, 0, 1, 0.5])
    assert games == Tally(wins=3, draws=2, losses=1)
    assert (games.games, games.points, games.score) == (6, 4.0, 4 / 6)
    assert str(games) == "+3 =2 -1"
    assert math.isnan(Tally().score)
    with pytest.raises(ValueError, match=r"0\.7 is not 0, 0\.5 or 1"):
        Tally.of([1, 0.7])


@pytest.mark.parametrize(
    ("score", "elo"), [(0.5, 0.0), (10 / 11, 400.0), (1 / 11, -400.0), (0.64, 99.9550)]
)
def test_elo(score, elo):
    # 400 log10(0.64 / 0.36) = 400 * 0.249877 (log10 of 16/9, which is 2 log10(4/3))
    assert statistics.elo(score) == pytest.approx(elo, abs=0.01)
    assert statistics.expected_score(elo) == pytest.approx(score, abs=1e-4)


def test_elo_of_all_or_nothing():
    assert (statistics.elo(1.0), statistics.elo(0.0)) == (math.inf, -math.inf)
    assert math.isnan(statistics.elo(math.nan))


def test_wilson_by_hand():
    # 50 of 100: half = z / (1 + z^2/n) sqrt(1/(4n) + z^2/(4n^2)) = z / (2 sqrt(n + z^2)).
    half = Z / (2 * math.sqrt(100 + Z * Z))
    assert half == pytest.approx(0.09617, abs=1e-5)
    assert statistics.wilson(0.5, 100) == pytest.approx((0.5 - half, 0.5 + half))
    # All of 10: the lower end is n / (n + z^2) = 10 / 13.8415.
    assert statistics.wilson(1.0, 10) == pytest.approx((0.72247, 1.0), abs=1e-5)
    assert statistics.wilson(0.0, 10) == pytest.approx((0.0, 0.27753), abs=1e-5)
    for count in range(1, 400):  # exact in spite of rounding, so that Elo is infinite there
        assert statistics.wilson(0.0, count)[0] == 0.0
        assert statistics.wilson(1.0, count)[1] == 1.0
    narrow, wide = statistics.wilson(0.3, 50, 0.5), statistics.wilson(0.3, 50, 0.99)
    assert wide[0] < narrow[0] < 0.3 < narrow[1] < wide[1]


@pytest.mark.parametrize(
    ("arguments", "named"), [((1.2, 5), "score"), ((0.5, 0), "count"), ((0.5, 5, 1.0), "confid")]
)
def test_wilson_refuses(arguments, named):
    with pytest.raises(ValueError, match=named):
        statistics.wilson(*arguments)


def test_pair_interval_by_hand():
    # 100 pairs, 60 at 1/2 and 20 each at 0 and 1, and two more at 0 and 1: m' = 1/2, S' = 42 / 4,
    # and r = 10.5 / (102 / 4) = 7 / 17: as many as 100 * 17 / 7 independent games.
    pairs = [0.5] * 60 + [0.0] * 20 + [1.0] * 20
    half = Z / (2 * math.sqrt(100 * 17 / 7 + Z * Z))
    assert statistics.pair_interval(pairs) == pytest.approx((0.5 - half, 0.5 + half))
    # All won: the same as that many games. All halves: r = 2 / (n + 2).
    assert statistics.pair_interval([1.0] * 10) == pytest.approx((0.72247, 1.0), abs=1e-5)
    half = Z / (2 * math.sqrt(20 * 11 + Z * Z))
    assert statistics.pair_interval([0.5] * 20) == pytest.approx((0.5 - half, 0.5 + half))
    with pytest.raises(ValueError, match="pairs"):
        statistics.pair_interval([])


def test_half_pairs_by_hand():
    # Weights 2, 2, 1: m = (1 + 2 + 0) / 5 = 0.6, n = 25 / 9, and the sum of squares is
    # S = 25/9 (4 * 0.01 + 4 * 0.16 + 0.36) / 9 = 0.320988. With two more, n' = 43 / 9 and
    # m' = (15/9 + 1) / n' = 24/43: S' = S + 25/9 (0.6 - 24/43)^2 + (24/43)^2 + (19/43)^2, which is
    # 0.832616, and r = S' / (n' (24/43) (19/43)) = 0.706628.
    result = statistics.pair_interval([0.5, 1.0, 0.0], games=[2, 2, 1])
    assert result == pytest.approx(statistics.wilson(0.6, 25 / 9 / 0.706628), abs=1e-6)
    two = statistics.pair_interval([0.5, 1.0])
    assert statistics.pair_interval([0.5, 1.0], games=[2, 2]) == two
    # Single games: Wilson's interval.
    assert statistics.pair_interval([1.0, 0.0, 1.0], games=[1, 1, 1]) == statistics.wilson(2 / 3, 3)
    with pytest.raises(ValueError, match=r"games: 0.0 is not above 0"):
        statistics.pair_interval([0.5, 1.0], games=[2, 0])


def test_half_pairs_have_the_stated_coverage():
    rng, held = np.random.default_rng(3), 0
    for _ in range(500):
        games = rng.choice([1, 2], 40)
        bias = rng.choice([-0.2, 0.2], 40)  # of an opening, which favours one side
        shares = 0.6 + bias[:, None] * np.array([1, -1])
        points = rng.random((40, 2)) < shares
        means = np.where(games == 2, points.mean(axis=1), points[:, 0])
        low, high = statistics.pair_interval(means, games=games)
        held += low <= 0.6 <= high
    assert held / 500 > 0.92


def test_pairs_of_independent_games_are_as_wide_as_games():
    rng = np.random.default_rng(1)
    points = (rng.random(20_000) < 0.7).astype(float)
    low, high = statistics.pair_interval(statistics.pair_scores(points))
    plain = statistics.wilson(points.mean(), 20_000)
    assert high - low == pytest.approx(plain[1] - plain[0], rel=0.05)
    # If both games of a pair end alike, they count as one; if they cancel out, the width is tiny.
    alike = statistics.pair_interval(statistics.pair_scores(np.repeat(points[:10_000], 2)))
    assert alike[1] - alike[0] == pytest.approx(math.sqrt(2) * (high - low), rel=0.05)


@pytest.mark.parametrize(
    ("shares", "count"),
    [
        ([0, 0, 0.9, 0, 0.1], 20),
        ([0, 0, 0.95, 0, 0.05], 60),
        ([0.05, 0.1, 0.6, 0.15, 0.1], 8),
        ([0.05, 0.1, 0.6, 0.15, 0.1], 60),
        ([0, 0, 0.1, 0, 0.9], 8),
        ([0, 0, 0.02, 0.03, 0.95], 60),
        ([0.3, 0, 0.4, 0, 0.3], 30),
    ],
)
def test_the_pair_interval_has_its_stated_coverage(shares, count):
    rng, values = np.random.default_rng(2), np.arange(5) / 4
    mean, held = float(np.dot(shares, values)), 0
    for _ in range(500):
        low, high = statistics.pair_interval(rng.choice(values, count, p=shares))
        held += low <= mean <= high
    assert held / 500 > 0.92  # 0.95 minus three standard deviations of 500 trials


@pytest.mark.parametrize("count", [10, 25, 50, 100, 200])
def test_the_stated_coverage_of_pairs_won_or_lost(count):
    """Exactly, by the binomial distribution."""
    wins = np.arange(count + 1)
    intervals = [statistics.pair_interval(np.repeat([1.0, 0.0], [k, count - k])) for k in wins]
    low, high = np.array(intervals).T
    means = np.linspace(0, 1, 1001)[1:-1]
    chances = np.array([math.comb(count, int(k)) for k in wins], np.float64)
    chances = chances * means[:, None] ** wins * (1 - means[:, None]) ** (count - wins)
    coverage = (chances * ((low <= means[:, None]) & (means[:, None] <= high))).sum(1)
    assert coverage.min() > 0.83
    assert coverage[(means >= 0.1) & (means <= 0.9)].min() > 0.91
    assert coverage.mean() == pytest.approx(0.95, abs=0.01)


def test_a_summary():
    points = [1, 0, 1, 1, 0.5, 0, 1, 1]
    is_black = [True, False] * 4
    summary = statistics.summarise(points, is_black)
    assert summary.total == Tally(5, 1, 2)
    assert summary.as_black == Tally(3, 1, 0)
    assert summary.as_white == Tally(2, 0, 2)
    assert summary.score == 5.5 / 8
    assert summary.interval == statistics.pair_interval([0.5, 1.0, 0.25, 1.0])
    assert summary.elo == pytest.approx(136.97, abs=0.01)  # 400 log10(11/5) = 400 * 0.342423
    assert summary.elo_interval == tuple(map(statistics.elo, summary.interval))
    assert "+5 =1 -2 of 8: 68.8%" in str(summary)
    assert "as Black +3 =1 -0, as White +2 =0 -2" in str(summary)


@pytest.mark.parametrize(
    ("points", "is_black", "named"),
    [
        ([], [], "n at least 1"),
        ([1, 0], [True], "the same"),
        ([1, 0, 1], [True] * 3, "expected an even number"),
    ],
)
def test_a_summary_refuses(points, is_black, named):
    with pytest.raises(ValueError, match=named):
        statistics.summarise(points, is_black)


def test_sprt_of_wins_and_losses_equals_walds_test():
    """60 won and 40 lost, 0.5 against 0.6: 60 ln 1.2 + 40 ln 0.8 = 10.9393 - 8.9257."""
    test = Sprt(elo0=0, elo1=statistics.elo(0.6))
    points = [1.0] * 60 + [0.0] * 40
    assert test.log_likelihood_ratio(points) == pytest.approx(2.01355, abs=1e-5)
    # A result not seen yet gets the probability that the other one leaves.
    assert test.log_likelihood_ratio([1.0] * 7) == pytest.approx(7 * math.log(1.2))
    assert test.log_likelihood_ratio([0.0] * 7) == pytest.approx(7 * math.log(0.8))
    assert test.log_likelihood_ratio([]) == 0.0


def test_sprt_maximises_the_likelihood_for_each_mean():
    """Against a grid of the distributions on 0, 1/2, 1 with that mean, which have one parameter."""

    def best(wins, draws, losses, mean):
        d = np.linspace(0, 2 * min(mean, 1 - mean), 400_001)[1:-1]
        w = mean - d / 2
        return np.max(wins * np.log(w) + draws * np.log(d) + losses * np.log(1 - w - d))

    test = Sprt(0, 50)
    for wins, draws, losses in ((20, 30, 25), (3, 50, 1), (40, 5, 10)):
        points = [1.0] * wins + [0.5] * draws + [0.0] * losses
        means = [statistics.expected_score(x) for x in (0, 50)]
        low, high = (best(wins, draws, losses, mean) for mean in means)
        assert test.log_likelihood_ratio(points) == pytest.approx(high - low, abs=1e-4)


def test_sprt_bounds_and_decisions():
    test = Sprt(0, 20, alpha=0.05, beta=0.1)
    assert test.bounds == pytest.approx((math.log(0.1 / 0.95), math.log(0.9 / 0.05)))
    assert test.decision([0.5, 0.75, 0.5]) is None
    assert test.decision([0.5, 0.75] * 100) == "H1"
    assert test.decision([0.5, 0.25] * 100) == "H0"
    for bad in ({"elo0": 5, "elo1": 5}, {"alpha": 0.0}, {"beta": 0.6}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            Sprt(**bad)


@pytest.mark.parametrize(("true_elo", "right"), [(0, "H0"), (100, "H1")])
def test_sprt_has_its_stated_error_rates(true_elo, right):
    """Pairs of coin flips, tested after every six pairs, with each hypothesis exactly true."""
    test, trials, wrong, lengths = Sprt(0, 100, 0.1, 0.1), 100, 0, []
    rng = np.random.default_rng(7)
    for _ in range(trials):
        points = (rng.random(2000) < statistics.expected_score(true_elo)).astype(float)
        pairs = statistics.pair_scores(points)
        for count in range(6, len(pairs), 6):
            decision = test.decision(pairs[:count])
            if decision is not None:
                break
        assert decision is not None
        wrong += decision != right
        lengths.append(count)
    assert wrong / trials < 0.1 + 0.075  # 2.5 standard deviations
    # A test of fixed length needs (2 * 1.28 * 0.354 / 0.14)^2 = 42 pairs for the same error rates.
    assert 10 < np.mean(lengths) < 42


def test_the_tally_needs_no_jax():
    code = "import gozero.runs.statistics, sys; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
