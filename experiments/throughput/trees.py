"""Trees alone: on the hash game, so that the search is measured and not Go."""

from __future__ import annotations

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

from experiments.array_tree.numpy_tree import NumpyTree
from experiments.throughput import hash_game
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, against, in_turn, make_timed
from gozero.go import rules as go
from gozero.search import reuse
from gozero.search import tree as trees
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import MinimumMse, Rave
from gozero.search.search import SearchResult, search
from gozero.search.tree import OptionalArrays


def measure(config: ThroughputConfig, report: Report) -> None:
    """Adds rows on the tree: RAVE against PUCT, one tree against NumPy, bytes, re-rooting."""
    _rave(config, report)
    _single_tree(config, report)
    _bytes(report)
    _reroot(config, report)


def depth(result: SearchResult) -> float:
    """Mean edges per simulation, over all trees: each simulation visits each node on its path."""
    num_trees = result.visits.shape[0]
    edges = int(result.tree.visits.sum()) - num_trees - int(result.visits.sum())
    return edges / int(result.visits.sum())


def lockstep_depth(result: SearchResult, num_simulations: int) -> float:
    """Mean length of the longest path of a step, over the trees that gain a node in every step.

    Trees in lockstep wait for the deepest. If every simulation adds a node, node i is that of
    simulation i.
    """
    tree = result.tree
    parent = np.asarray(tree.parent).reshape(tree.num_trees, -1).astype(np.int64)
    full = np.asarray(tree.size) > num_simulations
    depths = np.zeros(parent.shape, np.int64)
    for node in range(1, num_simulations + 1):
        depths[:, node] = np.take_along_axis(depths, np.maximum(parent[:, node : node + 1], 0), 1)[
            :, 0
        ]
        depths[:, node] += 1
    return float(depths[full, 1 : num_simulations + 1].max(axis=0).mean()) if full.any() else 0.0


def _runner(num_actions: int, settings: SearchConfig, evaluate):
    """A jitted search of the hash game: (roots, key) -> SearchResult."""
    game = hash_game.hash_game(num_actions)

    def run(roots, key):
        return search(game, Evaluator(evaluate), key, roots, settings)

    return jax.jit(run)


def _rave(config: ThroughputConfig, report: Report) -> None:
    num_trees, simulations = 64, 400
    settings = functools.partial(SearchConfig, simulations, max_depth=64)
    arguments = (hash_game.roots(num_trees, config.seed), jax.random.key(config.seed))
    for num_actions in (82, 362):
        puct = _runner(
            num_actions,
            settings(select=Puct()),
            hash_game.evaluator(num_actions, 8.0, 1.0),
        )
        rave = _runner(
            num_actions,
            settings(select=Rave(MinimumMse(0.1)), amaf=Amaf()),
            hash_game.evaluator(num_actions, 8.0, 1.0, playouts=True),
        )
        sides = [make_timed(run, lambda: arguments) for run in (rave, puct)]
        per_simulation = num_trees * simulations / 1e6
        ours, peer = ([x / per_simulation for x in side] for side in in_turn(sides, config.repeats))
        depths = [depth(run(*arguments)) for run in (rave, puct)]
        report.add(
            Result(
                row=f"tree alone, {num_actions} actions B=64, 400 sims: MC-RAVE against PUCT",
                unit="us a simulation",
                must=3.0 if num_actions == 82 else None,
                aim=1.8 if num_actions == 82 else None,
                better="less",
                note=f"mean depth {depths[0]:.1f}, PUCT {depths[1]:.1f}",
                **against(ours, peer, "PUCT"),
            )
        )


