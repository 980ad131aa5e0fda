"""Minorisation-maximisation of the strengths of features (Coulom 2007, section 3).

In a choice among moves, each a team of features, a move is played with the probability

    strength of the move / E,    E the sum of the strengths of all moves that may be played

and the strength of a move is the product of the strengths of its features. With W_i the number of
choices won by feature i, and C_ij the strength of its team mates in choice j, summed over the moves
that have it, the update of Eq. 3

    strength_i <- W_i / sum_j (C_ij / E_j)

never lowers the likelihood. Features of one group, of which a move has at most one, are updated
together; the groups (shapes, contiguities, captures, ...) are updated in turn. The prior is one
choice won and one lost against a strength of 1 for each feature, so that the strength of a feature
that is never played does not fall to 0.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps import flags
from gozero.go import bitboard as bb
from gozero.go.rules import Rules
from gozero.playouts.policies.softmax import strengths as strength
from gozero.playouts.policies.softmax.strengths import Strengths
from gozero.runs.progress import Progress
from train.classical import choices as choices_of
from train.classical.choices import Choices
from train.classical.mm import PROG, MmConfig

_BATCH = 2048
GROUPS = Strengths._fields
_PRIOR_GAMES = 2  # a feature's virtual choices: one won, one lost


class Quality(NamedTuple):
    """How well strengths predict what was played."""

    log_likelihood: float  # of a choice, on average, in nats
    top_1: float  # the share of choices whose strongest move was played; k tied moves count 1/k
    objective: float  # the log-likelihood of all choices, and of the prior


class _Sums(NamedTuple):
    """Sums over a batch of choices, or over all of them."""

    log_likelihood: jax.Array  # f32[]
    top_1: jax.Array  # f32[]
    wins: Strengths  # f32 for each feature: W_i
    losses: Strengths  # f32 for each feature: sum of C_ij / E_j


def fit(
    lay: bb.Layout, choices: Choices, iterations: int, groups: Sequence[str] = GROUPS
) -> Iterator[tuple[Strengths, Quality]]:
    """Fit strengths: yields the initial ones, all 1, and those after each update.

    Args:
      lay: the layout.
      choices: [N]; to learn from.
      iterations: rounds of updates; a round updates one group after the other.
      groups: those of GROUPS to learn; the strengths of the others stay 1.

    Yields:
      (strengths, their Quality), len(groups) * iterations + 1 times; the objective never falls.
    """
    strengths = strength.uniform()
    for step in range(len(groups) * iterations + 1):
        sums = _sums_of_all(lay, strengths, choices)
        yield strengths, _quality(strengths, sums, len(choices.played))
        group = groups[step % len(groups)]
        strengths = strengths._replace(**{group: _updated(getattr(strengths, group), sums, group)})


def measure(lay: bb.Layout, choices: Choices, strengths: Strengths) -> Quality:
    """How well strengths predict what was played in other choices."""
    return _quality(strengths, _sums_of_all(lay, strengths, choices), len(choices.played))


def _updated(old, sums: _Sums, group: str) -> np.ndarray:
    """f32: the strengths of one group after the update, with the prior."""
    old = np.asarray(old, np.float64)
    wins = 1 + getattr(sums.wins, group)
    losses = _PRIOR_GAMES / (old + 1) + getattr(sums.losses, group)
    return (wins / losses).astype(np.float32)


def _quality(strengths: Strengths, sums: _Sums, count: int) -> Quality:
    values = np.concatenate([np.asarray(x, np.float64) for x in strengths])
    prior = np.sum(np.log(values) - _PRIOR_GAMES * np.log1p(values))
    total = float(sums.log_likelihood)
    return Quality(total / count, float(sums.top_1) / count, total + float(prior))


def _sums_of_all(lay: bb.Layout, strengths: Strengths, choices: Choices) -> _Sums:
    """The sums over all choices, in f64: in f32 the objective could fall near the end of a fit."""
    strengths = jax.tree.map(jnp.asarray, strengths)
    total = None
    for first in range(0, len(choices.played), _BATCH):
        batch = jax.tree.map(lambda x, first=first: x[first : first + _BATCH], choices)
        padding = _BATCH - len(batch.played)
        batch = jax.tree.map(lambda x, pad=padding: jnp.pad(x, (0, pad), mode="edge"), batch)
        is_real = np.arange(_BATCH) < _BATCH - padding
        sums = jax.tree.map(np.float64, _run(lay)(strengths, batch, is_real))
        total = sums if total is None else jax.tree.map(np.add, total, sums)
    assert total is not None
    return total


@functools.cache
def _run(lay: bb.Layout) -> Callable:
    return jax.jit(functools.partial(_sums, lay))


def _sums(lay: bb.Layout, strengths: Strengths, choices: Choices, is_real: jax.Array) -> _Sums:
    features = choices_of.features(lay, choices)
    logs = choices_of.log_strengths(jax.tree.map(jnp.log, strengths), features)
    log_total = jax.nn.logsumexp(logs, axis=0)
    played = jax.tree.map(
        lambda x: jnp.take_along_axis(x, choices.played[None], axis=0)[0], (logs, features)
    )
    played_log, played_features = played
    strongest = jnp.max(logs, axis=0)
    ties = jnp.sum(logs == strongest[None], axis=0)
    share = jnp.where(is_real[None], jnp.exp(logs - log_total[None]), 0.0)  # of E
    counts = is_real.astype(jnp.float32)
    return _Sums(
        log_likelihood=jnp.sum(jnp.where(is_real, played_log - log_total, 0.0)),
        top_1=jnp.sum(jnp.where(is_real & (played_log == strongest), 1.0 / ties, 0.0)),
        wins=choices_of.by_feature(played_features, counts),
        losses=jax.tree.map(lambda x, y: x / y, choices_of.by_feature(features, share), strengths),
    )


# --- the command ----------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 if the strengths cannot be written, or 2 for bad input."""
    config = flags.parse(MmConfig, argv, prog=PROG)
    with flags.exit_on_error(PROG), config.locked():
        print(_fit(config, [PROG, *(sys.argv[1:] if argv is None else argv)]))
    return 0


