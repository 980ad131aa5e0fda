"""Which commands run an experiment: what `python -m experiments.NAME` prints."""

from __future__ import annotations

import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent


def commands(folder: str | None = None) -> list[str]:
    """The commands of one experiment, or of all: its programs."""
    programs = [
        path
        for name in ("run", "speed")
        for path in FOLDER.glob(f"{folder or '*'}/{name}.py")
        if '__name__ == "__main__"' in path.read_text()
    ]
    return [f"python -m experiments.{path.parent.name}.{path.stem}" for path in sorted(programs)]


def main(package: str = "experiments") -> int:
    """Say on stderr which commands there are; the exit status of a wrong command, 2."""
    folder = package.partition(".")[2] or None
    known = commands(folder)
    what = "the command is" if len(known) == 1 else "the commands are"
    lines = f"{what} {known[0]}" if len(known) == 1 else "\n  ".join([what, *known])
    print(f"python -m {package}: {lines}\nEach has --help.", file=sys.stderr)
    return 2
