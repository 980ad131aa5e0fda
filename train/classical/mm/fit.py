"""Minorisation-maximisation of the strengths of features (Coulom 2007, section 3).

In a choice among moves, each a team of features, a move is played with the probability

    strength of the move / E,    E the sum of the strengths of all that may be played

and the strength of a move is the product of those of its features. With W_i the choices won
by feature i, and C_ij the strength of its team mates in choice j, summed over the moves that
have it, the update of Eq. 3

    strength_i <- W_i / sum_j (C_ij / E_j)

never lowers the likelihood. Features of one group, of which a move has one at most, are updated
at once; the groups (shapes, contiguities) in turn. The prior is one choice won and one lost
against a strength of 1 for each feature, so that what is never played keeps a strength.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.playouts.softmax import strengths as strength
from gozero.playouts.softmax.strengths import Strengths
from train.classical import choices as choice
from train.classical.choices import Choices

_BATCH = 2048
GROUPS = Strengths._fields
_PRIOR_GAMES = 2  # a feature's virtual choices: one won, one lost


class Quality(NamedTuple):
    """How well strengths say what was played."""

    log_likelihood: float  # a choice's, on average, in nats
    top_1: float  # the share of choices whose strongest move was played; ties by lot
    objective: float  # the log-likelihood of all choices, and of the prior


class _Sums(NamedTuple):
    """Over a batch of choices, or all of them."""

    log_likelihood: jax.Array  # f32[]
    top_1: jax.Array  # f32[]
    wins: Strengths  # f32 a feature: W_i
    losses: Strengths  # f32 a feature: sum of C_ij / E_j


def fit(
    lay: bb.Layout, choices: Choices, iterations: int, start: Strengths | None = None
) -> Iterator[tuple[Strengths, Quality]]:
    """The strengths to begin with and after each update, and how good they are.

    Args:
      lay: the layout.
      choices: [N]; to learn from.
      iterations: rounds of updates, each of one group after the other.
      start: strengths to begin with; None for all 1.

    Yields:
      2 * iterations + 1 times (strengths, their Quality); the objective never falls.
    """
    now = start or strength.uniform()
    for step in range(len(GROUPS) * iterations + 1):
        sums = _sums_of_all(lay, now, choices)
        yield now, _quality(now, sums, len(choices.played))
        group = GROUPS[step % len(GROUPS)]
        now = now._replace(**{group: _updated(getattr(now, group), sums, group)})


def measure(lay: bb.Layout, choices: Choices, strengths: Strengths) -> Quality:
    """How well strengths say what was played in other choices."""
    return _quality(strengths, _sums_of_all(lay, strengths, choices), len(choices.played))


def _updated(old, sums: _Sums, group: str) -> np.ndarray:
    """f32: the strengths of one group after the update, with the prior."""
    old = np.asarray(old, np.float64)
    wins = 1 + getattr(sums.wins, group)
    losses = _PRIOR_GAMES / (old + 1) + getattr(sums.losses, group)
    return (wins / losses).astype(np.float32)


def _quality(strengths: Strengths, sums: _Sums, count: int) -> Quality:
    every = np.concatenate([np.asarray(x, np.float64) for x in strengths])
    prior = np.sum(np.log(every) - _PRIOR_GAMES * np.log1p(every))
    total = float(sums.log_likelihood)
    return Quality(total / count, float(sums.top_1) / count, total + float(prior))


def _sums_of_all(lay: bb.Layout, strengths: Strengths, choices: Choices) -> _Sums:
    """The sums over all choices, in f64: those of f32 would not be monotonic near the end."""
    strengths = jax.tree.map(jnp.asarray, strengths)
    total = None
    for first in range(0, len(choices.played), _BATCH):
        batch = jax.tree.map(lambda x, first=first: x[first : first + _BATCH], choices)
        missing = _BATCH - len(batch.played)
        batch = jax.tree.map(lambda x, pad=missing: jnp.pad(x, (0, pad), mode="edge"), batch)
        there = np.arange(_BATCH) < _BATCH - missing
        sums = jax.tree.map(np.float64, _run(lay)(strengths, batch, there))
        total = sums if total is None else jax.tree.map(np.add, total, sums)
    assert total is not None
    return total


@functools.cache
def _run(lay: bb.Layout) -> Callable:
    return jax.jit(functools.partial(_sums, lay))


def _sums(lay: bb.Layout, strengths: Strengths, choices: Choices, there: jax.Array) -> _Sums:
    found = choice.features(lay, choices)
    logs = choice.log_strengths(jax.tree.map(jnp.log, strengths), found)
    log_total = jax.nn.logsumexp(logs, axis=0)
    played = jax.tree.map(
        lambda x: jnp.take_along_axis(x, choices.played[None], axis=0)[0], (logs, found)
    )
    played_log, played_features = played
    strongest = jnp.max(logs, axis=0)
    ties = jnp.sum(logs == strongest[None], axis=0)
    share = jnp.where(there[None], jnp.exp(logs - log_total[None]), 0.0)  # of E
    one = there.astype(jnp.float32)
    return _Sums(
        log_likelihood=jnp.sum(jnp.where(there, played_log - log_total, 0.0)),
        top_1=jnp.sum(jnp.where(there & (played_log == strongest), 1.0 / ties, 0.0)),
        wins=choice.by_feature(played_features, one),
        losses=jax.tree.map(lambda x, y: x / y, choice.by_feature(found, share), strengths),
    )
