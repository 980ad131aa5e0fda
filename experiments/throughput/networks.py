"""The gain of Winograd convolutions (`gozero.compile.winograd`) on a CPU: for a network alone, in a
search and in self-play."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding

from experiments.throughput import games, selfplay
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import (
    Report,
    Result,
    against,
    in_turn,
    make_timed,
    median_ratio,
)
from gozero.compile import winograd
from gozero.games.go import go_game
from gozero.go.rules import Rules
from gozero.nets import network
from gozero.nets.network import NetworkConfig
from gozero.play import devices
from gozero.play.networks import network_evaluator
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluation, Evaluator
from gozero.search.search import search

_CALLS, _POSITIONS = 2, 128
"""The fewest calls, and positions, of a timed run, which transforms the kernels once."""

_SIMULATIONS = 64

_NETWORKS = (
    # (size, blocks, channels, batch)
    (9, 6, 64, 256),
    (9, 6, 64, 64),
    (9, 4, 32, 256),
    (7, 6, 64, 256),
    (7, 4, 32, 256),
    (19, 6, 64, 64),
    (9, 6, 64, 8),
    (9, 6, 64, 1),
    (19, 6, 64, 8),
    (19, 6, 64, 1),
    (9, 4, 32, 16),
)
_MUST = 1.5


def measure(config: ThroughputConfig, report: Report) -> None:
    """Adds rows of evaluations/s, against the same weights with plain convolutions.

    If JAX has several devices (JAX_NUM_CPU_DEVICES): only for the network alone, on all of them.
    """
    mesh = devices.mesh_of()
    where = f", {mesh.size} devices" if mesh.size > 1 else ""
    for size, blocks, channels, batch in _NETWORKS[:1] if config.quick else _NETWORKS:
        rules = Rules(size=size)
        alone = functools.partial(_alone, rules, batch, mesh)
        for dtype in _dtypes():
            shape = NetworkConfig(blocks, channels, dtype=dtype)
            products = ", bf16 products" * (dtype == "bfloat16")
            name = f"network {size}x{size} B={batch}, {blocks}x{channels}{products}{where}"
            _both(config, report, name, rules, shape, alone, _calls(batch) * batch, _MUST)
    if not config.quick and mesh.size == 1:
        _programs(config, report, NetworkConfig(6, 64), "6x64 network")
        _programs(config, report, NetworkConfig(4, 32), "4x32 network")


def _calls(batch: int) -> int:
    return max(_CALLS, _POSITIONS // batch)


def _dtypes() -> tuple[str, ...]:
    """Those of networks whose products this machine computes in their own dtype."""
    known = "float32", "bfloat16"
    return tuple(x for x in known if winograd.product_dtype(jnp.dtype(x)) == x)


def _programs(config: ThroughputConfig, report: Report, shape: NetworkConfig, label: str) -> None:
    """Adds rows for a whole search and for self-play."""
    searched = lambda evaluator: _search(config, evaluator, 64)
    name = f"search 9x9 B=64, {_SIMULATIONS} sims, {label}, against convolutions"
    _both(config, report, name, selfplay.RULES, shape, searched, 64 * _SIMULATIONS)
    played = lambda evaluator: selfplay._training_play(config, evaluator, 256, moves=1)
    name = f"self-play 9x9 B=256, {selfplay._SIMULATIONS} sims, {label}, against convolutions"
    evaluations = 256 * (selfplay._SIMULATIONS + 1)
    _both(config, report, name, selfplay.RULES, shape, played, evaluations)


def _both(
    config: ThroughputConfig,
    report: Report,
    name: str,
    rules: Rules,
    shape: NetworkConfig,
    make_timer: Callable[[Evaluator], Callable[[], float]],
    evaluations: int,
    must: float | None = None,
) -> None:
    """Adds a row: times evaluators that differ only in their convolutions, which are f32 ones in
    the peer's."""
    evaluator = network_evaluator(rules, shape)
    plain = dataclasses.replace(shape, dtype="float32")
    sides = [evaluator, evaluator._replace(evaluate=_plain_evaluate(plain))]
    cpu_s: list[list[float]] = [[], []]
    timers = [
        _with_cpu_time(make_timer(side), record) for side, record in zip(sides, cpu_s, strict=True)
    ]
    ours, peer = ([evaluations / x for x in side] for side in in_turn(timers, config.repeats))
    fields = against(ours, peer, "plain convolutions")
    note = f"by processor time {median_ratio(cpu_s[1], cpu_s[0]):.2f}x"
    report.add(Result(row=name, unit="evaluations/s", must=must, note=note, **fields))


def _with_cpu_time(timer: Callable[[], float], cpu_s: list[float]) -> Callable[[], float]:
    """The timer, extended to append the seconds of CPU time to `cpu_s`."""

    def timed() -> float:
        started = time.process_time()
        seconds = timer()
        cpu_s.append(time.process_time() - started)
        return seconds

    return timed


def _plain_evaluate(shape: NetworkConfig) -> Callable:
    def evaluate(params: Any, key: jax.Array, inputs: Any) -> Evaluation:
        output = network.apply(shape, params, inputs)
        return Evaluation(output.policy_logits, output.value)

    return evaluate


def _alone(rules: Rules, batch: int, mesh: Mesh, evaluator: Evaluator) -> Callable[[], float]:
    """A timer of the network in a loop, as in a search; the positions are divided among devices."""
    states = games.start(rules, batch)
    observe: Any = evaluator.observe
    planes = jax.jit(jax.vmap(lambda s: observe(s, s.position, None)))(states)

    def run(params: Any, planes: jax.Array) -> jax.Array:
        prepared = evaluator._replace(params=params).prepared()

        def evaluate_once(_: Any, planes: jax.Array) -> jax.Array:
            evaluation = evaluator.evaluate(prepared.params, jax.random.key(0), planes)
            return planes + 0 * evaluation.value[:, None, None, None]

        return lax.fori_loop(0, _calls(batch), evaluate_once, planes)

    specs = devices.EVERYWHERE, devices.DIVIDED
    run = jax.jit(devices.over_devices(run, mesh, specs))
    placed = [NamedSharding(mesh, spec) for spec in specs]
    arguments = tuple(map(jax.device_put, (evaluator.params, planes), placed))
    return make_timed(run, lambda: arguments)


def _search(config: ThroughputConfig, evaluator: Evaluator, batch: int) -> Callable[[], float]:
    states, game = games.start(selfplay.RULES, batch), go_game(selfplay.RULES)

    def run(params: Any, states: Any, key: jax.Array) -> jax.Array:
        own = evaluator._replace(params=params)
        return search(game, own, key, states, SearchConfig(_SIMULATIONS)).visits

    arguments = evaluator.params, states, jax.random.key(config.seed)
    return make_timed(jax.jit(run), lambda: arguments)
