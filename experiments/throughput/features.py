"""The cost of a position's feature planes, against a network of 4 blocks of 32 channels.

The positions are from the middle of random games that fill no eyes: after half as many plies as the
board has points. Planes and network run on the same batch, in turn, so that a busy machine slows
both.
"""

from __future__ import annotations

import functools
import time

import jax
import jax.numpy as jnp

from experiments.throughput import games
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result
from gozero.compile import stages
from gozero.go import rules as go
from gozero.go.ladders import ladders
from gozero.nets import network
from gozero.nets.features import FEATURES
from gozero.nets.network import NetworkConfig

MUST = 33.0
"""Planes may take 3% of the network's time."""

CALLS = 5


def measure(config: ThroughputConfig, report: Report) -> None:
    """Adds rows: each feature set against the network that takes it; then ladders alone."""
    for size, batch in [(9, 256)] if config.quick else [(9, 256), (19, 64), (19, 256)]:
        states = middle_games(go.Rules(size=size), batch, config.seed)
        for name in ("compact", "zero", "full-no-ladders", "full"):
            _against_network(size, batch, name, states, config, report)
        _ladders(size, batch, states, config, report)


def middle_games(rules: go.Rules, batch: int, seed: int) -> go.GameState:
    """Games after size^2 / 2 plies."""
    actions = games.record_games(rules, batch, seed)[: rules.num_points // 2]
    return games.replay(rules)(games.start(rules, batch), actions)[0]


def _against_network(size, batch, name, states, config, report) -> None:
    rules, shape = go.Rules(size=size), NetworkConfig(blocks=4, channels=32, features=name)
    observe = jax.vmap(lambda s: FEATURES[name].observe(rules, s, s.position))
    forward = functools.partial(network.apply, shape)
    params = network.init(shape, jax.random.key(config.seed))
    inputs = jax.jit(observe)(states)
    compiled = functools.partial(jax.jit, compiler_options=stages.cpu_compiler_options())
    planes, forward_s, both = best_of_each(
        [
            (compiled(observe), (states,)),
            (compiled(forward), (params, inputs)),
            (compiled(lambda params, states: forward(params, observe(states))), (params, states)),
        ],
        config.repeats,
    )
    report.add(
        Result(
            row=f"planes {size}x{size} B={batch}, {name}",
            ours=batch / planes,
            unit="positions/s",
            peer=batch / forward_s,
            peer_name="4x32 network",
            must=MUST if name == "full-no-ladders" else None,
            note=f"{100 * planes / forward_s:.1f}% of the network, {1e6 * planes / batch:.1f} us; "
            f"in one program with it {100 * (both / forward_s - 1):+.1f}%",
        )
    )


def _ladders(size, batch, states, config, report) -> None:
    rules = go.Rules(size=size)
    read = jax.jit(jax.vmap(lambda position: ladders(rules, position)))
    (seconds,) = best_of_each([(read, (states.position,))], config.repeats)
    note = f"{1e6 * seconds / batch:.0f} us a board; the full set reads three"
    row = f"ladders {size}x{size} B={batch}"
    report.add(Result(row, batch / seconds, "positions/s", note=note))


def best_of_each(runs, repeats: int) -> list[float]:
    """Least seconds per call of each (function, arguments), timed in turn after compilation.

    A turn is several calls in a row after one that is not timed, so that each call finds in the
    cache what its own last call left there. (After the network has run, the host takes 0.3 ms to
    call even a program that does nothing with a batch of states, and 0.02 ms to call it again.)
    """
    for run, arguments in runs:
        jax.block_until_ready(run(*arguments))
    best = [jnp.inf] * len(runs)
    for _ in range(3 * repeats):
        for i, (run, arguments) in enumerate(runs):
            jax.block_until_ready(run(*arguments))
            started = time.perf_counter()
            for _ in range(CALLS):
                jax.block_until_ready(run(*arguments))
            best[i] = min(best[i], (time.perf_counter() - started) / CALLS)
    return best
