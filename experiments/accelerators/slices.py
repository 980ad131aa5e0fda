"""Speeds of a preset's self-play and learning on TPU slices, from rows made by `run`.

    python -m experiments.accelerators.run --target v5e:2x2 v5e:4x4 v5e:8x8 \\
        --programs play-19x19-slice learn-19x19-slice --out slices.jsonl
    python -m experiments.accelerators.slices slices.jsonl

Efficiency is games/s per device, relative to the smallest slice in the file.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from experiments.accelerators import run
from experiments.accelerators.config import RESULTS
from experiments.output import markdown
from gozero.compile import ahead
from train import dry_run
from train.dry_run import Times
from train.plan import Plan, make_plan
from train.presets import PRESETS

RowOf = Mapping[str, Any]

_HEAD = (
    "slice",
    "memory of a device, self-play / learning",
    "self-play of an iteration",
    "steps x rows of a device",
    "learning",
    "exchanges of a step",
    "games/s",
    "efficiency",
)


STEPS = 16
"""Steps of the learner per call: `train.learner.steps_per_call` on a TPU."""


def times(play: RowOf, learn: RowOf) -> Times:
    """The times of a preset, from the rows of its programs."""
    return Times(
        play_s=play["call_ms"] / 1e3,
        simulation_s=play["round_ms"] / 1e3,
        step_s=learn["call_ms"] / 1e3 / STEPS,
        exchanges=learn["collectives"] / STEPS,
        sent_bytes=learn["sent_bytes"] / STEPS,
        custom_kernels=play["custom_kernels"] + learn["custom_kernels"],
    )


class OnSlice(NamedTuple):
    """A preset on a slice."""

    plan: Plan
    times: Times
    play: RowOf
    learn: RowOf


def of_preset(rows: Sequence[RowOf], preset: str) -> Iterator[OnSlice]:
    """Yields each slice that has a learner's row, the smallest first.

    All chips of a slice play independently at the same speed, so if the slice has no self-play row
    that of one chip is used.
    """
    newest = {(row["target"], row["program"]): row for row in rows if not row["error"]}
    learners = {target: row for (target, name), row in newest.items() if name == f"learn-{preset}"}
    for target in sorted(learners, key=lambda target: ahead.target(target).num_devices):
        target_slice = ahead.target(target)
        names = ((name, f"play-{preset}") for name in (target, target_slice.chip))
        play = next((newest[name] for name in names if name in newest), None)
        if play is not None:
            learn = learners[target]
            plan = _plan(preset, target_slice.num_devices, learn)
            yield OnSlice(plan, times(play, learn), play, learn)


def table(rows: Sequence[RowOf], preset: str) -> str:
    """A table with a line per slice."""
    lines, base = [], 0.0
    for on_slice in of_preset(rows, preset):
        per_device = (
            dry_run.speed(on_slice.plan, on_slice.times).games_per_s / on_slice.plan.num_devices
        )
        base = base or per_device
        lines.append([*_cells(on_slice), f"{per_device / base:.1%}"])
    return markdown(_HEAD, lines)


def _plan(preset: str, num_devices: int, learn: RowOf) -> Plan:
    """The preset's plan, with the batch size that the learner was compiled for."""
    batch = {"batch_size": learn["units"] // STEPS, "rows_per_device": 1}
    return make_plan(dataclasses.replace(PRESETS[preset], **batch), num_devices)


def _cells(on_slice: OnSlice) -> list[str]:
    plan, step_times, play, learn = on_slice
    speed = dry_run.speed(plan, step_times)
    memory = (f"{(row['argument_bytes'] + row['temp_bytes']) / 2**30:.2f}" for row in (play, learn))
    return [
        learn["target"],
        f"{' / '.join(memory)} GiB",
        f"{speed.playing_s:.3g} s",
        f"{speed.steps:g} x {plan.config.batch_size // plan.num_devices}",
        f"{speed.learning_s:.3g} s, {step_times.step_s * 1e3:.3g} ms a step",
        f"{step_times.exchanges:g} of {step_times.sent_bytes / 2**20:.1f} MiB",
        f"{speed.games_per_s:.4g}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="The cost of a preset on slices, from the rows of experiments.accelerators.run."
    )
    parser.add_argument("rows", type=pathlib.Path, nargs="?", default=RESULTS / "slices.jsonl")
    parser.add_argument("--preset", default="19x19-slice", choices=sorted(PRESETS))
    args = parser.parse_args()
    print(table(run.read(args.rows), args.preset))


if __name__ == "__main__":
    main()
