"""Checks measurements on a device against required figures, for first_hour.sh.

python -m experiments.accelerators.first_hour ROWS.jsonl --must playouts-9x9=20e6 puct-9x9=0.5e6
python -m experiments.accelerators.first_hour --score runs/gnugo/results.csv --least 0.8
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterator, Sequence

from experiments.accelerators import run, table
from experiments.output import read_csv


def speeds(path: pathlib.Path, requirements: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """Yields (whether it holds, a message) for each requirement PROGRAM=UNITS_PER_SECOND."""
    newest = {row["program"]: row for row in run.read(path)}
    for requirement in requirements:
        program, _, least = requirement.partition("=")
        row = newest.get(program)
        measured = None if row is None else row["measured_units_per_s"]
        if row is None or measured is None:
            yield False, f"{program}: not measured"
            continue
        rate, least = table.rate(measured, row["unit"]), float(least)
        holds = measured >= least
        word = "holds" if holds else "does not hold"
        yield holds, f"{program}: {rate} measured, must {table.rate(least, row['unit'])}: {word}"


def scores(path: pathlib.Path, least: float) -> Iterator[tuple[bool, str]]:
    """As `speeds`, for each match of a results.csv and the least score."""
    for row in read_csv(path):
        score = float(row["score"])
        word = "holds" if score >= least else "does not hold"
        message = f"{row['match']}: {score:.1%} of {row['games']} games, must {least:.0%}: {word}"
        yield score >= least, message


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "rows", type=pathlib.Path, nargs="?", help="rows of experiments.accelerators"
    )
    parser.add_argument(
        "--must", nargs="+", default=[], help="required speeds, PROGRAM=UNITS_PER_SECOND"
    )
    parser.add_argument("--score", type=pathlib.Path, help="the results.csv of matches")
    parser.add_argument("--least", type=float, default=0.8, help="the lowest score that passes")
    args = parser.parse_args(argv)
    checks = [*speeds(args.rows, args.must)] if args.rows else []
    checks += [*scores(args.score, args.least)] if args.score else []
    for _, message in checks:
        print(message)
    return 0 if all(holds for holds, _ in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
