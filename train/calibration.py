"""How far what a network predicts comes true: sums by bins, of which reliability curves are made.

The policy, at the last move of each call of self-play, of every legal action of a position that was
searched in full: its prior, with a root's noise where there is any, and the share of it in the
policy target. The value, of every position that was searched in full, of games that ended: Black's
chance of a point by the network's own value, (1 + v) / 2, and the point that Black made, half of
one in a draw. Both were predicted before anything was learnt from the game.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

BINS = 10
"""Of predictions from 0 to 1, all of one width."""


class Bins(NamedTuple):
    """Sums over the predictions of each bin."""

    count: jax.Array  # f32[BINS]: how many there were
    predicted: jax.Array  # f32[BINS]: what was predicted
    found: jax.Array  # f32[BINS]: what came of it


class Calibration(NamedTuple):
    """Of self-play."""

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


class Moves(NamedTuple):
    """Moves [T, B] of lanes, one after another."""

    chance: jax.Array  # f32: Black's, by the network's value
    counts: jax.Array  # bool: of what is predicted here
    ended: jax.Array  # bool: the last of a game
    known: jax.Array  # bool: ... that was played out
    point: jax.Array  # f32: ... what Black made of it


def of_games(before: jax.Array, moves: Moves) -> tuple[Bins, jax.Array]:
    """(the values of the games that end, f32[B, 2, BINS] of those in play).

    Args:
      before: f32[B, 2, BINS], of the games in play: how many predictions are in each bin, and their
        sum.
      moves: that go on with them.
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
    """[count, predicted, found] of each bin, as metrics.jsonl has them."""
    return [[round(float(x), 3) for x in one] for one in np.stack(bins, axis=1)]


def curve(lines: Iterable[dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean prediction, mean of what came of it, standard error of that) of the bins that are not
    empty, over lines of the metrics; `name` is of a part of `Calibration`.

    The error is that of a share, sqrt(p (1 - p) / n), with predictions taken as independent.
    """
    found = [line["calibration"][name] for line in lines if "calibration" in line]
    count, predicted, came = np.sum(np.reshape(found, (-1, BINS, 3)), axis=0).T
    some = count > 0
    share = came[some] / count[some]
    error = np.sqrt(np.clip(share * (1 - share), 0, None) / count[some])
    return predicted[some] / count[some], share, error
