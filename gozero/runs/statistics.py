"""Statistics of games between two players: score, intervals, Elo, sequential test. NumPy only.

Points are always one player's: 1 for a win, 1/2 for a draw, 0 for a loss. A score is their mean.
Two games that share an opening and swap colours are a pair. They are not independent of each
other, but pairs are, so an interval of paired games is computed from the scores of the pairs, the
means of their two games (0, 1/4, 1/2, 3/4 or 1).
"""

from __future__ import annotations

import dataclasses
import math
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

Interval = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Tally:
    """Games won, drawn and lost."""

    wins: int = 0
    draws: int = 0
    losses: int = 0

    @classmethod
    def of(cls, points: Any) -> Tally:
        """The tally of games' points, f[n].

        Raises:
          ValueError: points other than 0, 1/2 and 1.
        """
        points = np.asarray(points, np.float64).reshape(-1)
        invalid = points[~np.isin(points, (0.0, 0.5, 1.0))]
        if invalid.size:
            raise ValueError(f"points: {invalid[0]} is not 0, 0.5 or 1")
        count = lambda value: int(np.sum(points == value))
        return cls(wins=count(1.0), draws=count(0.5), losses=count(0.0))

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def points(self) -> float:
        return self.wins + self.draws / 2

    @property
    def score(self) -> float:
        """Points per game; nan if there are no games."""
        return self.points / self.games if self.games else math.nan

    def __str__(self) -> str:
        return f"+{self.wins} ={self.draws} -{self.losses}"


def elo(score: float) -> float:
    """The Elo difference with this expected score: 400 log10(s / (1 - s)).

    >>> elo(0.5), round(elo(0.75), 1), elo(1.0)
    (0.0, 190.8, inf)
    """
    if not 0 < score < 1:
        return math.nan if math.isnan(score) else math.copysign(math.inf, score - 0.5)
    return 400 * math.log10(score / (1 - score))


def expected_score(elo: float) -> float:
    """The inverse of `elo`: 1 / (1 + 10^(-elo / 400)).

    >>> expected_score(0.0), round(expected_score(400.0), 4)
    (0.5, 0.9091)
    """
    return 1 / (1 + 10 ** (-elo / 400))


