"""Tables of README.md, from the records in results/.

python -m experiments.records      # writes them; each is a function of its records' paths
"""

from __future__ import annotations

import json
import pathlib

from experiments.output import markdown

LEAST_RIGHT = 0.95
"""The share of positions in which the network should keep the exact result."""

Sums = dict[str, dict[str, int]]


def sums(record: dict) -> Sums:
    """The numbers of each measure of a results.json, added over its parts."""
    return {
        name: {key: sum(part[key] for part in parts) for key in parts[0]}
        for name, parts in record["parts"].items()
    }


def share_right(found: Sums) -> float:
    """The share of the positions in which the network keeps the exact result."""
    return found["positions"]["right"] / found["positions"]["positions"]


def measures(path: pathlib.Path) -> str:
    """What was measured, and whether it is as it should be."""
    found = _sums_of(path)
    positions, games, column = found["positions"], found["games"], found["opening"]["column"]
    right = f"{positions['right']} of {positions['positions']}, {share_right(found):.1%}"
    lost = (
        f"**{games['won']} won**, {games['drawn']} drawn, {games['lost']} lost of {_count(games)}"
    )
    is_right = share_right(found) >= LEAST_RIGHT
    rows = [
        ["opening", f"column {column + 1} of 7", "the middle column", found["opening"]["holds"]],
        ["positions", right, f"{LEAST_RIGHT:.0%}", is_right],
        ["games", lost, "none lost", not games["lost"]],
    ]
    rows = [[*cells, "holds" if holds else "does not hold"] for *cells, holds in rows]
    return markdown(["measure", "found", "should be", ""], rows)


def networks(*paths: pathlib.Path) -> str:
    """The positions and lost games of several networks."""
    rows = []
    for path in paths:
        found = _sums_of(path)
        games = found["games"]
        name = "now" if path.stem == "results" else path.stem
        rows.append([name, f"{share_right(found):.1%}", f"{games['lost']} of {_count(games)}"])
    return markdown(["record", "positions", "lost games"], rows)


def _sums_of(path: pathlib.Path) -> Sums:
    return sums(json.loads(path.read_text()))


def _count(games: dict[str, int]) -> int:
    return games["won"] + games["drawn"] + games["lost"]
