"""``python -m train --preset NAME --dry-run --target v5litepod-64``: the cost of a run.

Self-play and the learner are compiled for devices that need not be present. The compiler reports
the memory they need and, for a TPU, an estimate of their time, from which follow games per second
and their cost. Nothing is run, and nothing is written.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from gozero.apps import flags
from gozero.compile import ahead, estimate, mode
from gozero.compile.ahead import Compiled, Target
from gozero.compile.estimate import LoopEstimate
from gozero.runs.memory import num_bytes
from gozero.runs.settings import setting
from train import learner, memory, steps
from train.config import TrainConfig
from train.plan import Plan, make_plan, num_steps
from train.presets import preset_of
from train.steps import RunState

PROG = "python -m train --dry-run"
CHIP_HOUR = {"v5e": 1.2, "v6e": 2.7, "v5p": 4.2, "h100": 3.0}
"""Dollars: the approximate price of a chip per hour on demand; it differs by region and time."""
PLIES = 0.8
"""Plies of a game for each point of the board, about as in games of a trained network."""


@dataclasses.dataclass(frozen=True)
class DryRunConfig(TrainConfig):
    """Print what a run would need on devices that need not be present: memory and, by the
    compiler's estimate, games per second and their cost. Nothing is run."""

    dry_run: bool = setting(False, group="the dry run")
    """Run nothing, and print what a run would need."""

    target: str = setting("v5litepod-4")
    """The devices: v5e, v6e, v5p or h100 for one; v5litepod-64, v6e-8, v5p-128 or h100:1x8 for
    several."""

    chip_hour: float | None = setting(
        None, above=0, unset="1.2 (v5e), 2.7 (v6e), 4.2 (v5p), 3 (h100)"
    )
    """The price of a chip per hour, in dollars; prices differ by region, and change."""

    plies: float | None = setting(None, above=0, unset="0.8 per point of the board")
    """Moves in a game, on average."""

    EXAMPLES = (
        "python -m train --dry-run --preset 9x9-gpu --target v5e",
        "python -m train --dry-run --preset 19x19-slice --target v5litepod-64 --chip-hour 1.2",
    )


def programs(plan: Plan, mesh: Mesh, num_steps: int) -> dict[str, tuple[Callable, Callable]]:
    """The programs of a run: {name: (jitted, a function from a `RunState` to its arguments)}."""
    play = steps.make_play(plan, mesh, plan.config.simulations)
    learn = steps.make_learn(plan, mesh, num_steps)
    first_learn = jax.jit(lambda *args: learn(*args, jnp.float32(0)), donate_argnums=0)
    return {
        "self-play": (play, lambda state: (state.play_params, state.playing)),
        "learning": (first_learn, lambda state: (state.learner, state.playing.buffer)),
    }


def main(argv: Sequence[str]) -> int:
    """Print the requirements of a run with a preset and flags; returns the exit status."""
    default = DryRunConfig(**vars(preset_of(argv, PROG)))
    config = flags.parse(DryRunConfig, argv, prog=PROG, default=default)
    with flags.exit_on_error(PROG):
        target = ahead.target(config.target)
        try:
            for line in report(config, target):
                print(line, flush=True)
        except ahead.MissingCompiler as error:
            flags.fail(PROG, f"--target {target.name}: {error}")
    return 0


def report(config: DryRunConfig, target: Target) -> Iterator[str]:
    """Yields the lines of the report, each as soon as it is known.

    Raises:
      ValueError: invalid settings, or the run needs more memory than a device has.
      MissingCompiler: the target's compiler is not installed.
    """
    with mode.target(target.platform):
        plan = make_plan(config, target.num_devices)
    mesh = target.mesh(steps.AXIS)
    yield f"{config.preset} on {target.name}, devices: {target.num_devices}; nothing is run"
    with mode.target(target.platform):
        needed, per_call = memory.check(plan, _limit(target)), learner.steps_per_call()
    yield f"memory by the flags: {needed}"
    shapes = jax.eval_shape(lambda: steps.begin(plan, mesh))
    state = ahead.place(shapes, steps.shardings(shapes, mesh))
    estimates = {}
    for name, (function, takes) in programs(plan, mesh, per_call).items():
        print(f"compiling {name}, which takes minutes", file=sys.stderr, flush=True)
        compiled = ahead.compile(target, function, *takes(state))
        estimates[name] = estimate.read(compiled.text, target.chip)
        yield _memory(name, compiled, target, num_bytes(_other_state(shapes, takes, target)))
    if target.platform != "tpu":
        yield _gpu_report(plan, estimates)
        return
    estimated = times(config, estimates["self-play"], estimates["learning"], per_call)
    yield from _speed_report(plan, config, target, estimated)


def _limit(target: Target) -> int | None:
    return ahead.CHIPS[target.chip].memory_bytes or None


