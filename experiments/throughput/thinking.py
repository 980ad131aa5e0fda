"""Long searches: 10^6 simulations of one tree, MC-RAVE's answers, trees during evaluations."""

from __future__ import annotations

import dataclasses
import functools
import resource
import statistics
import threading
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
from gozero.limits import MAX_VISITS
from gozero.search import reuse
from gozero.search.by_step import Overlapped
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluation

_ACTIONS, _SPREAD = 362, 2.0  # as in the article, see experiments/array_tree
_LONG, _NODES, _SHORT = 10**6, 390_000, 10_000
_SIZES = (_SHORT, 30_000, 100_000, MAX_VISITS, MAX_VISITS + 1, 300_000)
_BATCHES, _GROUPS, _STEPS, _LATENCY = (1024, 2048, 3072), (1, 2, 4), 50, 0.005


def measure(config: ThroughputConfig, report: Report) -> None:
    """Adds rows on searches of many simulations, and on searches that wait for an evaluator."""
    _overlapped(config, report)
    genmove.measure(config, report)
    if not config.quick:
        _million(config, report)
        _by_size(config, report)


def _million(config: ThroughputConfig, report: Report) -> None:
    """The article's stub tree, pruned to half its nodes whenever it is full."""
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
    # A long search lasts as long as a hundred short ones, so each is compared with several.
    sides = in_turn([timed, lambda: statistics.median(again() for _ in range(20))], 3)
    row = f"one tree, {_ACTIONS} actions, {_LONG:,} sims"
    capacity = f"room for {_NODES:,} nodes"
    bound: Any = {"bounds": "ours", "better": "less"}
    note = f"{capacity}, mean depth of those kept {depths[0]:.1f}, {depths[1]:.1f} after {_SHORT:,}"
    seconds = statistics.median(sides[0])
    report.add(Result(row=row, ours=seconds, unit="s", must=20.0, note=note, **bound))
    ours, peer = ([x / n * 1e6 for x in y] for y, n in zip(sides, (_LONG, _SHORT), strict=True))
    comparison = against(ours, peer, f"at {_SHORT:,}")
    report.add(
        Result(
            row=f"{row}, a simulation",
            unit="us",
            must=1.5,
            better="less",
            note=capacity,
            **comparison,
        )
    )
    mb = (stats.temp_size_in_bytes + stats.output_size_in_bytes) / 1e6
    row = f"{row}: tree and XLA's temporary memory"
    report.add(Result(row=row, ours=mb, unit="MB", must=1200.0, note=capacity, **bound))


def _by_size(config: ThroughputConfig, report: Report) -> None:
    """Why a simulation of 10^6 takes longer than one of 10^4: the same tree at several sizes, and
    the time of pruning."""
    evaluate = hash_game.evaluator(_ACTIONS, _SPREAD, 1.0)
    arguments = (hash_game.roots(1, config.seed), jax.random.key(config.seed))
    row = f"one tree, {_ACTIONS} actions, by size"
    for simulations in _SIZES:
        run = trees._runner(_ACTIONS, SearchConfig(simulations, max_depth=64), evaluate)
        depth = trees.depth(run(*arguments))
        timed = make_timed(run, lambda: arguments, warm_up=False)
        measurements = [_with_faults(timed) for _ in range(3)]
        seconds, faults, system = (statistics.median(x) for x in zip(*measurements, strict=True))
        per = 1e6 / simulations
        note = (
            f"depth {depth:.2f}, {faults / simulations:.2f} page faults, {system * per:.2f} us in "
        )
        note += "the system; sums of " + ("two words" if simulations > MAX_VISITS else "one word")
        row_name = f"{row}: {simulations:,} sims, a simulation"
        report.add(Result(row=row_name, ours=seconds * per, unit="us", note=note, better="less"))
    full = SearchConfig(_NODES - 1, max_depth=64, capacity=_NODES, prune=True)
    prune = jax.jit(lambda tree: reuse.make_room(tree, full), donate_argnums=0)
    grow = trees._runner(_ACTIONS, dataclasses.replace(full, prune=False), evaluate)
    timed = make_timed(prune, lambda: (grow(*arguments).tree,))
    ms = statistics.median(timed() for _ in range(3)) * 1e3
    report.add(Result(row=f"{row}: {_NODES:,} nodes to half", ours=ms, unit="ms", better="less"))


def _with_faults(timed: Callable[[], float]) -> tuple[float, int, float]:
    """(seconds, page faults, seconds of system CPU time) of a timed run."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    seconds = timed()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return seconds, after.ru_minflt - before.ru_minflt, after.ru_stime - before.ru_stime


def _overlapped(config: ThroughputConfig, report: Report) -> None:
    """Several groups of games in turn, each as large as a device's batch, against one group."""
    for batch in _BATCHES:
        sides = [_by_turns(groups, batch, config.seed) for groups in _GROUPS]
        alone, *figures = in_turn(sides, config.repeats)
        step = batch / statistics.median(alone)
        for groups, figure in zip(_GROUPS[1:], figures, strict=True):
            busy = statistics.median(figure) / batch * _LATENCY
            report.add(
                Result(
                    row=f"trees beside evaluations of 5 ms, batches of {batch:,}, {groups} groups",
                    unit="evaluations/s",
                    must=1.7 if batch == 2048 else None,  # both take about equally long
                    note=f"a step of one group takes {step * 1e3:.1f} ms, so at most "
                    f"{step / _LATENCY:.2f}x; the device is busy for {busy:.0%}; 82 actions, "
                    f"PUCT; {num_cores()} cores",
                    **against(figure, alone, "one group"),
                )
            )


class _Device:
    """A stub of a device that evaluates one batch at a time, in 5 ms without using the CPU."""

    def __init__(self, num_actions: int, seed: int):
        rng = np.random.RandomState(seed)
        self._logits = (rng.rand(4096, num_actions) * 8).astype(np.float32)
        self._values = (rng.rand(4096) * 2 - 1).astype(np.float32)
        self._lock, self._free = threading.Lock(), 0.0

    def __call__(self, codes: jax.Array) -> Evaluation:
        index = np.asarray(codes) % len(self._values)
        with self._lock:  # batches are served in order of arrival
            self._free = ends = max(time.perf_counter(), self._free) + _LATENCY
        evaluation = Evaluation(jnp.asarray(self._logits[index]), jnp.asarray(self._values[index]))
        time.sleep(max(0.0, ends - time.perf_counter()))
        return evaluation


def _by_turns(groups: int, batch: int, seed: int) -> Callable[[], float]:
    """A function that searches groups of games in turn and returns evaluations/s."""
    game, settings = hash_game.hash_game(82), SearchConfig(_STEPS, max_depth=64)
    by_turns = Overlapped(game, _Device(82, seed), settings, groups=groups)
    arguments = jax.random.key(seed), hash_game.roots(groups * batch, seed)
    seconds = make_timed(functools.partial(by_turns.search, keep_tree=False), lambda: arguments)
    return lambda: groups * batch * (_STEPS + 1) / seconds()
