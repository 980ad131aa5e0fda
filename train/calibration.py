"""How far what a network predicts comes true: sums by bins, of which reliability curves are made.

The policy, of every legal action of a position that was searched in full: its prior, with a root's
noise where there is any, and the share of it in the policy target. The value, of every such
position of a game that ended: Black's chance of a point by the network's own value, (1 + v) / 2,
and the point that Black made, half of one in a draw. Both were predicted before anything was learnt
from the game.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

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


def nothing(num_lanes: int) -> jax.Array:
    """f32[B, 6, BINS] by lanes: policy and value of a `Calibration`, of no predictions."""
    return jnp.zeros((num_lanes, 6, BINS), jnp.float32)


def of_lanes(sums: jax.Array) -> Calibration:
    """Of all lanes, of such sums."""
    total = jnp.sum(sums, axis=0)
    return Calibration(Bins(*total[:3]), Bins(*total[3:]))


def binned(predicted: jax.Array, found: jax.Array, counts: jax.Array) -> Bins:
    """Sums f32[B, BINS] of predictions f32[B, A] in [0, 1] and of what came of them, where
    bool[B, A] counts."""
    predicted, found = (jnp.where(counts, x, 0.0) for x in (predicted, found))
    here = _in_bins(predicted, counts)
    sums = lambda x: jnp.sum(here * x[..., None], axis=1)
    return Bins(sums(jnp.ones_like(predicted)), sums(predicted), sums(found))


def placed(predicted: jax.Array, counts: jax.Array) -> jax.Array:
    """f32[B, 2, BINS]: of predictions f32[B], where bool[B] counts, how many are in each bin, and
    their sum."""
    here = _in_bins(predicted, counts)
    return jnp.stack([here, here * predicted[:, None]], axis=1)


def _in_bins(predicted: jax.Array, counts: jax.Array) -> jax.Array:
    """f32[..., BINS]: 1 in the bin of each prediction that counts."""
    place = jnp.clip((predicted * BINS).astype(jnp.int32), 0, BINS - 1)
    return counts[..., None] * jax.nn.one_hot(place, BINS)


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
