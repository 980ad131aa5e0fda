"""Tables of READMEs that are made from the experiments' records, and claims that must be in one.

    python -m experiments.records      # writes the tables anew

In a README a table stands between ``<!-- points results/results.csv -->`` and ``<!-- end -->``:
what kind of table it is, and the record, or records. A kind is a function of their paths, here or
in ``readme.py`` of the records' experiment.
"""

from __future__ import annotations

import csv
import importlib
import json
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from experiments.output import markdown
from experiments.sweeps import results
from experiments.usage import FOLDER

_BLOCK = re.compile(
    r"<!-- (\w+) ((?:\S*results/\S+\.(?:csv|jsonl) )+)-->\n.*?<!-- end -->", re.DOTALL
)
_NUMBER = r"([-+]?\d[\d,]*(?:\.\d+)?)%?"
_CLAIM = re.compile(rf"{_NUMBER}(?:\*\*)? \[{_NUMBER},\s+{_NUMBER}\]")
_INTERVALS = ("score", "low", "high"), ("elo", "elo_low", "elo_high"), ("elo", "low", "high")

Interval = tuple[float, float, float]
"""What was found, and where its interval begins and ends."""


def points(path: pathlib.Path) -> str:
    """A sweep's points, a line each."""
    lines = []
    for row in results.read(path):
        name = f"{row.series}, {_thousands(row.label)}" + f", against {row.opponent}" * row.anchor
        score = f"{row.score:.1%} [{row.low:.1%}, {row.high:.1%}]"
        elo = results.elo_words(row.elo, row.elo_low, row.elo_high)
        wins = f"{row.won}, {row.drawn}, {row.lost}"
        lines.append([name, row.games, wins, score, "" if 0 in (row.won, row.lost) else elo])
    return markdown(["", "games", "won, drawn, lost", "score [95%]", "Elo [95%]"], lines)


def grid(path: pathlib.Path) -> str:
    """A sweep's scores, a line a series and a column a label."""
    rows = results.read(path)
    inside = [row for row in rows if not row.anchor and row.x is not None]
    series = list(dict.fromkeys(row.series for row in inside))
    labels = list(dict.fromkeys(row.label for row in inside))
    cells = {
        (row.series, row.label): f"{row.score:.1%} [{row.low:.1%}, {row.high:.1%}]"
        for row in inside
    }
    return markdown(["", *labels], [[s, *(cells.get((s, x), "") for x in labels)] for s in series])


def matches(path: pathlib.Path) -> str:
    """Matches, with what the paper has and what was to be shown."""
    lines = []
    for row in _rows(path):
        score, low, high = (float(row[key]) for key in _INTERVALS[0])
        least, most = float(row["must_low"] or 0), float(row["must_high"] or 1)
        must = f"{least:.0%}" + f" to {most:.0%}" * (most < 1) if row["must_low"] else ""
        lines.append([f"`{row['match']}`", row["opponent"], row["paper"], row["games"]])
        lines[-1] += [f"{row['won']}, {row['drawn']}, {row['lost']}"]
        lines[-1] += [f"**{score:.1%}** [{low:.1%}, {high:.1%}]", must]
        lines[-1] += [f"{float(row['aim']):.0%}" if row["aim"] else ""]
    head = ["", "opponent", "paper", "games", "won, drawn, lost", "score [95%]", "must", "aim"]
    return markdown(head, lines)


KINDS = {kind.__name__: kind for kind in (points, grid, matches)}


def pages() -> list[pathlib.Path]:
    """What may have tables of records: the experiments' READMEs, and docs."""
    return [*FOLDER.glob("*/README.md"), *(FOLDER.parent / "docs").glob("*.md")]


def written(page: pathlib.Path) -> str:
    """A page, its tables made anew."""

    def table(found: re.Match[str]) -> str:
        kind, records = found.groups()
        paths = [(page.parent / record).resolve() for record in records.split()]
        return f"<!-- {kind} {records}-->\n{_maker(kind, paths[0])(*paths)}\n<!-- end -->"

    return _BLOCK.sub(table, page.read_text())


def _maker(kind: str, record: pathlib.Path) -> Callable[..., str]:
    if kind in KINDS:
        return KINDS[kind]
    experiment = record.resolve().relative_to(FOLDER.resolve()).parts[0]
    return getattr(importlib.import_module(f"experiments.{experiment}.readme"), kind)


def claims(text: str) -> Iterator[tuple[int, str, Interval]]:
    """What a text says with an interval, ``80.0% [72.0, 86.1]`` say: line, words, numbers."""
    for found in _CLAIM.finditer(text):
        numbers = tuple(float(one.replace(",", "")) for one in found.groups())
        yield text.count("\n", 0, found.start()) + 1, found[0], numbers


def recorded() -> set[Interval]:
    """What the experiments' records say with an interval, by any rounding that is in use."""
    found: list[Interval] = []
    for path in FOLDER.rglob("results/**/*.csv"):
        found += [one for row in _rows(path) for one in _intervals(row)]
    for path in FOLDER.rglob("results/**/*.json"):
        found += _nested(json.loads(path.read_text()))
    scales = (100, 1), (100, 0), (1, 0), (1, 1)
    return {tuple(round(x * by, digits) for x in one) for one in found for by, digits in scales}


def _nested(record: Any) -> Iterator[Interval]:
    if isinstance(record, dict):
        yield from _intervals(record)
        record = list(record.values())
    if isinstance(record, list):
        for one in record:
            yield from _nested(one)


def _intervals(row: dict[str, Any]) -> Iterator[Interval]:
    if isinstance(row.get("interval"), list) and "score" in row:  # of a match's summary.json
        yield row["score"], *row["interval"]
    for keys in _INTERVALS:
        if all(key in row and row[key] not in ("", None) for key in keys):
            middle, low, high = (float(row[key]) for key in keys)
            yield middle, low, high


def _rows(path: pathlib.Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _thousands(label: str) -> str:
    """Numbers of a label, but for the year after a name."""
    return re.sub(r"(?<![a-z] )\b\d{4,}", lambda number: f"{int(number[0]):,}", label)


if __name__ == "__main__":
    for path in pages():
        path.write_text(written(path))
