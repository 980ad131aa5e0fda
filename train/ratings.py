"""Elo ratings of many players from their results. NumPy and SciPy only, no JAX.

Bradley & Terry (1952): P(i beats j) = 1 / (1 + 10^((R_j - R_i) / 400)); a draw is half a win for
each. The ratings are those that make the results most likely, with one player, the anchor, at 0. A
weak prior, a normal distribution of the difference of two players who met, keeps ratings finite for
players who won or lost every game.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable
from statistics import NormalDist
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from scipy import optimize, special
from scipy.sparse import csgraph

PRIOR_ELO = 5000.0
"""The prior's standard deviation: it shifts a difference of 200 Elo from 64 games by less than 1.

It applies to differences, so that a run's first network, which won every game, is not rated lower
for every network that is better than it.
"""

_LOGITS_PER_ELO = math.log(10) / 400
"""One Elo in the natural unit of the logistic function."""

_GRADIENT_TOLERANCE = 1e-9
"""A gradient, in games, that counts as 0."""


_Name = TypeVar("_Name", bound=Hashable)


class Result(NamedTuple, Generic[_Name]):
    """Games between two players; each is any hashable name."""

    first: _Name
    second: _Name
    points: float  # the first player's: 1 a win, 1/2 a draw
    games: float


class Rating(NamedTuple):
    """A player's rating, in Elo above the anchor."""

    elo: float
    low: float  # of the interval
    high: float
    error: float  # the standard error, from the curvature at the estimate
    points: float
    games: float


def rate(
    results: Iterable[Result[_Name]],
    anchor: _Name,
    subset: Collection[_Name] | None = None,
    confidence: float = 0.95,
    prior: float = PRIOR_ELO,
) -> dict[_Name, Rating]:
    """The ratings of all players that have played someone.

    An interval contains the ratings at which the log-likelihood, with the others' ratings fitted
    again, is within z^2 / 2 of its maximum. It is longer on the side with less evidence, as for a
    player who has won every game, where the standard error says little. Games count as independent.

    Args:
      results: of matches, in any order; a pair of players may have several.
      anchor: the player at 0.
      subset: the players whose ratings to compute; None for all, which takes time proportional to
        the square of their number.
      confidence: of the intervals.
      prior: its standard deviation, in Elo. For players without a chain of matches to the anchor it
        also applies to their difference from the anchor.

    Returns:
      {player: rating} of the subset; the anchor's rating is 0 without an interval.

    Raises:
      ValueError: an anchor that has not played, more points than games, a player against itself, a
        confidence outside (0, 1), or a prior that is not above 0.
    """
    results = list(results)
    _check(results, anchor, confidence, prior)
    names = {player for result in results for player in result[:2]}
    players = [anchor, *sorted(names - {anchor}, key=str)]
    number = {player: i for i, player in enumerate(players)}
    scores = np.zeros((len(players), len(players)))
    for first, second, points, games in results:
        scores[number[first], number[second]] += points
        scores[number[second], number[first]] += games - points
    fit = _Fit(scores, 1 / (_LOGITS_PER_ELO * prior) ** 2)
    drop = NormalDist().inv_cdf((1 + confidence) / 2) ** 2 / 2
    return {
        player: fit.rating(number[player], drop)
        for player in players
        if subset is None or player in subset
    }


class _Fit:
    """Ratings in the logistic's unit, r = R ln 10 / 400; the anchor is player 0.

    Attributes:
      points: f64[n, n]: what i scored against j.
      ratings: f64[n]: the most probable ones.
    """

    def __init__(self, points: np.ndarray, precision: float):
        self.points, self.games = points, points + points.T
        self.precision = precision * self._linked()
        self.free = np.arange(len(points)) > 0
        self.ratings = self._maximise(np.zeros(len(points)), self.free)
        self.covariance = np.linalg.inv(-self._hessian(self.ratings)[1:, 1:])

    def _linked(self) -> np.ndarray:
        """bool[n, n]: the pairs of players whose difference has a prior."""
        linked = self.games > 0
        group = csgraph.connected_components(linked, directed=False)[1]
        unconnected = group != group[0]
        linked[0] |= unconnected
        linked[:, 0] |= unconnected
        return linked

    def rating(self, i: int, drop: float) -> Rating:
        scored, games = float(self.points[i].sum()), float(self.games[i].sum())
        if i == 0:
            return Rating(0.0, 0.0, 0.0, 0.0, scored, games)
        error = math.sqrt(self.covariance[i - 1, i - 1])
        low, high = (self._end(i, side * error, drop) for side in (-1, 1))
        elo = float(self.ratings[i]) / _LOGITS_PER_ELO
        low, high, error = (x / _LOGITS_PER_ELO for x in (low, high, error))
        return Rating(elo, low, high, error, scored, games)

    def _end(self, i: int, stride: float, drop: float) -> float:
        """The rating of player i at which the log-likelihood has fallen by `drop`."""
        maximum, free = self._log_posterior(self.ratings), self.free.copy()
        free[i] = False
        others, best = self.ratings, float(self.ratings[i])

        def excess(value: float) -> float:
            nonlocal others
            others = self._maximise(np.where(np.arange(len(others)) == i, value, others), free)
            return maximum - self._log_posterior(others) - drop

        inner, outer = best, best + stride
        while excess(outer) < 0:
            inner, outer = outer, best + 2 * (outer - best)
        return optimize.root_scalar(excess, bracket=(inner, outer), xtol=1e-6).root

    def _log_posterior(self, ratings: np.ndarray) -> float:
        """The log-likelihood plus the logarithm of the prior."""
        ahead = ratings[:, None] - ratings[None, :]
        likelihood = np.sum(self.points * special.log_expit(ahead))
        # Each pair is counted twice.
        return float(likelihood - np.sum(self.precision * ahead**2) / 4)

    def _gradient(self, ratings: np.ndarray) -> np.ndarray:
        ahead = ratings[:, None] - ratings[None, :]
        expected = self.games * special.expit(ahead)
        return np.sum(self.points - expected - self.precision * ahead, axis=1)

    def _hessian(self, ratings: np.ndarray) -> np.ndarray:
        expected = special.expit(ratings[:, None] - ratings[None, :])
        between = self.games * expected * expected.T + self.precision
        return between - np.diag(between.sum(axis=1))

    def _maximise(self, ratings: np.ndarray, free: np.ndarray) -> np.ndarray:
        """The ratings with the free ones at their maximum of `_log_posterior`, which is concave."""
        if not free.any():
            return ratings

        def with_free(values: np.ndarray) -> np.ndarray:
            all_ratings = ratings.copy()
            all_ratings[free] = values
            return all_ratings

        result = optimize.minimize(
            lambda x: -self._log_posterior(with_free(x)),
            ratings[free],
            method="trust-exact",
            jac=lambda x: -self._gradient(with_free(x))[free],
            hess=lambda x: -self._hessian(with_free(x))[np.ix_(free, free)],
            options={"gtol": _GRADIENT_TOLERANCE},
        )
        return with_free(result.x)


def _check(results: list[Result[_Name]], anchor: _Name, confidence: float, prior: float) -> None:
    if not any(anchor in result[:2] for result in results):
        raise ValueError(f"anchor: {anchor!r} has not played any game")
    for first, second, points, games in results:
        if first == second:
            raise ValueError(f"results: {first!r} cannot play against itself")
        if not 0 <= points <= games:
            raise ValueError(
                f"results: {points} points in {games} games; expected from 0 to {games}"
            )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: expected a number between 0 and 1, got {confidence}")
    if not prior > 0:
        raise ValueError(f"prior: expected a number above 0, got {prior}")
