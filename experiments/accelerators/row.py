"""One row: a program compiled for a target, its estimates, and its measured time if it is run.

    python -m experiments.accelerators.row PROGRAM TARGET [--here] [--repeats N] [--texts FOLDER]

Each row has a process of its own, so that a compiler that crashes or takes all memory costs only
one row. The last line of its output is the row.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
from typing import Any

import jax

from experiments.accelerators.programs import PROGRAMS, Program
from experiments.throughput.measure import make_timed
from gozero.compile import ahead, estimate
from gozero.compile.ahead import Compiled
from gozero.compile.estimate import LoopEstimate


@dataclasses.dataclass(frozen=True)
class Row:
    """The figures of a program on a target; None: unknown."""

    program: str
    target: str
    error: str | None = None
    """The reason why there are no figures: the compiler's error, or that it is not installed."""
    unit: str | None = None
    units: int | None = None
    """Units of work of a call, on all devices."""
    trace_s: float | None = None
    compile_s: float | None = None
    compile_cpu_s: float | None = None
    """CPU time of all threads: about the time on one idle core, even if the machine is shared."""
    temp_bytes: int | None = None
    """On one device, like all memory here."""
    argument_bytes: int | None = None
    output_bytes: int | None = None
    """Results that do not reuse the memory of donated arguments."""
    call_ms: float | None = None
    """Estimated time of a call."""
    round_ms: float | None = None
    """Estimated time of one round of the hot loop."""
    units_per_s: float | None = None
    network_share: float | None = None
    """The network's share of a round."""
    kernels: int | None = None
    """Kernels per round; next come loops of unknown length and conditionals, which the host
    controls, and then the same three counts outside the hot loop."""
    host_loops: int | None = None
    conditionals: int | None = None
    kernels_outside: int | None = None
    host_loops_outside: int | None = None
    conditionals_outside: int | None = None
    custom_kernels: int | None = None
    """Pallas kernels in the program; their time is not in the text, so the estimate excludes it."""
    collectives: float | None = None
    """Collective operations of a call."""
    sent_bytes: float | None = None
    """Bytes that a device sends in them."""
    measured_ms: float | None = None
    """Measured time of a call, on this machine's device."""
    measured_units_per_s: float | None = None
    device: str | None = None


def compiled(program: Program, target: ahead.Target) -> Compiled:
    """The program, compiled from the shapes of its arguments."""
    shapes = jax.eval_shape(program.make)
    if program.where is not None:
        shapes = ahead.place(shapes, program.where)
    return ahead.compile(target, program.function, *shapes)


def of_text(program: Program, total: LoopEstimate) -> dict[str, Any]:
    """A program's estimates from its compiled text, as fields of a row."""
    hot = total.find(*program.hot) or total
    enclosing = (total.find(*program.hot[:-1]) or total) if hot is not total else total
    own = lambda name: getattr(enclosing, name) - getattr(hot, name)
    outside = lambda name: own(name) if hot is not enclosing else 0
    has_times = total.seconds > 0
    return {
        "call_ms": 1e3 * total.seconds if has_times else None,
        "round_ms": 1e3 * hot.seconds if has_times else None,
        "units_per_s": program.units / total.seconds if has_times else None,
        "network_share": hot.network_share if has_times else None,
        "kernels": hot.kernels,
        "host_loops": hot.host_loops,
        "conditionals": hot.host_conditionals,
        "kernels_outside": outside("kernels"),
        "host_loops_outside": outside("host_loops"),
        "conditionals_outside": outside("host_conditionals"),
        "custom_kernels": total.custom_kernels,
        "collectives": total.collectives,
        "sent_bytes": total.sent_bytes,
    }


def measured(program: Program, compiled: Compiled, repeats: int) -> dict[str, Any]:
    """The measured time of a call on this machine, as fields of a row."""
    make = jax.jit(program.make, out_shardings=program.where)
    timed = make_timed(compiled.program, make)
    seconds = statistics.median(timed() for _ in range(repeats))
    return {
        "measured_ms": 1e3 * seconds,
        "measured_units_per_s": program.units / seconds,
        "device": jax.devices()[0].device_kind,
    }


def make_row(name: str, target: ahead.Target, repeats: int, texts: pathlib.Path | None) -> Row:
    """Compiles a program and reads its text; also runs it, if the target is present."""
    program = PROGRAMS[name](target)
    compiled_program = compiled(program, target)
    loops = estimate.read(compiled_program.text, target.chip, program.rounds)
    if texts is not None:
        texts.mkdir(parents=True, exist_ok=True)
        (texts / f"{name}.{target.name}.hlo").write_text(compiled_program.text)
        (texts / f"{name}.{target.name}.txt").write_text(estimate.report(loops, 40))
    return Row(
        program=name,
        target=target.name,
        unit=program.unit,
        units=program.units,
        trace_s=compiled_program.trace_seconds,
        compile_s=compiled_program.compile_seconds,
        compile_cpu_s=compiled_program.compile_cpu_seconds,
        temp_bytes=compiled_program.temp_bytes,
        argument_bytes=compiled_program.argument_bytes,
        output_bytes=compiled_program.output_bytes,
        **of_text(program, loops),
        **(measured(program, compiled_program, repeats) if target.is_here else {}),
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("target")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--texts", type=pathlib.Path)
    args = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)  # to measure compile times
    try:
        target = ahead.target(args.target, is_here=args.here)
        row = make_row(args.program, target, args.repeats, args.texts)
    except Exception as error:
        text = " ".join(str(error).split())[:500]
        kind = "" if isinstance(error, ahead.MissingCompiler) else f"{type(error).__name__}: "
        row = Row(args.program, args.target, error=kind + text)
    print(json.dumps(dataclasses.asdict(row)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