def _fit(config: MmConfig, command: list[str]) -> str:
    """Do what `main` does; returns a line that tells the result.

    Raises:
      ValueError: no games, or no move in them that counts.
      OSError: the strengths cannot be written.
    """
    training, holdout, num_games = _prepare(config)
    lay, total = Rules(config.size).layout, len(config.features) * config.iterations
    about: dict[str, Any] = {"games": num_games, "choices": len(training.played)}
    about["size"] = config.size
    numbers = {name: str(about[name]) for name in ("games", "choices")}
    with Progress("mm", total, "updates") as progress:
        progress.phase("compiling")
        fitting = fit(lay, training, config.iterations, config.features)
        for step, (strengths, quality) in enumerate(fitting):
            numbers |= {"objective": f"{quality.objective:.1f}", "learnt from": _text(quality)}
            if holdout is not None and step % len(config.features) == 0:
                numbers["held out"] = _text(measure(lay, holdout, strengths))
            progress.show(step, numbers, now=True)
    about["quality"] = quality._asdict()
    if holdout is not None:
        about["held_out"] = measure(lay, holdout, strengths)._asdict()
    strength.save(config.out, strengths, command=command, **about)
    label = "held out" if holdout is not None else "learnt from"
    return f"{total} updates; {label} {numbers[label]}; strengths in {config.out}"


def _prepare(config: MmConfig) -> tuple[Choices, Choices | None, int]:
    """(choices to learn from, choices held out, games).

    Raises:
      ValueError: no games, or no move in them is a choice.
    """
    _, played = choices_of.of_folder(config.sgf, config.size)
    is_counted = played.number >= config.first_move
    games = np.unique(played.game[is_counted])
    if not len(played.game):
        raise ValueError(f"--sgf {config.sgf}: no move in its games is a choice to learn from")
    if not len(games):
        raise ValueError(
            f"--first-move {config.first_move}: the last choice in the games of {config.sgf} is "
            f"move {played.number.max()}"
        )
    order = np.random.default_rng(config.seed).permutation(games)
    held_games = order[: int(config.holdout_fraction * len(games))]
    is_held_out = np.isin(played.game, held_games)
    is_holdout = is_counted & is_held_out
    holdout = choices_of.take(played.choices, is_holdout) if len(held_games) else None
    return choices_of.take(played.choices, is_counted & ~is_held_out), holdout, len(games)


def _text(quality: Quality) -> str:
    return f"log-likelihood {quality.log_likelihood:.4f}, top-1 {100 * quality.top_1:.1f}%"
