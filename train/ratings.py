"""Elo ratings of many players from their results. NumPy and SciPy only, no JAX.

Bradley & Terry (1952): P(i beats j) = 1 / (1 + 10^((R_j - R_i) / 400)); a draw is half a win for
each. The ratings are those that make the results most likely, with one player, the anchor, at 0. A
weak prior, a normal distribution of the difference of two players who met, keeps the rating of a
player who won or lost everything finite.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special
from scipy.sparse import csgraph

PRIOR_ELO = 5000.0
"""The prior's standard deviation: it shifts a difference of 200 Elo from 64 games by less than 1.

It is of differences, so that a run's first network, which won everything, is not rated lower with
every network that is better than it.
"""

_NATURAL = math.log(10) / 400
"""One Elo, in the logistic's own unit."""

_FLAT = 1e-9
"""A slope, in games, that counts as 0."""


class Result(NamedTuple):
    """Games between two players; each is any hashable name."""

    first: Hashable
    second: Hashable
    points: float  # the first player's: 1 a win, 1/2 a draw
    games: float


class Rating(NamedTuple):
    """A player's rating, in Elo above the anchor."""

    elo: float
    low: float  # of the interval
    high: float
    error: float  # the standard error, by the curvature at the estimate
    points: float
    games: float


def rate(
    results: Iterable[Result],
    anchor: Hashable,
    wanted: Collection[Hashable] | None = None,
    confidence: float = 0.95,
    prior: float = PRIOR_ELO,
) -> dict[Any, Rating]:
    """The ratings of all players that have played someone.

    An interval has the ratings at which the log-likelihood, with the others' ratings fitted anew,
    is within z^2 / 2 of its maximum. It is longer on the side that is known less, as for a player
    who has won everything, where the standard error says little. Games count as independent.

    Args:
      results: of matches, in any order; a pair of players may have several.
      anchor: the player at 0.
      wanted: the players whose ratings to compute; None for all, which takes time by the square of
        their number.
      confidence: of the intervals.
      prior: its standard deviation, in Elo. Players without a chain of matches to the anchor also
        have it about the anchor's rating.

    Returns:
      {player: rating}, of those wanted; the anchor's is 0 without an interval.

    Raises:
      ValueError: an anchor that has not played, points that the games cannot have, a player against
        itself, a confidence outside (0, 1), a prior that is not above 0.
    """
    results = list(results)
    _check(results, anchor, confidence, prior)
    met = {player for result in results for player in result[:2]}
    players = [anchor, *sorted(met - {anchor}, key=str)]
    number = {player: i for i, player in enumerate(players)}
    points = np.zeros((len(players), len(players)))
    for first, second, gained, games in results:
        points[number[first], number[second]] += gained
        points[number[second], number[first]] += games - gained
    fit = _Fit(points, 1 / (_NATURAL * prior) ** 2)
    drop = NormalDist().inv_cdf((1 + confidence) / 2) ** 2 / 2
    return {
        player: fit.rating(number[player], drop)
        for player in players
        if wanted is None or player in wanted
    }


class _Fit:
    """Ratings in the logistic's unit, r = R ln 10 / 400; the anchor is player 0.

    Attributes:
      points: f64[n, n]: what i scored against j.
      best: f64[n]: the ratings.
    """

    def __init__(self, points: np.ndarray, precision: float):
        self.points, self.games = points, points + points.T
        self.precision = precision * self._linked()
        self.free = np.arange(len(points)) > 0
        self.best = self._climb(np.zeros(len(points)), self.free)
        self.covariance = np.linalg.inv(-self._curvature(self.best)[1:, 1:])

    def _linked(self) -> np.ndarray:
        """bool[n, n]: the pairs of players whose difference has a prior."""
        linked = self.games > 0
        group = csgraph.connected_components(linked, directed=False)[1]
        apart = group != group[0]
        linked[0] |= apart
        linked[:, 0] |= apart
        return linked

    def rating(self, i: int, drop: float) -> Rating:
        scored, games = float(self.points[i].sum()), float(self.games[i].sum())
        if i == 0:
            return Rating(0.0, 0.0, 0.0, 0.0, scored, games)
        error = math.sqrt(self.covariance[i - 1, i - 1])
        low, high = (self._end(i, side * error, drop) for side in (-1, 1))
        elo = float(self.best[i]) / _NATURAL
        low, high, error = (x / _NATURAL for x in (low, high, error))
        return Rating(elo, low, high, error, scored, games)

    def _end(self, i: int, stride: float, drop: float) -> float:
        """The rating of player i at which the log-likelihood has fallen by `drop`."""
        top, free = self._height(self.best), self.free.copy()
        free[i] = False
        others, at = self.best, float(self.best[i])

        def over(value: float) -> float:
            nonlocal others
            others = self._climb(np.where(np.arange(len(others)) == i, value, others), free)
            return top - self._height(others) - drop

        inner, outer = at, at + stride
        while over(outer) < 0:
            inner, outer = outer, at + 2 * (outer - at)
        return optimize.root_scalar(over, bracket=(inner, outer), xtol=1e-6).root

    def _height(self, ratings: np.ndarray) -> float:
        """The log-likelihood plus the logarithm of the prior."""
        ahead = ratings[:, None] - ratings[None, :]
        likelihood = np.sum(self.points * special.log_expit(ahead))
        return float(likelihood - np.sum(self.precision * ahead**2) / 4)  # each pair is in it twice

    def _slope(self, ratings: np.ndarray) -> np.ndarray:
        ahead = ratings[:, None] - ratings[None, :]
        expected = self.games * special.expit(ahead)
        return np.sum(self.points - expected - self.precision * ahead, axis=1)

    def _curvature(self, ratings: np.ndarray) -> np.ndarray:
        expected = special.expit(ratings[:, None] - ratings[None, :])
        between = self.games * expected * expected.T + self.precision
        return between - np.diag(between.sum(axis=1))

    def _climb(self, ratings: np.ndarray, free: np.ndarray) -> np.ndarray:
        """The ratings with the free ones at their best; the height is concave."""
        if not free.any():
            return ratings

        def at(values: np.ndarray) -> np.ndarray:
            whole = ratings.copy()
            whole[free] = values
            return whole

        found = optimize.minimize(
            lambda x: -self._height(at(x)),
            ratings[free],
            method="trust-exact",
            jac=lambda x: -self._slope(at(x))[free],
            hess=lambda x: -self._curvature(at(x))[np.ix_(free, free)],
            options={"gtol": _FLAT},
        )
        return at(found.x)


def _check(results: list[Result], anchor: Hashable, confidence: float, prior: float) -> None:
    if not any(anchor in result[:2] for result in results):
        raise ValueError(f"anchor: {anchor!r} has played no one")
    for first, second, points, games in results:
        if first == second:
            raise ValueError(f"results: {first!r} against itself")
        if not 0 <= points <= games:
            raise ValueError(f"results: {points} points of {games} games")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: {confidence} is not between 0 and 1")
    if not prior > 0:
        raise ValueError(f"prior: {prior} is not above 0")
