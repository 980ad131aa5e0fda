"""How far a network's predictions come true: sums by bins, from which reliability curves are made.

For the policy, at the last move of each call of self-play, every legal action of a position that
was searched in full counts: its prior, with the root's noise if there is any, and its share of the
policy target. For the value, every position that was searched in full counts, in games that ended:
Black's expected point by the network's own value, (1 + v) / 2, and the point that Black made, 1/2
in a draw. Both were predicted before anything was learnt from the game.
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
    found: jax.Array  # f32[BINS]: the sum of what came of them


class Calibration(NamedTuple):
    """The bins of self-play."""

    policy: Bins
    value: Bins


def binned(predicted: jax.Array, found: jax.Array, counts: jax.Array) -> Bins:
    """Sums of predictions f32[...] in [0, 1] and of what came of them, where bool[...] counts."""
    predicted, found = (jnp.where(counts, x, 0.0) for x in (predicted, found))
    here = _in_bins(predicted, counts)
    sums = lambda x: jnp.sum(here * x[..., None], axis=tuple(range(x.ndim)))
    return Bins(sums(jnp.ones_like(predicted)), sums(predicted), sums(found))


def _in_bins(predicted: jax.Array, counts: jax.Array) -> jax.Array:
    """f32[..., BINS]: 1 in the bin of each prediction that counts."""
    place = jnp.clip((predicted * BINS).astype(jnp.int32), 0, BINS - 1)
    return counts[..., None] * jax.nn.one_hot(place, BINS)


class Predictions(NamedTuple):
    """The predictions at the moves [T, B] of lanes, one move after another."""

    chance: jax.Array  # f32: Black's expected point, by the network's value
    counts: jax.Array  # bool: whether this prediction counts
    ended: jax.Array  # bool: the last move of a game
    known: jax.Array  # bool: ... that was not truncated
    point: jax.Array  # f32: ... Black's point in it


def of_games(before: jax.Array, moves: Predictions) -> tuple[Bins, jax.Array]:
    """(the bins of the values in games that end, f32[B, 2, BINS] of the games then in play).

    Args:
      before: f32[B, 2, BINS], of the games in play: the number of predictions in each bin, and
        their sum.
      moves: the next moves of these games.
    """
    none = moves.ended.shape[0]
    number = jnp.arange(none, dtype=jnp.int32)[:, None]
    end = lax.cummin(jnp.where(moves.ended, number, none), axis=0, reverse=True)  # of each's game
    at_end = lambda x: jnp.take_along_axis(x, jnp.minimum(end, none - 1), axis=0)
    point, known = at_end(moves.point), at_end(moves.known) & (end < none)
    new = binned(moves.chance, point, moves.counts & known)
    old = jnp.where(known[0][:, None, None], before, 0.0)
    found = old[:, 0] * point[0][:, None]
    value = Bins(*map(jnp.add, new, (*old.sum(axis=0), found.sum(axis=0))))

    in_play = _in_bins(moves.chance, moves.counts & (end == none))
    left = jnp.stack([in_play, in_play * moves.chance[..., None]], axis=2).sum(axis=0)
    return value, left + jnp.where((end[0] == none)[:, None, None], before, 0.0)


def plain(bins: Bins) -> list[list[float]]:
    """[count, predicted, found] of each bin, as in metrics.jsonl."""
    return [[round(float(x), 3) for x in one] for one in np.stack(bins, axis=1)]


def curve(lines: Iterable[dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean prediction, mean of what came of it, standard error of the latter) in the bins that are
    not empty, over lines of the metrics; `name` is a field of `Calibration`.

    The error is that of a proportion, sqrt(p (1 - p) / n), as if predictions were independent.
    """
    found = [line["calibration"][name] for line in lines if "calibration" in line]
    count, predicted, came = np.sum(np.reshape(found, (-1, BINS, 3)), axis=0).T
    some = count > 0
    share = came[some] / count[some]
    error = np.sqrt(np.clip(share * (1 - share), 0, None) / count[some])
    return predicted[some] / count[some], share, error
