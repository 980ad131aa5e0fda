"""The hot programs on TPUs and GPUs that need not be present.

    python -m experiments.accelerators.run [--target v5e h100 ...] [--programs NAME ...] [--json]

Each row is compiled in a process of its own and added to --out when it is done; --skip resumes a
run that was stopped, and tries rows with an error again. The exit status is 1 if a row that was
asked for has an error. A target whose compiler is not installed gets one line. Where JAX finds the
target on this machine, the program also runs on it, and the row has measured figures beside the
estimates.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from experiments import command
from experiments.accelerators import table
from experiments.accelerators.config import AcceleratorsConfig
from experiments.accelerators.programs import PROGRAMS
from experiments.accelerators.row import Row
from gozero.apps import flags
from gozero.compile import ahead
from gozero.runs import files
from gozero.runs import folder as folders

PROG = "python -m experiments.accelerators.run"
ROOT = pathlib.Path(__file__).parents[2]
MINUTES_A_ROW = 1.0
"""Time to compile a program for a target, on two cores; some take ten seconds, some ten minutes."""
_LOOK = "import jax; print(jax.devices()[0].device_kind)"


def main(argv: Sequence[str] | None = None) -> int:
    config = command.parse(AcceleratorsConfig, argv, prog=PROG)
    with flags.exit_on_error(PROG):
        names = select_programs(config.programs)
        targets = [ahead.target(name) for name in config.target]
        if not config.table:
            command.print_estimate(MINUTES_A_ROW * len(names) * len(targets))
            work(config, names, targets)
    if not config.json:
        print(table.of(read(config.out), read(config.before) if config.before else None))
        command.print_results(config.out.parent)
    return 1 if not config.table and errors(config, names, targets) else 0


def select_programs(parts: Sequence[str]) -> list[str]:
    """The programs with these names, or whose names contain them; all, if `parts` is empty.

    Raises:
      ValueError: if no program matches one of them.
    """
    matches = {part: [name for name in PROGRAMS if part == name] for part in parts}
    matches |= {part: [n for n in PROGRAMS if part in n] for part in parts if not matches[part]}
    if unknown := [part for part, names in matches.items() if not names]:
        raise ValueError(f"--programs {unknown[0]}: expected some of {', '.join(PROGRAMS)}")
    selected = {name for names in matches.values() for name in names}
    return [name for name in PROGRAMS if name in selected or not parts]


def work(config: AcceleratorsConfig, names: list[str], targets: list[ahead.Target]) -> None:
    """Computes the rows and adds them to --out, one after the other."""
    code = code_hash()
    done = {key for key, row in newest(config).items() if row["code"] == code and not row["error"]}
    todo = [
        (name, target)
        for target in targets
        for name in names
        if not (config.skip and (name, target.name) in done)
    ]
    about = {"code": code, "jax": jax.__version__, "commit": folders.commit().get("git_commit")}
    kind, missing = device_here(targets), {}
    for i, (name, target) in enumerate(todo):
        if target.name in missing:
            continue
        print(f"{i + 1} of {len(todo)}: {name} for {target.name}", file=sys.stderr, flush=True)
        started = time.perf_counter()
        row = in_child(config, name, target, ahead.CHIPS[target.chip].is_called(kind))
        if row["error"] and "pip install 'gozero[" in row["error"]:
            missing[target.name] = row["error"]
            print(f"{target.name}: {row['error']}", file=sys.stderr, flush=True)
            continue
        seconds = round(time.perf_counter() - started, 1)
        row |= about | {"date": time.strftime("%Y-%m-%d"), "row_s": seconds}
        config.out.parent.mkdir(parents=True, exist_ok=True)
        files.add_line(config.out, row)
        print(json.dumps(row) if config.json else table.line(row), flush=True)


def newest(config: AcceleratorsConfig) -> dict[tuple[str, str], dict[str, Any]]:
    """The newest row of each program and target."""
    return {(row["program"], row["target"]): row for row in read(config.out)}


def errors(
    config: AcceleratorsConfig, names: Sequence[str], targets: Sequence[ahead.Target]
) -> list[str]:
    """The errors in the newest rows of these programs for these targets."""
    rows = newest(config)
    keys = [(name, target.name) for target in targets for name in names]
    return [rows[key]["error"] for key in keys if key in rows and rows[key]["error"]]


def in_child(
    config: AcceleratorsConfig, name: str, target: ahead.Target, here: bool
) -> dict[str, Any]:
    """The row of `row.main` in a child process; it has an error if the child fails or times out."""
    options = ["--repeats", str(config.repeats), *(["--here"] if here else [])]
    options += ["--texts", str(config.texts.resolve())] if config.texts else []
    command = [sys.executable, "-m", "experiments.accelerators.row", name, target.name, *options]
    env = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    if not here or target.platform == "cpu":
        env["JAX_PLATFORMS"] = "cpu"
    try:
        child = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=config.timeout
        )
    except subprocess.TimeoutExpired:
        error = f"not finished within {config.timeout:g} s"
        return dataclasses.asdict(Row(name, target.name, error=error))
    try:
        return json.loads(child.stdout.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        last = " ".join(child.stderr.split())[-400:]
        error = f"the compiler's process ended with status {child.returncode}: {last}"
        return dataclasses.asdict(Row(name, target.name, error=error))


def device_here(targets: list[ahead.Target]) -> str:
    """JAX's name of this machine's device, from a child; "cpu" at once if all targets are CPUs."""
    if all(target.platform == "cpu" for target in targets):
        return "cpu"
    try:
        child = subprocess.run(
            [sys.executable, "-c", _LOOK], capture_output=True, text=True, timeout=120
        )
    except subprocess.TimeoutExpired:
        return ""
    return child.stdout.splitlines()[-1] if child.stdout else ""


def code_hash() -> str:
    """A hash of all sources of the programs; rows of equal code can be skipped."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _sources() -> Iterator[pathlib.Path]:
    for folder in ("gozero", "train", "experiments/accelerators", "experiments/throughput"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def read(path: pathlib.Path) -> list[dict[str, Any]]:
    """The rows of a file; empty if it does not exist."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
