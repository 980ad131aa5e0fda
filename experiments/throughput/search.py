"""The search: PUCT on Go against mctx on pgx, the same stub evaluator on both sides."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable

import jax

from experiments.throughput import games, genmove, judges, peers, trees
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import (
    Report,
    Result,
    against,
    best_seconds,
    in_turn,
    make_timed,
)
from experiments.throughput.worker import Worker, num_cores
from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator
from gozero.search.search import search

MAX_DEPTH = 64


_ROWS = (
    # size, games, simulations, must, aim, whether mctx is asked (a deep search takes it minutes)
    (9, 64, 32, 10.0, 15.0, True),
    (9, 64, 400, 80.0, 200.0, True),
    (9, 256, 100, 25.0, 50.0, True),
    (9, 64, 1600, None, None, False),
    (19, 64, 400, None, None, False),
)


def measure(config: ThroughputConfig, report: Report) -> None:
    """PUCT on Go with exact superko in the tree, stub evaluator, against mctx on pgx."""
    timed = {}  # (size, simulations): seconds of a simulation of a tree, measured anew
    for size, batch, simulations, must, aim, ask_mctx in _ROWS[:1] if config.quick else _ROWS:
        rules = go.Rules(size=size)
        opening = games.record_games(rules, batch, config.seed)[:2]
        settings = SearchConfig(num_simulations=simulations, max_depth=MAX_DEPTH)
        states, _ = games.replay(rules)(games.start(rules, batch), opening)
        run = jax.jit(functools.partial(_search_stub, rules, settings))
        key = jax.random.key(config.seed)
        seconds = best_seconds(run, lambda s=states, k=key: (s, k), config.repeats)
        again = make_timed(run, lambda s=states, k=key: (s, k), warm_up=False)
        timed[size, simulations] = lambda again=again, n=batch * simulations: again() / n
        found = run(states, key)
        lockstep = trees.lockstep_depth(found, simulations)
        peer, note = None, f"mean depth {trees.depth(found):.1f}, lockstep {lockstep:.1f}"
        if ask_mctx and peers.installed("mctx") and peers.installed("pgx"):
            theirs = peers.mctx_search(size, simulations, MAX_DEPTH)
            roots = functools.reduce(
                jax.jit(jax.vmap(peers.pgx_go(size).step)), opening, peers.pgx_start(size, batch)
            )
            peer_seconds = best_seconds(theirs, lambda r=roots, k=key: (r, k), 1)
            peer = batch * simulations / peer_seconds
            note += f", mctx {peers.mean_depth(theirs(roots, key)):.1f}"
        report.add(
            Result(
                row=f"search {size}x{size} positional superko B={batch}, {simulations} sims",
                ours=batch * simulations / seconds,
                unit="simulations/s",
                peer=peer,
                peer_name="mctx on pgx" if peer else "",
                must=must,
                aim=aim,
                note=note,
            )
        )
    _compile(report)
    trees.measure(config, report)
    genmove.measure(config, report)
    if (9, 1600) in timed:
        sides = in_turn([timed[9, 1600], timed[9, 400]], max(config.repeats, 5))
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


def _search_stub(rules, settings, states, key):
    game = go_game(rules, judges.observe)
    evaluate = functools.partial(judges.stub, rules.num_actions)
    return search(game, Evaluator(evaluate), key, states, settings)


def _compile(report: Report) -> None:
    """In a child that has traced nothing yet, on two cores: XLA compiles in parallel."""
    report.say("compile time of a search at 9x9")
    task = "experiments.throughput.search:make_compile_seconds"
    with Worker(task, min(2, num_cores()), size=9, batch=64, simulations=400) as compiling:
        seconds = statistics.median(compiling() for _ in range(3))
    report.add(
        Result(
            row="search 9x9 B=64, 400 sims: to trace and compile",
            ours=seconds,
            unit="s",
            must=10.0,
            aim=4.0,
            bounds="ours",
            better="less",
        )
    )


def make_compile_seconds(size: int, batch: int, simulations: int) -> Callable[[], float]:
    """A function that traces and compiles a search anew and gives the seconds."""
    jax.config.update("jax_enable_compilation_cache", False)
    rules = go.Rules(size=size)
    settings = SearchConfig(num_simulations=simulations, max_depth=MAX_DEPTH)
    states = jax.block_until_ready(games.start(rules, batch))

    def compile_seconds() -> float:
        jax.clear_caches()
        started = time.perf_counter()
        run = jax.jit(functools.partial(_search_stub, rules, settings))
        run.lower(states, jax.random.key(0)).compile()
        return time.perf_counter() - started

    return compile_seconds
