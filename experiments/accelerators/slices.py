"""What a preset plays and learns on slices of a TPU, of rows that `run` made of its programs.

    python -m experiments.accelerators.run --target v5e:2x2 v5e:4x4 v5e:8x8 \\
        --programs play-19x19-slice learn-19x19-slice --out slices.jsonl
    python -m experiments.accelerators.slices slices.jsonl

Efficiency is games/s of a device, as a share of those on the smallest slice of the file.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.accelerators import run
from experiments.accelerators.config import RESULTS
from experiments.output import markdown
from gozero.compile import ahead
from train import dry_run
from train.dry_run import Times
from train.plan import make_plan
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


def times(preset: str, play: RowOf, learn: RowOf) -> Times:
    """Of the rows of a preset's programs."""
    per_call = learn["units"] // _batch_size(preset, learn["target"])
    return Times(
        play_s=play["call_ms"] / 1e3,
        simulation_s=play["round_ms"] / 1e3,
        step_s=learn["call_ms"] / 1e3 / per_call,
        exchanges=learn["collectives"] / per_call,
        sent_bytes=learn["sent_bytes"] / per_call,
        custom_kernels=play["custom_kernels"] + learn["custom_kernels"],
    )


def table(rows: Sequence[RowOf], preset: str) -> str:
    """A line for each slice that has both programs, the smallest first."""
    newest = {(row["target"], row["program"]): row for row in rows if not row["error"]}
    targets = sorted({target for target, _ in newest}, key=_devices)
    names = [f"{part}-{preset}" for part in ("play", "learn")]
    whole = [name for name in targets if all((name, part) in newest for part in names)]
    lines, least = [], 0.0
    for target in whole:
        play, learn = (newest[target, name] for name in names)
        each = _speed(preset, target, play, learn).games_per_s / _devices(target)
        least = least or each
        lines.append([*_cells(preset, target, play, learn), f"{each / least:.1%}"])
    return markdown(_HEAD, lines)


def _devices(target: str) -> int:
    return ahead.target(target).num_devices


def _batch_size(preset: str, target: str) -> int:
    return make_plan(PRESETS[preset], _devices(target)).config.batch_size


def _speed(preset: str, target: str, play: RowOf, learn: RowOf) -> dry_run.Speed:
    return dry_run.speed(make_plan(PRESETS[preset], _devices(target)), times(preset, play, learn))


def _cells(preset: str, target: str, play: RowOf, learn: RowOf) -> list[str]:
    run_, found = _speed(preset, target, play, learn), times(preset, play, learn)
    memory = (f"{(row['argument_bytes'] + row['temp_bytes']) / 2**30:.2f}" for row in (play, learn))
    return [
        target,
        f"{' / '.join(memory)} GiB",
        f"{run_.playing_s:.3g} s",
        f"{run_.steps:g} x {_batch_size(preset, target) // _devices(target)}",
        f"{run_.learning_s:.3g} s, {found.step_s * 1e3:.3g} ms a step",
        f"{found.exchanges:g} of {found.sent_bytes / 2**20:.1f} MiB",
        f"{run_.games_per_s:.4g}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="What a preset takes on slices, of rows that run made."
    )
    parser.add_argument("rows", type=pathlib.Path, nargs="?", default=RESULTS / "slices.jsonl")
    parser.add_argument("--preset", default="19x19-slice", choices=sorted(PRESETS))
    asked = parser.parse_args()
    print(table(run.read(asked.rows), asked.preset))


if __name__ == "__main__":
    main()
