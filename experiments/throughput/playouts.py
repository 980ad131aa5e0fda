"""Uniform playouts from the empty board, per core, against the C yardstick per core."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from experiments.throughput import yardstick
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, against, in_turn, median_ratio
from experiments.throughput.worker import Worker, num_cores
from gozero import fusion
from gozero.go import rules as go
from gozero.montecarlo.playout import uniform_playouts

LANES = {9: 1024, 13: 1024, 19: 512}  # playouts of a call, where each has a lane of its own
REFILLS = 16  # times as many, where lanes that have ended make room for others
REFILLED = [(9, 3.0, 4.0), (13, 1.5, 2.0), (19, 1.1, 2.0)]  # size, must, aim
ONE_A_LANE = [(9, 1.9, 2.5), (19, 0.8, 1.5)]
FIRST_PLAYS = [(9, 1.5, 2.0), (19, 0.7, 1.2)]
BOTH_CORES = (9, 4096, 1.7, 1.9)  # size, lanes, must, aim

SECONDS = 0.5  # what one measurement lasts, about
YARDSTICK_GAMES = {9: 80_000, 13: 40_000, 19: 16_000}  # some half a second's


def measure(config: ThroughputConfig, report: Report) -> None:
    if not yardstick.installed():
        report.say("no gcc, no yardstick: our figures alone")
    kinds = [
        ("refilled lanes", REFILLED, {"refills": REFILLS}),
        ("one a lane", ONE_A_LANE, {}),
        ("one a lane, first plays", FIRST_PLAYS, {"first_plays": True}),
    ]
    for name, rows, options in kinds:
        for size, must, aim in rows[:1] if config.quick else rows:
            measure_per_core(config, report, f"{size}x{size}, {name}", size, options, must, aim)
    measure_both_cores(config, report)
    if jax.default_backend() != "cpu":
        measure_accelerator(config, report)


def measure_per_core(
    config: ThroughputConfig,
    report: Report,
    name: str,
    size: int,
    options: dict[str, Any],
    must: float,
    aim: float,
) -> None:
    """One row: ours and the yardstick, each in a child that keeps to one core, in turn."""
    report.say(f"playouts {name}: {config.repeats} rounds")
    sides = {"ours": ("playouts:make_rate", {"size": size, "seed": config.seed, **options})}
    if yardstick.installed():
        for amaf in (False, True) if options.get("first_plays") else (False,):
            program = str(yardstick.build(size))
            games = {"program": program, "playouts": YARDSTICK_GAMES[size], "amaf": amaf}
            sides["C with first plays" if amaf else "C"] = ("yardstick:make_rate", games)
    rates = _rates_in_turn(
        {side: (task, 1, given) for side, (task, given) in sides.items()}, config
    )
    note = "" if yardstick.installed() else "no gcc"
    if "C with first plays" in rates:
        ratio = median_ratio(rates["ours"], rates["C with first plays"])
        note = f"{ratio:.2f}x of the yardstick when it keeps them too"
    report.add(
        Result(
            row=f"playouts {name}, one core",
            unit="playouts/s",
            must=must,
            aim=aim,
            note=note,
            device="cpu",
            **against(rates["ours"], rates.get("C"), "C, one core"),
        )
    )


def measure_both_cores(config: ThroughputConfig, report: Report) -> None:
    """Two cores, a device each, against one: the same number of lanes altogether."""
    size, lanes, must, aim = BOTH_CORES
    if num_cores() < 2:
        report.say("playouts on both cores: this process may use one core only")
        return
    report.say(f"playouts {size}x{size}, both cores: {config.repeats} rounds")
    given = {"size": size, "seed": config.seed, "refills": REFILLS, "lanes": lanes}
    sides = {cores: ("playouts:make_rate", cores, given) for cores in (2, 1)}
    rates = _rates_in_turn(sides, config)
    report.add(
        Result(
            row=f"playouts {size}x{size}, both cores",
            unit="playouts/s",
            must=must,
            aim=aim,
            device="cpu",
            **against(rates[2], rates[1], "one core"),
        )
    )


def _rates_in_turn(sides: dict[Any, tuple[str, int, dict]], config: ThroughputConfig) -> dict:
    """{side: its figures}; a side is a task of this package, its cores and its parameters."""
    with contextlib.ExitStack() as children:
        measures = [
            children.enter_context(Worker(f"experiments.throughput.{task}", cores, **given))
            for task, cores, given in sides.values()
        ]
        return dict(zip(sides, in_turn(measures, config.repeats), strict=True))


def measure_accelerator(config: ThroughputConfig, report: Report) -> None:
    """On JAX's first device, where that is no CPU; no peer."""
    for size, lanes in ((9, 2**16), (19, 2**14)):
        report.say(f"playouts {size}x{size} on {jax.default_backend()}")
        rate = make_rate(size, config.seed, lanes=lanes)
        rate()
        figures = [rate() for _ in range(config.repeats)]
        report.add(
            Result(
                row=f"playouts {size}x{size}, one a lane, B={lanes}",
                ours=statistics.median(figures),
                unit="playouts/s",
            )
        )


def make_rate(
    size: int, seed: int, *, refills: int = 1, first_plays: bool = False, lanes: int | None = None
) -> Callable[[], float]:
    """A function that plays for a while, on all devices, and gives the playouts a second.

    Args:
      size: points on a side.
      seed: of the playouts.
      refills: playouts of a call for each of the lanes.
      first_plays: also keep, for each colour, the points where it was the first to play.
      lanes: of all devices together; None for `LANES`.
    """
    rules = go.Rules(size=size, ko="simple")
    lanes = LANES[size] if lanes is None else lanes
    positions = jax.vmap(lambda _: go.empty_position(rules))(jnp.arange(lanes * refills))
    mesh = Mesh(np.array(jax.devices()), ("lanes",))

    def shard(positions, ids, call):
        key = jax.random.fold_in(jax.random.key(seed), call)
        return uniform_playouts(rules, positions, key, ids=ids, first_plays=first_plays)

    run = jax.jit(
        jax.shard_map(
            shard,
            mesh=mesh,
            in_specs=(P("lanes"), P("lanes"), P()),
            out_specs=P("lanes"),
            check_vma=False,
        ),
        compiler_options=fusion.cpu_compiler_options(),
    )
    ids = jnp.arange(lanes * refills, dtype=jnp.uint32)
    positions, ids = jax.device_put((positions, ids), NamedSharding(mesh, P("lanes")))
    calls = itertools.count()

    def measure() -> float:
        played, started = 0, time.perf_counter()
        while (seconds := time.perf_counter() - started) < SECONDS:
            jax.block_until_ready(run(positions, ids, np.uint32(next(calls))))
            played += lanes * refills
        return played / seconds

    return measure
