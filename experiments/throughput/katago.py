"""A KataGo network: evaluations/s against KataGo itself on the same cores, and a search's
evaluations/s against the bare network's. If JAX has several devices (JAX_NUM_CPU_DEVICES), the
positions are divided among them.

KataGo's figure is from its own benchmark, a search that also computes the inputs, so ours includes
the inputs too.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding

from experiments.katago.config import PEER
from experiments.throughput import games
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, against, in_turn, make_timed
from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.nets import weights
from gozero.play import devices
from gozero.play.networks import network_evaluator
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator
from gozero.search.search import search

_BATCH, _CALLS = 64, 8


def measure(config: ThroughputConfig, report: Report) -> None:
    """Adds rows on evaluations, then on searches; on 9x9 and, unless `quick`, on 19x19."""
    which = slice(1) if config.quick else slice(None)
    for size, calls, visits in ((9, 8, 800), (19, 1, 100))[which]:
        _evaluations(config, report, size, calls, visits)
    for size, simulations in ((9, 200), (19, 16), (19, 200))[which]:
        _search(config, report, size, 8 if config.quick else simulations)


def _evaluator(config: ThroughputConfig, size: int) -> tuple[go.Rules, Evaluator]:
    assert config.weights is not None  # the settings require them
    rules = go.Rules(size=size)
    shape, params, _ = weights.load(config.weights)
    return rules, network_evaluator(rules, shape, params).prepared()


def _observe(evaluator: Evaluator, states: go.GameState) -> Any:
    """The network's observations of games [B]."""
    observe: Any = evaluator.observe
    return jax.vmap(lambda s: observe(s, s.position, None))(states)


def _in_play(config: ThroughputConfig, rules: go.Rules, evaluator: Evaluator) -> go.GameState:
    """Games played by the network's policy, each at a different ply from 0 to 63; random games
    would have other ladders to read."""

    def moves(params, states):
        def move(states, ply_and_key):
            ply, key = ply_and_key
            observations = _observe(evaluator, states)
            logits = evaluator.evaluate(params, key, observations).prior_logits
            legal = jax.vmap(lambda s: go.legal_actions(rules, s))(states)
            actions = jax.random.categorical(key, jnp.where(legal, logits, -jnp.inf))
            active = jnp.arange(_BATCH) > ply
            after = jax.vmap(lambda s, a: go.play(rules, s, a))(states, actions.astype(jnp.int32))
            keep = lambda new, old: jnp.where(active.reshape(-1, *[1] * (new.ndim - 1)), new, old)
            return jax.tree.map(keep, after, states), None

        keys = jax.random.split(jax.random.key(config.seed), _BATCH - 1)
        return lax.scan(move, states, (jnp.arange(_BATCH - 1), keys))[0]

    return jax.jit(moves)(evaluator.params, games.start(rules, _BATCH))


def _evaluations(config, report, size: int, calls: int, visits: int) -> None:
    rules, evaluator = _evaluator(config, size)
    states = _in_play(config, rules, evaluator)

    def run(params, states):
        return evaluator.evaluate(params, jax.random.key(0), _observe(evaluator, states))

    mesh = devices.make_mesh(_BATCH)
    once, arguments = _divided(run, mesh, evaluator.params, states)
    several = lambda *arrays: [once(*arrays) for _ in range(calls)]
    ours = make_timed(several, lambda: arguments)
    katago = shutil.which(config.katago)
    sides = [ours] if katago is None else [ours, lambda: _katago_rate(config, katago, size, visits)]
    seconds, *peer = in_turn(sides, config.repeats)
    rates = [calls * _BATCH / x for x in seconds]
    report.add(
        Result(
            row=f"KataGo's network {size}x{size} B={_BATCH}{_where(mesh)}",
            unit="evaluations/s",
            note=f"{config.weights.name}, inputs made",
            **against(rates, peer[0] if peer else None, "KataGo's benchmark"),
        )
    )


def _katago_rate(config: ThroughputConfig, program: str, size: int, visits: int) -> float:
    """KataGo's evaluations/s, with as many threads as cores."""
    threads = len(os.sched_getaffinity(0))
    options = {"-model": config.weights, "-config": PEER, "-boardsize": size, "-visits": visits}
    options |= {"-threads": threads, "-n": 2}
    command = [program, "benchmark", *(str(x) for pair in options.items() for x in pair)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rates = re.findall(r"nnEvals/s = ([\d.]+)", output)
    return float(rates[-1])


def _bare(evaluator: Evaluator, states: go.GameState, mesh: Mesh):
    """A timer of `_CALLS` calls of the bare network on the games' observations."""
    planes = jax.jit(functools.partial(_observe, evaluator))(states)

    def evaluate(params, planes):
        return evaluator.evaluate(params, jax.random.key(0), planes)

    once, arguments = _divided(evaluate, mesh, evaluator.params, planes)
    several = lambda *arrays: [once(*arrays) for _ in range(_CALLS)]
    return make_timed(several, lambda: arguments)


def _where(mesh: Mesh) -> str:
    """The end of a row's name."""
    return f", {mesh.size} devices" if mesh.size > 1 else ""


def _divided(function: Any, mesh: Mesh, params: Any, batch: Any) -> tuple[Any, tuple]:
    """(The function of parameters and a batch, jitted, with the batch divided among the devices;
    its arguments, placed there)."""
    specs = devices.EVERYWHERE, devices.DIVIDED
    placed = [NamedSharding(mesh, spec) for spec in specs]
    arguments = tuple(map(jax.device_put, (params, batch), placed))
    return jax.jit(devices.over_devices(function, mesh, specs)), arguments


def _search(config, report, size: int, simulations: int) -> None:
    rules, evaluator = _evaluator(config, size)
    game, mesh = go_game(rules), devices.make_mesh(_BATCH)
    states = _in_play(config, rules, evaluator)
    rule: Any = evaluator.select
    settings = SearchConfig(simulations, select=rule, root_select=rule.at_root)

    def run(params, states):
        own = evaluator._replace(params=params)
        key = devices.own_key(jax.random.key(config.seed))
        return search(game, own, key, states, settings, keep_tree=False).visits

    once, arguments = _divided(run, mesh, evaluator.params, states)
    timers = [make_timed(once, lambda: arguments), _bare(evaluator, states, mesh)]
    ours, peer = in_turn(timers, config.repeats)
    # A search does one evaluation more than simulations: the root's.
    rates = [_BATCH * (simulations + 1) / x for x in ours], [_CALLS * _BATCH / x for x in peer]
    what = f"search {size}x{size} B={_BATCH}, {simulations} sims, KataGo's network"
    report.add(
        Result(
            row=what + _where(mesh),
            unit="evaluations/s",
            must=0.95,
            note=f"{config.weights.name}",
            **against(*rates, "the bare network"),
        )
    )