def _other_state(shapes: RunState, takes: Callable, target: Target) -> Any:
    """The shapes on one device of the part of a run's state that is not an argument of a program,
    but is on the device as well."""
    used = {id(x) for x in jax.tree.leaves(takes(shapes))}
    per_device = lambda x: jax.ShapeDtypeStruct((x.size // target.num_devices,), x.dtype)
    playing = [per_device(x) for x in jax.tree.leaves(shapes.playing) if id(x) not in used]
    return [x for x in jax.tree.leaves(shapes.learner) if id(x) not in used] + playing


def _memory(name: str, compiled: Compiled, target: Target, other_bytes: int) -> str:
    parts = (compiled.argument_bytes, compiled.temp_bytes, compiled.output_bytes, other_bytes)
    limit = _limit(target)
    if limit and sum(parts) > limit:
        raise ValueError(
            f"{name}: a device would need {_mib(sum(parts))} ({_mib(compiled.temp_bytes)} of them "
            f"only while it runs) and has {_mib(limit)}; lower --batch or --capacity"
        )
    of_limit = f" of {_mib(limit)}" if limit else ""
    return (
        f"{name}: {_mib(sum(parts))} a device{of_limit}: arguments {_mib(parts[0])}, "
        f"while it runs {_mib(parts[1])}, new results {_mib(parts[2])}, the rest of the run "
        f"{_mib(other_bytes)}; compiled in {compiled.compile_cpu_seconds:.0f} s of a core"
    )


def _gpu_report(plan: Plan, estimates: dict[str, LoopEstimate]) -> str:
    """The report for a GPU, whose compiler gives no times."""
    config = plan.config
    step = _search_step(config, estimates["self-play"])
    if step is None:
        return "times: the compiler gives no estimate"
    leaves = f"step of {config.leaves} simulations" if config.leaves > 1 else "simulation"
    return (
        f"times: the compiler gives no estimate; {step.kernels} kernels, "
        f"{step.host_loops} loops of unknown length and {step.host_conditionals} "
        f"conditionals in a {leaves} of {config.batch:,} games, {estimates['learning'].kernels} "
        "kernels in a call of the learner"
    )


def _search_step(config: TrainConfig, play: LoopEstimate) -> LoopEstimate | None:
    """The loop of a full search's steps, `config.leaves` simulations each; None if not found."""
    return play.find(config.moves, config.simulations // config.leaves)


class Times(NamedTuple):
    """The estimates in the compiled texts of a run's programs for a TPU."""

    play_s: float  # of a call, if all searches are full
    simulation_s: float  # of a simulation in all games of a device
    step_s: float  # of the learner
    exchanges: float  # between devices, in a step
    sent_bytes: float  # in these exchanges
    custom_kernels: int  # of Pallas, whose times are not included


def times(config: TrainConfig, play: LoopEstimate, learn: LoopEstimate, per_call: int) -> Times:
    """The times in the texts of self-play and of the learner, with `per_call` steps in a call."""
    step = _search_step(config, play)
    return Times(
        play_s=play.seconds,
        simulation_s=step.seconds / config.leaves if step else 0.0,
        step_s=learn.seconds / per_call,
        exchanges=learn.collectives / per_call,
        sent_bytes=learn.sent_bytes / per_call,
        custom_kernels=play.custom_kernels + learn.custom_kernels,
    )


class RunSpeed(NamedTuple):
    """An estimate of the speed of a run, per iteration and on all devices; without evaluations."""

    simulations: float  # of a search, on average
    positions: int  # searched
    playing_s: float
    steps: float  # of the learner
    learning_s: float
    plies: float  # of a game
    games_per_s: float  # games that end


def speed(plan: Plan, estimated: Times, plies: float | None = None) -> RunSpeed:
    """The speed of a plan; `plies` as in `DryRunConfig`.

    If some searches are cheap, the program contains both kinds, and the estimated times count the
    more expensive one, the full search.
    """
    config, simulations = plan.config, float(plan.config.simulations)
    if config.cheap_simulations:
        share = config.full_share
        simulations = share * simulations + (1 - share) * config.cheap_simulations
    saved_s = (config.simulations - simulations) * config.moves * estimated.simulation_s
    playing_s = estimated.play_s - saved_s
    steps = num_steps(config, plan.num_devices) / config.iterations
    positions = config.moves * config.batch * plan.num_devices
    plies = plies or PLIES * memory.num_points(plan)
    games_per_s = positions / plies / (playing_s + steps * estimated.step_s)
    return RunSpeed(
        simulations, positions, playing_s, steps, steps * estimated.step_s, plies, games_per_s
    )


def _speed_report(
    plan: Plan, config: DryRunConfig, target: Target, estimated: Times
) -> Iterator[str]:
    """The report on speed and cost, from the estimates."""
    run_speed, devices = speed(plan, estimated, config.plies), target.num_devices
    yield (
        f"self-play, estimated: {run_speed.playing_s:.3g} s for {config.moves} moves of "
        f"{config.batch * devices:,} games, "
        f"{run_speed.positions * run_speed.simulations / run_speed.playing_s:,.0f} simulations/s"
    )
    yield (
        f"learning, estimated: {run_speed.learning_s:.3g} s for {run_speed.steps:.1f} steps of "
        f"{plan.config.batch_size:,} positions; a step has {estimated.exchanges:.0f} "
        f"exchanges of {_mib(estimated.sent_bytes)} in all between devices"
    )
    price = config.chip_hour or CHIP_HOUR[target.chip]
    hours = 1e6 / run_speed.games_per_s / 3600
    yield (
        f"games, estimated: {run_speed.games_per_s:,.1f} games/s of {run_speed.plies:.0f} moves, "
        f"a million in {hours:,.3g} hours; "
        f"at ${price:g} a chip-hour ${hours * price * devices:,.3g}"
    )
    if estimated.custom_kernels:
        yield f"Pallas kernels, whose time these estimates exclude: {estimated.custom_kernels}"
    yield (
        "the estimates are optimistic, and correct to a factor of two at best; they assume "
        f"searches of {run_speed.simulations:g} simulations on average, and no evaluations"
    )


def _mib(num_bytes: float) -> str:
    return f"{num_bytes / 2**20:,.1f} MiB"
