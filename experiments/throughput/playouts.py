"""Playouts from the empty board, per core: uniform ones against C, MoGo's against a bound."""

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
from gozero.compile import mode, stages
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.playouts.policies.mogo.playouts import mogo_playouts
from gozero.playouts.policies.uniform import uniform_playouts

LANES = {9: 1024, 13: 1024, 19: 512}  # playouts per call without refills
REFILLS = 16  # times as many playouts, if a lane is refilled when its playout ends
REFILLED = [(9, 3.0, 4.0), (13, 1.5, 2.0), (19, 1.1, 2.0)]  # size, must, aim
ONE_A_LANE = [(9, 1.9, 2.5), (19, 0.8, 1.5)]
FIRST_PLAYS = [(9, 1.5, 2.0), (19, 0.7, 1.2)]
MOGO_REFILLED = [(9, 100e3, 200e3), (13, 25e3, 50e3), (19, 6e3, 15e3)]  # playouts/s
MOGO_ONE_A_LANE = [(9, 60e3, 130e3)]
MOGO_LANES = {9: 2048, 13: 1024, 19: 512}  # playouts per call without refills
MOGO_REFILLS = 4
BOTH_CORES = (9, 4096, 1.7, 1.9)  # size, lanes, must, aim

SECONDS = 0.5  # approximate duration of a measurement
YARDSTICK_GAMES = {9: 80_000, 13: 40_000, 19: 16_000}  # about half a second's


def measure(config: ThroughputConfig, report: Report) -> None:
    if not yardstick.installed():
        report.say("gcc is not installed, so there is no yardstick: only our figures")
    kinds = [
        ("refilled lanes", REFILLED, {"refills": REFILLS}),
        ("one a lane", ONE_A_LANE, {}),
        ("one a lane, first plays", FIRST_PLAYS, {"first_plays": True}),
    ]
    for name, rows, options in kinds:
        for size, must, aim in rows[:1] if config.quick else rows:
            measure_per_core(config, report, f"{size}x{size}, {name}", size, options, must, aim)
    for name, rows, refills in [
        ("refilled lanes", MOGO_REFILLED, MOGO_REFILLS),
        ("one a lane", MOGO_ONE_A_LANE, 1),
    ]:
        for size, must, aim in rows[:1] if config.quick else rows:
            measure_mogo(config, report, f"{size}x{size}, {name}", size, refills, must, aim)
    measure_both_cores(config, report)
    if mode.backend() != "cpu":
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
    """Adds a row: ours and the C engine, each in a child pinned to one core, in turn."""
    report.say(f"playouts {name}: {config.repeats} rounds")
    sides = {"ours": ("playouts:make_rate", {"size": size, "seed": config.seed, **options})}
    if yardstick.installed():
        for amaf in (False, True) if options.get("first_plays") else (False,):
            program = str(yardstick.build(size))
            games = {"program": program, "playouts": YARDSTICK_GAMES[size], "amaf": amaf}
            sides["C with first plays" if amaf else "C"] = ("yardstick:make_rate", games)
    rates = _rates_in_turn(
        {side: (task, 1, parameters) for side, (task, parameters) in sides.items()}, config
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


def measure_mogo(
    config: ThroughputConfig,
    report: Report,
    name: str,
    size: int,
    refills: int,
    must: float,
    aim: float,
) -> None:
    """Adds a row: playouts by MoGo's rules, with first plays, in a child pinned to one core.

    Uniform playouts are also timed, for the note; the bounds are on our own figure.
    """
    report.say(f"MoGo playouts {name}: {config.repeats} rounds")
    parameters = {"size": size, "seed": config.seed, "refills": refills, "first_plays": True}
    parameters |= {"lanes": MOGO_LANES[size], "processor_time": True}
    task = "playouts:make_rate"
    sides = {policy: (task, 1, {**parameters, "policy": policy}) for policy in ("mogo", "uniform")}
    rates = _rates_in_turn(sides, config)
    ratio = median_ratio(rates["mogo"], rates["uniform"])
    report.add(
        Result(
            row=f"MoGo playouts {name}, first plays, one core",
            ours=statistics.median(rates["mogo"]),
            unit="playouts/s",
            must=must,
            aim=aim,
            bounds="ours",
            note=f"{ratio:.2f}x of uniform ones, of processor time",
            device="cpu",
        )
    )


def measure_both_cores(config: ThroughputConfig, report: Report) -> None:
    """Two cores, a device each, against one core, with the same total number of lanes."""
    size, lanes, must, aim = BOTH_CORES
    if num_cores() < 2:
        report.say("playouts on both cores: this process may use one core only")
        return
    report.say(f"playouts {size}x{size}, both cores: {config.repeats} rounds")
    parameters = {"size": size, "seed": config.seed, "refills": REFILLS, "lanes": lanes}
    sides = {cores: ("playouts:make_rate", cores, parameters) for cores in (2, 1)}
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
    """{side: its figures}; a side is (task of this package, number of cores, parameters)."""
    with contextlib.ExitStack() as children:
        measures = [
            children.enter_context(Worker(f"experiments.throughput.{task}", cores, **parameters))
            for task, cores, parameters in sides.values()
        ]
        return dict(zip(sides, in_turn(measures, config.repeats), strict=True))


def measure_accelerator(config: ThroughputConfig, report: Report) -> None:
    """Adds rows for JAX's first device, if that is not a CPU; without a peer."""
    for size, lanes in ((9, 2**16), (19, 2**14)):
        report.say(f"playouts {size}x{size} on {mode.backend()}")
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
    size: int,
    seed: int,
    *,
    policy: str = "uniform",
    refills: int = 1,
    first_plays: bool = False,
    lanes: int | None = None,
    processor_time: bool = False,
) -> Callable[[], float]:
    """A function that plays for `SECONDS` on all devices and returns playouts/s.

    Args:
      size: points on a side.
      seed: the seed of the playouts.
      policy: "uniform" or "mogo".
      refills: playouts per lane and call.
      first_plays: also record, for each colour, the points where it played first.
      lanes: lanes of all devices together; None for `LANES`.
      processor_time: whether to measure this process's CPU time instead of wall-clock time, for
        figures without a peer on a shared machine.
    """
    rules = go.Rules(size=size, ko="simple")
    lanes = LANES[size] if lanes is None else lanes
    positions = jax.vmap(lambda _: go.empty_position(rules))(jnp.arange(lanes * refills))
    mesh = Mesh(np.array(jax.devices()), ("lanes",))

    def shard(positions, ids, call):
        key = jax.random.fold_in(jax.random.key(seed), call)
        if policy == "uniform":
            return uniform_playouts(rules, positions, key, ids=ids, first_plays=first_plays)
        last = jnp.full(ids.shape, bb.NO_POINT)
        return mogo_playouts(rules, positions, key, last=last, ids=ids, first_plays=first_plays)

    run = jax.jit(
        jax.shard_map(
            shard,
            mesh=mesh,
            in_specs=(P("lanes"), P("lanes"), P()),
            out_specs=P("lanes"),
            check_vma=False,
        ),
        compiler_options=stages.cpu_compiler_options(),
    )
    ids = jnp.arange(lanes * refills, dtype=jnp.uint32)
    positions, ids = jax.device_put((positions, ids), NamedSharding(mesh, P("lanes")))
    calls = itertools.count()
    now = time.process_time if processor_time else time.perf_counter

    def measure() -> float:
        played, started = 0, now()
        while (seconds := now() - started) < SECONDS:
            jax.block_until_ready(run(positions, ids, np.uint32(next(calls))))
            played += lanes * refills
        return played / seconds

    return measure
