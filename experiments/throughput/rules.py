"""The rules: moves with legal masks over whole games, bytes of a position, and latency."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

from experiments.throughput import games, peers
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
from experiments.throughput.worker import pin
from gozero.compile import stages
from gozero.go import rules as go
from gozero.go.coords import KO_RULES

GAMES = [(9, 1024, 20.0, 40.0), (19, 256, 40.0, 80.0)]  # size, batch, must, aim
PGX_ROUNDS = 2  # at most, on 19x19, where a round of pgx takes a minute
BYTES = [(9, 64.0, 40.0), (19, 288.0, 232.0)]  # size, must, aim


def measure(config: ThroughputConfig, report: Report) -> None:
    if not config.quick:
        measure_compile_time(report)
    pin(1)  # JAX has not started in this process, so the rest uses one core
    for size, batch, must, aim in GAMES[:1] if config.quick else GAMES:
        measure_games(config, report, size, batch, must, aim)
    for size, must, aim in BYTES:
        report.add(bytes_a_position(size, must, aim))
    report.say("latency of one step at 9x9")
    report.add(
        Result(
            row="one step 9x9 B=1, latency",
            ours=step_latency(go.Rules(size=9), config.seed) * 1e6,
            unit="us",
            must=60.0,
            aim=30.0,
            bounds="ours",
            better="less",
            note="median of whole games, each step waited for",
        )
    )


def measure_games(
    config: ThroughputConfig, report: Report, size: int, batch: int, must: float, aim: float
) -> None:
    """Move + full legal mask + end of the game over whole random games, against pgx's step.

    The same games serve for each ko rule: positional superko forbids all that the others do. They
    are stepped together until the last one ends; only positions of games that go on are counted.
    """
    report.say(f"rules {size}x{size}: {batch} games are recorded")
    actions = games.record_games(go.Rules(size=size), batch, config.seed)
    positions = int(games.lengths(go.Rules(size=size), actions).sum())
    ours = {ko: _timed_replay(go.Rules(size=size, ko=ko), actions) for ko in KO_RULES}
    sides = {ko: ours[ko] for ko in ("positional", "simple")}
    if peers.installed("pgx"):
        sides["pgx"] = _timed_pgx(size, actions)
    rounds = config.repeats if size <= 9 else min(config.repeats, PGX_ROUNDS)
    report.say(f"rules {size}x{size}: {rounds} rounds of {', '.join(sides)}")
    seconds = dict(zip(sides, in_turn(list(sides.values()), rounds), strict=True))

    rates = {side: [positions / s for s in figures] for side, figures in seconds.items()}
    row_name = f"rules {size}x{size} B={batch}"
    note = f"games of {positions / batch:.0f} plies, stepped together for {len(actions)}"
    note += "" if "pgx" in sides else ", no pgx"
    for ko, least, goal in (("positional", must, aim), ("simple", None, None)):
        figures = against(rates[ko], rates.get("pgx"), "pgx env.step")
        row = f"{row_name}, {ko} ko"
        report.add(Result(row=row, unit="positions/s", must=least, aim=goal, note=note, **figures))
    report.say(f"{row_name}: {config.repeats} rounds of situational and positional ko")
    costs = in_turn([ours["situational"], ours["positional"]], config.repeats)
    costs = [[1e9 * s / positions for s in side] for side in costs]
    report.add(
        Result(
            row=f"{row_name}, cost of situational ko",
            unit="ns/position",
            must=1.1,
            aim=1.0,
            better="less",
            **against(*costs, "positional ko"),
        )
    )


def _timed_replay(rules: go.Rules, actions: jax.Array) -> Callable[[], float]:
    return make_timed(games.replay(rules), lambda: (games.start(rules, actions.shape[1]), actions))


def _timed_pgx(size: int, actions: jax.Array) -> Callable[[], float]:
    arguments = lambda: (peers.pgx_start(size, actions.shape[1]), actions)
    run = peers.pgx_replay(size).lower(*arguments()).compile()  # a warm-up run would take a minute
    return make_timed(run, arguments, warm_up=False)


def bytes_a_position(size: int, must: float, aim: float) -> Result:
    position = jax.eval_shape(lambda: go.empty_position(go.Rules(size=size)))
    weight = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(position))
    return Result(
        row=f"a position {size}x{size}",
        ours=weight,
        unit="bytes",
        must=must,
        aim=aim,
        bounds="ours",
        better="less",
    )


def step_latency(rules: go.Rules, seed: int) -> float:
    """Median seconds of a jitted move with its mask, in one game, with the state donated.

    The length of each game is computed beforehand, so nothing runs between two steps.
    """
    recorded = games.record_games(rules, 16, seed)
    lengths = games.lengths(rules, recorded)
    play = functools.partial(stages.one_kernel, functools.partial(games.step, rules))
    step = jax.jit(play, donate_argnums=0)
    jax.block_until_ready(step(go.init(rules), recorded[0, 0]))
    seconds = []
    for game, length in enumerate(lengths):
        state = jax.tree.map(jnp.copy, go.init(rules))
        for action in list(recorded[:length, game]):
            started = time.perf_counter()
            state, legal = jax.block_until_ready(step(state, action))
            seconds.append(time.perf_counter() - started)
        assert bool(state.ended)
        del legal
    return statistics.median(seconds)


def measure_compile_time(report: Report) -> None:
    report.say("compile time of a step at 19x19")
    row = "a step 19x19 B=256, to trace and compile"
    task = "experiments.throughput.rules:make_compile_seconds"
    compile_row(report, row, task, must=4.0, aim=2.0, size=19, batch=256)


def make_compile_seconds(size: int, batch: int) -> Callable[[], float]:
    """A function that traces and compiles a batch's step from scratch and returns the seconds."""
    rules = go.Rules(size=size)
    states, actions = games.start(rules, batch), jnp.zeros(batch, jnp.int32)

    def lower() -> jax.stages.Lowered:
        step = functools.partial(games.step, rules)
        return jax.jit(jax.vmap(step)).lower(states, actions)

    return compile_timer(lower)
