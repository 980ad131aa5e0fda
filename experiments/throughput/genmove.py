"""MC-RAVE with MoGo's playouts: the time of an answer, and the throughput of batched searches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, make_timed
from experiments.throughput.worker import Worker, num_cores
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.search import TreeSearcher
from gozero.compile import stages
from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.play import devices
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_setup
from gozero.search.search import search

_SIMULATIONS = 3000
_BATCH, _BATCH_SIMULATIONS = 256, 400


def measure(config: ThroughputConfig, report: Report) -> None:
    """Adds rows on the whole classical player."""
    for leaves in (1, 64):
        _answer(config, report, leaves)
    if not config.quick:
        _batch(config, report)


def _answer(config: ThroughputConfig, report: Report, leaves: int) -> None:
    """An answer from the empty 9x9 board, where playouts are longest, as in `gozero gtp`."""
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
            must=0.12 if leaves == 1 else 2.0,
            bounds="ours",
            better="less",
            note=f"the empty board, {num_cores()} cores",
        )
    )


def _batch(config: ThroughputConfig, report: Report) -> None:
    cores = min(2, num_cores())
    report.say(f"MC-RAVE with MoGo playouts, {_BATCH} searches on {cores} cores")
    task = "experiments.throughput.genmove:make_batch_rate"
    with Worker(task, cores, seed=config.seed) as rate:
        figures = [rate() for _ in range(config.repeats)]
    report.add(
        Result(
            row=f"search 9x9 MC-RAVE with MoGo playouts B={_BATCH}, {_BATCH_SIMULATIONS} sims",
            ours=statistics.median(figures),
            unit="simulations/s",
            must=300e3,
            bounds="ours",
            note=f"from the empty board, one leaf a step, {cores} cores, a device each",
        )
    )


def make_batch_rate(seed: int) -> Callable[[], float]:
    """A function that searches the empty board on all devices and returns simulations/s."""
    rules = go.Rules(size=9, ko="positional")
    setup = make_setup(rules, PlayerConfig(search="rave", simulations=_BATCH_SIMULATIONS))
    game, mesh = go_game(rules), devices.mesh_of()

    def share(key):
        komi = jnp.full(_BATCH // mesh.size, 7.0)
        states = jax.vmap(lambda komi: go.init(rules, komi))(komi)
        key = jax.random.fold_in(key, lax.axis_index(devices.AXIS))
        return search(game, setup.evaluator, key, states, setup.search).visits

    spec = {"in_specs": devices.EVERYWHERE, "out_specs": devices.DIVIDED, "check_vma": False}
    run = jax.jit(
        jax.shard_map(share, mesh=mesh, **spec), compiler_options=stages.cpu_compiler_options()
    )
    seconds = make_timed(run, lambda: (jax.random.key(seed),))
    return lambda: _BATCH * _BATCH_SIMULATIONS / seconds()
