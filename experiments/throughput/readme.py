"""Tables of this experiment's README, generated from its records."""

from __future__ import annotations

import csv
import pathlib

from experiments.output import markdown


def checkouts(path: pathlib.Path) -> str:
    """The results of `beside`."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    commits = {(row["this"], row["other"]) for row in rows}
    this, other = commits.pop() if len(commits) == 1 else ("this", "other")
    cells = [
        [row["program"], f"{row['this_ms']} ms", f"{row['other_ms']} ms", f"{row['ratio']}x"]
        for row in rows
    ]
    return markdown(["", this, other, "as fast as before"], cells)