def _single_tree(config: ThroughputConfig, report: Report) -> None:
    """10^4 simulations of one shallow tree of 362 actions, as in the article on NumPy trees."""
    num_actions, simulations, spread = 362, 2_000 if config.quick else 10_000, 2.0
    rng = np.random.RandomState(config.seed)
    priors = np.exp(rng.rand(1000, num_actions).astype(np.float32) * spread)
    priors /= priors.sum(axis=1, keepdims=True)
    values = (rng.rand(1000) * 2 - 1).astype(np.float32)
    latest = {}

    def numpy_seconds():
        started = time.perf_counter()
        tree = latest["tree"] = NumpyTree(num_actions, simulations + 1, priors, values)
        for _ in range(simulations):
            tree.step()
        return time.perf_counter() - started

    evaluate = hash_game.evaluator(num_actions, spread, 1.0)
    run = _runner(num_actions, SearchConfig(simulations, max_depth=64), evaluate)
    arguments = (hash_game.roots(1, config.seed), jax.random.key(config.seed))
    ours, peer = in_turn([make_timed(run, lambda: arguments), numpy_seconds], config.repeats)
    numpy_tree = latest["tree"]
    note = f"mean depth {depth(run(*arguments)):.1f}, NumPy {numpy_tree.edges / simulations:.1f}"
    row = f"one tree, {num_actions} actions, {simulations:,} sims"
    speeds = [1.0 / x for x in ours], [1.0 / x for x in peer]
    report.add(
        Result(
            row=row,
            unit="searches/s",
            must=1.0,
            aim=2.0,
            note=note,
            **against(*speeds, "flat NumPy"),
        )
    )
    compiled = run.lower(*arguments).compile()
    stats = compiled.memory_analysis()
    assert stats is not None  # XLA reports it on all platforms
    mib = (stats.temp_size_in_bytes + stats.output_size_in_bytes) / 2**20
    report.add(
        Result(
            row=f"{row}: tree and XLA's temporary memory",
            ours=mib,
            unit="MiB",
            peer=numpy_tree.nbytes / 2**20,
            peer_name="flat NumPy",
            must=60.0,
            aim=40.0,
            bounds="ours",
            better="less",
            note="the result, which is the tree, counted beside what the loop holds",
        )
    )


def _bytes(report: Report) -> None:
    def bytes_of(size, nodes, amaf=False):
        rules = go.Rules(size=size)
        states = jax.eval_shape(jax.vmap(lambda komi: go.init(rules, komi)), jnp.zeros(1))
        optional = OptionalArrays(amaf=amaf)
        return trees.memory_bytes(states.position, rules.num_actions, nodes, optional)

    bound = functools.partial(Result, unit="bytes", bounds="ours", better="less")
    for size, must, aim in ((9, 900.0, 580.0), (19, 3200.0, 2450.0)):
        report.add(
            bound(
                row=f"bytes a node {size}x{size}, PUCT, position included",
                ours=(bytes_of(size, 1001) - bytes_of(size, 1)) / 1000,
                must=must,
                aim=aim,
            )
        )
    amaf_bytes = (bytes_of(9, 1001, amaf=True) - bytes_of(9, 1001)) / 1001 / 82
    report.add(
        bound(
            row="bytes an edge, with all-moves-as-first statistics",
            ours=amaf_bytes + 6.0,
            must=24.0,
            aim=14.0,
            note="a prior of 4 bytes and a child of 2 among them",
        )
    )


def _reroot(config: ThroughputConfig, report: Report) -> None:
    num_actions, num_trees, simulations = 82, 64, 100
    settings = SearchConfig(simulations, max_depth=64, select=Puct()).for_reuse
    run = _runner(num_actions, settings, hash_game.evaluator(num_actions, 8.0, 1.0))
    arguments = (hash_game.roots(num_trees, config.seed), jax.random.key(config.seed))
    result = run(*arguments)
    move_on = jax.jit(reuse.reroot)
    sides = [
        make_timed(move_on, lambda: (result.tree, result.action)),
        make_timed(run, lambda: arguments),
    ]
    ours, peer = ([x * 1e3 for x in side] for side in in_turn(sides, max(config.repeats, 5)))
    report.add(
        Result(
            row="re-root B=64, 82 actions, against a search of 100 sims",
            unit="ms",
            must=0.25,
            aim=0.12,
            better="less",
            **against(ours, peer, "the search"),
        )
    )
