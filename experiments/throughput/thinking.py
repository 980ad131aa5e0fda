"""Long thinking: 10^6 simulations of one tree, MC-RAVE's answers, trees beside evaluations."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.throughput import genmove, hash_game, trees
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, against, in_turn, make_timed
from experiments.throughput.worker import num_cores
from gozero.search.by_step import Overlapped
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluation

_ACTIONS, _SPREAD = 362, 2.0  # as the article's tree, see experiments/array_tree
_LONG, _NODES, _SHORT = 10**6, 390_000, 10_000
_GAMES, _STEPS, _LATENCY = 2048, 50, 0.005


def measure(config: ThroughputConfig, report: Report) -> None:
    """Rows on searches of many simulations, and on what waits for an evaluator."""
    _overlapped(config, report)
    genmove.measure(config, report)
    if not config.quick:
        _million(config, report)


def _million(config: ThroughputConfig, report: Report) -> None:
    """The article's stub tree, of which half the nodes are dropped whenever it is full."""
    evaluate = hash_game.evaluator(_ACTIONS, _SPREAD, 1.0)
    arguments = (hash_game.roots(1, config.seed), jax.random.key(config.seed))
    full = SearchConfig(_LONG, max_depth=64, capacity=_NODES, prune=True)
    long: Any = trees._runner(_ACTIONS, full, evaluate)
    short = trees._runner(_ACTIONS, SearchConfig(_SHORT, max_depth=64), evaluate)
    report.say(f"{_LONG:,} simulations of one tree")
    stats: Any = long.lower(*arguments).compile().memory_analysis()
    depths = [trees.depth(run(*arguments)) for run in (long, short)]
    timed = make_timed(long, lambda: arguments, warm_up=False)
    again = make_timed(short, lambda: arguments, warm_up=False)
    # A long search lasts a hundred short ones: some of those stand beside each.
    sides = in_turn([timed, lambda: statistics.median(again() for _ in range(20))], 3)
    row = f"one tree, {_ACTIONS} actions, {_LONG:,} sims"
    room = f"room for {_NODES:,} nodes"
    bound: Any = {"bounds": "ours", "better": "less"}
    note = f"{room}, mean depth of those kept {depths[0]:.1f}, {depths[1]:.1f} after {_SHORT:,}"
    seconds = statistics.median(sides[0])
    report.add(Result(row=row, ours=seconds, unit="s", must=20.0, note=note, **bound))
    each = [[x / n * 1e6 for x in side] for side, n in zip(sides, (_LONG, _SHORT), strict=True)]
    beside = against(*each, f"at {_SHORT:,}")
    report.add(
        Result(row=f"{row}, a simulation", unit="us", must=1.5, better="less", note=room, **beside)
    )
    mb = (stats.temp_size_in_bytes + stats.output_size_in_bytes) / 1e6
    row = f"{row}: tree and XLA's temporary memory"
    report.add(Result(row=row, ours=mb, unit="MB", must=1200.0, note=room, **bound))


def _overlapped(config: ThroughputConfig, report: Report) -> None:
    """Groups of games by turns, against all at once: the evaluator is a host's that sleeps."""
    searches = {groups: _by_turns(groups, config.seed) for groups in (1, 2, 4, 8)}
    figures = dict(zip(searches, in_turn(list(searches.values()), config.repeats), strict=True))
    for groups in (2, 4, 8):
        beside = against(figures[groups], figures[1], "one group")
        report.add(
            Result(
                row=f"trees beside evaluations of 5 ms, {groups} groups",
                unit="steps/s",
                must=1.7,
                note=f"{_GAMES:,} trees, 82 actions, PUCT; {num_cores()} cores",
                **beside,
            )
        )


def _by_turns(groups: int, seed: int) -> Callable[[], float]:
    """A function that searches and gives the steps of all games a second."""
    rng, num_actions = np.random.RandomState(seed), 82
    logits = (rng.rand(4096, num_actions) * 8).astype(np.float32)
    values = (rng.rand(4096) * 2 - 1).astype(np.float32)

    def evaluate(codes):
        which = np.asarray(codes) % len(values)
        time.sleep(_LATENCY)
        return Evaluation(jnp.asarray(logits[which]), jnp.asarray(values[which]))

    game, settings = hash_game.hash_game(num_actions), SearchConfig(_STEPS, max_depth=64)
    by_turns = Overlapped(game, evaluate, settings, groups=groups)
    arguments = (jax.random.key(seed), hash_game.roots(_GAMES, seed))
    seconds = make_timed(by_turns.search, lambda: arguments)
    return lambda: _STEPS / seconds()
