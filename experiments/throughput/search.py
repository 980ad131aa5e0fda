"""The search: PUCT on Go against mctx on pgx, with the same stub evaluator on both sides."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from experiments.throughput import games, genmove, peers, stub_evaluator, trees
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import (
    Report,
    Result,
    against,
    compile_row,
    compile_timer,
    in_turn,
    make_timed,
)
from experiments.throughput.stub_evaluator import NARROW_SPREAD, NETWORK_SPREAD
from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator
from gozero.search.search import SearchResult, search
from gozero.search.tree import ROOT, all_edges

MAX_DEPTH = 64


class _Row(NamedTuple):
    """A search to time; `must` and `aim` bound its ratio to mctx."""

    size: int
    batch: int
    simulations: int
    spread: float = NETWORK_SPREAD  # of the prior's logits
    must: float | None = None
    aim: float | None = None
    with_mctx: bool = True  # a deep search takes mctx minutes

    @property
    def name(self) -> str:
        prior = ", narrow prior" if self.spread == NARROW_SPREAD else ""
        board = f"{self.size}x{self.size} positional superko B={self.batch}"
        return f"search {board}, {self.simulations} sims{prior}"


_ROWS = (
    _Row(9, 64, 32, must=10.0, aim=15.0),
    _Row(9, 64, 400, must=80.0, aim=200.0),
    _Row(9, 256, 100, must=25.0, aim=50.0),
    _Row(9, 64, 1600, with_mctx=False),
    _Row(19, 64, 400, with_mctx=False),
    _Row(9, 64, 32, NARROW_SPREAD),
    _Row(9, 64, 400, NARROW_SPREAD),
    _Row(9, 256, 100, NARROW_SPREAD),
    _Row(9, 64, 1600, NARROW_SPREAD, with_mctx=False),
    _Row(19, 64, 400, NARROW_SPREAD, with_mctx=False),
)


def measure(config: ThroughputConfig, report: Report) -> None:
    """Adds rows: PUCT on Go with exact superko in the tree, stub evaluator, against mctx on pgx."""
    timers = {}  # {simulations: a timer of a simulation of a 9x9 tree}
    for row in _ROWS[:1] if config.quick else _ROWS:
        again = _against_mctx(row, config, report)
        if row.size == 9 and row.batch == 64 and row.spread == NETWORK_SPREAD:
            timers[row.simulations] = again
    _compile(report)
    trees.measure(config, report)
    genmove.measure(config, report)
    if 1600 in timers:
        sides = in_turn([timers[1600], timers[400]], max(config.repeats, 5))
        ours, peer = ([x * 1e6 for x in side] for side in sides)
        report.add(
            Result(
                row="search 9x9 B=64, a simulation at 1,600 against one at 400",
                unit="us",
                must=1.6,
                aim=1.2,
                better="less",
                **against(ours, peer, "at 400"),
            )
        )


def _against_mctx(row: _Row, config: ThroughputConfig, report: Report) -> Callable[[], float]:
    """Adds a row, with both sides timed in turn; returns a function that times ours again.

    It returns the seconds of one simulation of one tree.
    """
    rules, key = go.Rules(size=row.size), jax.random.key(config.seed)
    opening = games.record_games(rules, row.batch, config.seed)[:2]
    settings = SearchConfig(num_simulations=row.simulations, max_depth=MAX_DEPTH)
    states, _ = games.replay(rules)(games.start(rules, row.batch), opening)
    run = jax.jit(functools.partial(_search_stub, rules, row.spread, settings))
    result = run(states, key)
    mean, lockstep = trees.depth(result), trees.lockstep_depth(result, row.simulations)
    note = f"prior {_entropy(result):.1f} nats, mean depth {mean:.1f}, lockstep {lockstep:.1f}"
    sides, rounds = [make_timed(run, lambda: (states, key), warm_up=False)], config.repeats
    if row.with_mctx and peers.installed("mctx") and peers.installed("pgx"):
        mctx_run = peers.mctx_search(row.size, row.simulations, MAX_DEPTH, row.spread)
        step = jax.jit(jax.vmap(peers.pgx_go(row.size).step))
        roots = functools.reduce(step, opening, peers.pgx_start(row.size, row.batch))
        note += f", mctx {peers.mean_depth(mctx_run(roots, key)):.1f}"
        sides.append(make_timed(mctx_run, lambda: (roots, key), warm_up=False))
        rounds = max(2, min(rounds, 3))
    total = row.batch * row.simulations
    figures = [[total / seconds for seconds in side] for side in in_turn(sides, rounds)]
    report.add(
        Result(
            row=row.name,
            unit="simulations/s",
            must=row.must,
            aim=row.aim,
            note=note,
            **against(figures[0], figures[1] if len(figures) > 1 else None, "mctx on pgx"),
        )
    )
    return lambda: sides[0]() / total


def _entropy(result: SearchResult) -> float:
    """Mean entropy of the roots' priors, in nats."""
    prior = np.asarray(all_edges(result.tree, ROOT).prior)
    prior = np.where(prior > 0, prior, 1.0)
    return float(-(prior * np.log(prior)).sum(axis=1).mean())


def _search_stub(rules, spread, settings, states, key):
    game = go_game(rules, stub_evaluator.observe)
    evaluate = functools.partial(stub_evaluator.evaluate, rules.num_actions, spread)
    return search(game, Evaluator(evaluate), key, states, settings)


def _compile(report: Report) -> None:
    report.say("compile time of a search at 9x9")
    row = "search 9x9 B=64, 400 sims: to trace and compile"
    task = "experiments.throughput.search:make_compile_seconds"
    compile_row(report, row, task, must=7.0, aim=4.0, size=9, batch=64, simulations=400)


def make_compile_seconds(size: int, batch: int, simulations: int) -> Callable[[], float]:
    """A function that traces and compiles a search from scratch and returns the seconds."""
    rules = go.Rules(size=size)
    settings = SearchConfig(num_simulations=simulations, max_depth=MAX_DEPTH)
    states = jax.block_until_ready(games.start(rules, batch))

    def lower() -> jax.stages.Lowered:
        run = functools.partial(_search_stub, rules, NETWORK_SPREAD, settings)
        return jax.jit(run).lower(states, jax.random.key(0))

    return compile_timer(lower)
