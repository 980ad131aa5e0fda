"""MC-RAVE with MoGo's playouts: how long an answer takes, and how many searches a batch does."""

from __future__ import annotations

import statistics
import time

import jax
import jax.numpy as jnp

from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, best_seconds
from experiments.throughput.worker import num_cores
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.search import TreeSearcher
from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_setup
from gozero.search.search import search

_SIMULATIONS = 3000
_BATCH, _BATCH_SIMULATIONS = 256, 400


def measure(config: ThroughputConfig, report: Report) -> None:
    """Rows on the classical player, whole."""
    for leaves in (1, 64):
        _answer(config, report, leaves)
    if not config.quick:
        _batch(config, report)


def _answer(config: ThroughputConfig, report: Report, leaves: int) -> None:
    """From the empty 9x9 board, where playouts are longest, as `gozero gtp` searches it."""
    flags = GtpConfig(
        search="rave", simulations=_SIMULATIONS, leaves=leaves, reuse=False, seed=config.seed
    )
    rules = go.Rules(size=9, ko="positional")
    searcher, state = TreeSearcher(rules, flags), go.init(rules, 7.0)
    searcher.search(state, 0, 0)  # compiles
    seconds = []
    for number in range(1, config.repeats + 1):
        started = time.perf_counter()
        searcher.search(state, 0, number)
        seconds.append(time.perf_counter() - started)
    report.add(
        Result(
            row=f"an answer 9x9, MC-RAVE with MoGo playouts, 3,000 sims, {leaves} leaves a step",
            ours=statistics.median(seconds),
            unit="s",
            must=2.0,
            bounds="ours",
            better="less",
            note=f"the empty board, {num_cores()} cores",
        )
    )


def _batch(config: ThroughputConfig, report: Report) -> None:
    rules = go.Rules(size=9, ko="positional")
    setup = make_setup(rules, PlayerConfig(search="rave", simulations=_BATCH_SIMULATIONS))
    game = go_game(rules)
    states = jax.vmap(lambda komi: go.init(rules, komi))(jnp.full(_BATCH, 7.0))

    @jax.jit
    def run(key):
        found = search(game, setup.evaluator, key, states, setup.search)
        return found.visits

    key = jax.random.key(config.seed)
    seconds = best_seconds(run, lambda: (key,), config.repeats)
    report.add(
        Result(
            row=f"search 9x9 MC-RAVE with MoGo playouts B={_BATCH}, {_BATCH_SIMULATIONS} sims",
            ours=_BATCH * _BATCH_SIMULATIONS / seconds,
            unit="simulations/s",
            note="from the empty board, one leaf a step",
        )
    )