def wilson(score: float, count: float, confidence: float = 0.95) -> Interval:
    """Wilson's (1927) confidence interval of a mean of `count` independent results in [0, 1].

    The means mu for which |score - mu| <= z sqrt(mu (1 - mu) / count). The variance is exact for
    wins and losses; draws have less, so with draws the interval is wider than necessary.

    Raises:
      ValueError: a score outside [0, 1], no results, a confidence not between 0 and 1.
    """
    if not 0 <= score <= 1:
        raise ValueError(f"score: {score} is not from 0 to 1")
    if not count > 0:
        raise ValueError(f"count: {count} is not above 0")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: {confidence} is not between 0 and 1")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    n = count
    middle = (score + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(score * (1 - score) / n + z * z / (4 * n * n))
    low, high = max(middle - half, 0.0), min(middle + half, 1.0)
    return low if score > 0 else 0.0, high if score < 1 else 1.0  # there, but for rounding


def pair_interval(pairs: Any, confidence: float = 0.95, games: Any = None) -> Interval:
    """A confidence interval of the mean of independent pairs, using their observed variance.

    Wilson's, with V(mu) = r mu (1 - mu) as the variance of a pair, where r is the observed variance
    as a fraction of the largest possible, at most 1. It is that of the n observed pairs and of two
    more, one won and one lost, as in Agresti & Coull's (1998) interval: r = S' / (n' m' (1 - m')),
    with the mean m' and the sum of squared deviations S' of these n' = n + 2 pairs. Without the
    two, a few pairs that happen to be equal would give an interval of width 0. If every pair is won
    or lost, r = 1: Wilson's interval. The two are for the variance only; the mean is the observed.

    An interval of 95% does not hold every true mean in 95% of matches. Of 10 to 200 pairs, won or
    lost, it holds one from 0.1 to 0.9 in at least 91% of them, on average 95%. Nearer to 0 and 1,
    as with Wilson's, there are means that it holds in only 84%.

    Half a pair counts half in the mean. With weights w the variance is that of a ratio of two sums:
    n = (sum w)^2 / sum w^2, and the sum of squared deviations is n sum w^2 (x - m)^2 / sum w^2.

    Args:
      pairs: f[n]; the score of each, in [0, 1].
      confidence: the confidence of the interval.
      games: f[n]; the number of games of each pair; None if it is the same for all.

    Raises:
      ValueError: no pairs, scores outside [0, 1], or pairs of no games.
    """
    pairs = np.asarray(pairs, np.float64).reshape(-1)
    if not pairs.size:
        raise ValueError("pairs: empty; expected at least one")
    weights = np.broadcast_to(np.asarray(1.0 if games is None else games, np.float64), pairs.shape)
    if not np.all(weights > 0):
        raise ValueError(f"games: {weights.min()} is not above 0")
    mean = float(np.sum(weights * pairs) / np.sum(weights))
    sum_of_squares = np.sum(weights**2)
    count = float(np.sum(weights) ** 2 / sum_of_squares)
    squared_deviations = count * float(np.sum((weights * (pairs - mean)) ** 2) / sum_of_squares)
    with_two = (count * mean + 1) / (count + 2)
    squared_deviations += count * (mean - with_two) ** 2 + with_two**2 + (1 - with_two) ** 2
    variance_ratio = squared_deviations / ((count + 2) * with_two * (1 - with_two))
    return wilson(mean, count / min(variance_ratio, 1.0), confidence)


@dataclasses.dataclass(frozen=True)
class Summary:
    """The result of a match, for the first player."""

    total: Tally
    as_black: Tally
    as_white: Tally
    interval: Interval  # of the score, at 95%, over pairs

    @property
    def score(self) -> float:
        return self.total.score

    @property
    def elo(self) -> float:
        """The first player's Elo minus the second's; infinite if all games were won or lost."""
        return elo(self.score)

    @property
    def elo_interval(self) -> Interval:
        low, high = self.interval
        return elo(low), elo(high)

    def __str__(self) -> str:
        low, high = self.interval
        elo_low, elo_high = self.elo_interval
        return (
            f"{self.total} of {self.total.games}: {self.score:.1%} [{low:.1%}, {high:.1%}], "
            f"Elo {self.elo:+.0f} [{elo_low:+.0f}, {elo_high:+.0f}]; "
            f"as Black {self.as_black}, as White {self.as_white}"
        )


def summarise(points: Any, is_black: Any) -> Summary:
    """The summary of games, of which 2i and 2i + 1 are a pair.

    Args:
      points: f[n]; the first player's.
      is_black: bool[n]; whether the first player had Black.

    Raises:
      ValueError: no games, invalid points, arrays of different shapes, an incomplete pair.
    """
    points = np.asarray(points, np.float64)
    is_black = np.asarray(is_black, bool)
    if points.ndim != 1 or points.shape != is_black.shape or not points.size:
        raise ValueError(
            f"points: shape {points.shape}, is_black: shape {is_black.shape}; "
            "expected the same (n,), n at least 1"
        )
    total = Tally.of(points)
    interval = pair_interval(pair_scores(points))
    as_black, as_white = Tally.of(points[is_black]), Tally.of(points[~is_black])
    return Summary(total, as_black, as_white, interval)


def pair_scores(points: Any) -> np.ndarray:
    """f64[n / 2]: the mean of each pair of games.

    Raises:
      ValueError: an odd number of games.
    """
    points = np.asarray(points, np.float64).reshape(-1)
    if points.size % 2:
        raise ValueError(f"points: {points.size} games; expected an even number, for pairs")
    return points.reshape(-1, 2).mean(axis=1)


Hypothesis = Literal["H0", "H1"]


@dataclasses.dataclass(frozen=True)
class Sprt:
    """A sequential test between two Elo differences, on results of games or of pairs.

    The generalised sequential probability ratio test: Wald's (1945), where each hypothesis takes
    the distribution of results that fits best among those with its mean (M. Van den Bergh, A
    Practical Introduction to the GSPRT). Call `decision` whenever there are new results.

    Attributes:
      elo0, elo1: the Elo differences of H0 and H1; elo0 is the lower.
      alpha: the probability of accepting H1 if H0 holds.
      beta: the probability of accepting H0 if H1 holds.

    Raises:
      ValueError: a field out of range; the message names it, its value and what is allowed.
    """

    elo0: float = 0.0
    elo1: float = 20.0
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self):
        if not self.elo0 < self.elo1:
            raise ValueError(f"elo0: {self.elo0} is not below elo1, {self.elo1}")
        for name in ("alpha", "beta"):
            if not 0 < getattr(self, name) < 0.5:
                raise ValueError(f"{name}: {getattr(self, name)} is not between 0 and 0.5")

    @property
    def bounds(self) -> Interval:
        """Bounds of the log-likelihood ratio: H0 from the first down, H1 from the second up."""
        lower = math.log(self.beta / (1 - self.alpha))
        return lower, math.log((1 - self.beta) / self.alpha)

    def log_likelihood_ratio(self, results: Any) -> float:
        """H1 against H0, given independent results f[n] in [0, 1]: `pair_scores`, or points."""
        values, counts = np.unique(np.asarray(results, np.float64), return_counts=True)
        if not values.size:
            return 0.0
        low, high = (_likelihood(values, counts, expected_score(x)) for x in (self.elo0, self.elo1))
        return high - low

    def decision(self, results: Any) -> Hypothesis | None:
        """The accepted hypothesis; None: continue the test."""
        ratio, (lower, upper) = self.log_likelihood_ratio(results), self.bounds
        return "H1" if ratio >= upper else "H0" if ratio <= lower else None


def _likelihood(values: np.ndarray, counts: np.ndarray, mean: float) -> float:
    """The largest log-likelihood of a distribution on [0, 1] with this mean, up to a constant.

    The distribution is p_i = q_i / (1 + t (a_i - mean)), where q_i are the observed shares of the
    values a_i and t makes sum q_i (a_i - mean) / (1 + t (a_i - mean)) zero. The sum falls as t
    grows. If it has no zero between -1 / (1 - mean) and 1 / mean, t is at one of these ends, and
    1 - sum p_i is the probability of a result 1, or 0, that was not observed.
    """
    deviations, shares = values - mean, counts / counts.sum()
    low, high = -1 / (1 - mean), 1 / mean
    for _ in range(100):
        t = (low + high) / 2
        if np.sum(shares * deviations / (1 + t * deviations)) > 0:
            low = t
        else:
            high = t
    return -float(np.sum(counts * np.log1p((low + high) / 2 * deviations)))
