"""Finds the commands that run experiments; `python -m experiments.NAME` prints them."""

from __future__ import annotations

import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent


def commands(folder: str | None = None) -> list[str]:
    """The commands of one experiment, or of all."""
    programs = [
        path
        for name in ("run", "speed")
        for path in FOLDER.glob(f"{folder or '*'}/{name}.py")
        if '__name__ == "__main__"' in path.read_text()
    ]
    return [f"python -m experiments.{path.parent.name}.{path.stem}" for path in sorted(programs)]


def main(package: str | None) -> int:
    """Prints the commands of an experiment's package, or of all, on stderr.

    Returns 2, the exit status of a usage error.
    """
    package = package or "experiments"
    folder = package.partition(".")[2] or None
    programs = commands(folder)
    intro = "the command is" if len(programs) == 1 else "the commands are"
    lines = f"{intro} {programs[0]}" if len(programs) == 1 else "\n  ".join([intro, *programs])
    print(f"python -m {package}: {lines}\nEach has --help.", file=sys.stderr)
    return 2
