"""The calibration of a network's predictions: sums by bins, for reliability curves.

For the policy, the prediction is the prior of an action, with the root's noise if there is any, and
the outcome is its share of the policy target. All legal actions count in the positions searched in
full at the last move of each call of self-play. For the value, the prediction is Black's expected
point by the network's own value, (1 + v) / 2, and the outcome is the point that Black scored, 1/2
in a draw. All positions searched in full count, in games that ended. Predictions precede any
learning from the game.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

BINS = 10
"""The number of bins for predictions from 0 to 1, all of the same width."""


class Bins(NamedTuple):
    """Sums over the predictions of each bin."""

    count: jax.Array  # f32[BINS]: the number of predictions
    predicted: jax.Array  # f32[BINS]: their sum
    observed: jax.Array  # f32[BINS]: the sum of the outcomes


class Calibration(NamedTuple):
    """The bins of self-play."""

    policy: Bins
    value: Bins


def binned(predicted: jax.Array, observed: jax.Array, counts: jax.Array) -> Bins:
    """Sums of predictions f32[...] in [0, 1] and of their outcomes, where bool[...] counts."""
    predicted, observed = (jnp.where(counts, x, 0.0) for x in (predicted, observed))
    in_bin = _in_bins(predicted, counts)
    sums = lambda x: jnp.sum(in_bin * x[..., None], axis=tuple(range(x.ndim)))
    return Bins(sums(jnp.ones_like(predicted)), sums(predicted), sums(observed))


def _in_bins(predicted: jax.Array, counts: jax.Array) -> jax.Array:
    """f32[..., BINS]: 1 in the bin of each prediction that counts."""
    index = jnp.clip((predicted * BINS).astype(jnp.int32), 0, BINS - 1)
    return counts[..., None] * jax.nn.one_hot(index, BINS)


class Predictions(NamedTuple):
    """The predictions at the moves [T, B] of lanes, one move after another."""

    chance: jax.Array  # f32: Black's expected point, by the network's value
    counts: jax.Array  # bool: whether this prediction counts
    ended: jax.Array  # bool: the last move of a game
    known: jax.Array  # bool: ... that was not truncated
    point: jax.Array  # f32: ... Black's point in it


def of_games(before: jax.Array, moves: Predictions) -> tuple[Bins, jax.Array]:
    """(the bins of the values in games that end, f32[B, 2, BINS] for the games then in play).

    Args:
      before: f32[B, 2, BINS]: the number and the sum of the predictions in each bin, for the games
        in play.
      moves: the next moves of these games.
    """
    num_moves = moves.ended.shape[0]
    number = jnp.arange(num_moves, dtype=jnp.int32)[:, None]
    ends = jnp.where(moves.ended, number, num_moves)
    end = lax.cummin(ends, axis=0, reverse=True)  # of the move's game
    at_end = lambda x: jnp.take_along_axis(x, jnp.minimum(end, num_moves - 1), axis=0)
    point, known = at_end(moves.point), at_end(moves.known) & (end < num_moves)
    new = binned(moves.chance, point, moves.counts & known)
    old = jnp.where(known[0][:, None, None], before, 0.0)
    observed = old[:, 0] * point[0][:, None]
    value = Bins(*map(jnp.add, new, (*old.sum(axis=0), observed.sum(axis=0))))

    in_play = _in_bins(moves.chance, moves.counts & (end == num_moves))
    remaining = jnp.stack([in_play, in_play * moves.chance[..., None]], axis=2).sum(axis=0)
    return value, remaining + jnp.where((end[0] == num_moves)[:, None, None], before, 0.0)


def plain(bins: Bins) -> list[list[float]]:
    """[count, predicted, observed] of each bin, as in metrics.jsonl."""
    return [[round(float(x), 3) for x in one] for one in np.stack(bins, axis=1)]


def curve(lines: Iterable[dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean prediction, mean outcome, standard error of the mean outcome) in each bin that is not
    empty, over lines of the metrics; `name` is a field of `Calibration`.

    The error is that of a proportion, sqrt(p (1 - p) / n), as if predictions were independent.
    """
    records = [line["calibration"][name] for line in lines if "calibration" in line]
    count, predicted, observed = np.sum(np.reshape(records, (-1, BINS, 3)), axis=0).T
    filled = count > 0
    share = observed[filled] / count[filled]
    error = np.sqrt(np.clip(share * (1 - share), 0, None) / count[filled])
    return predicted[filled] / count[filled], share, error
