"""README tables generated from the experiments' records, and claims that a record must support.

    python -m experiments.records      # regenerates the tables

In a README a table stands between ``<!-- points results/results.csv -->`` and ``<!-- end -->``.
The first marker names the kind of table and its record files, if it takes any. A kind is a function
of their paths, defined here or in ``readme.py`` of the records' experiment. Numbers inside a
sentence stand between ``<!-- say by_colour results/rave/summary.json -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import importlib
import json
import math
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from experiments.matches import scale
from experiments.matches.results import games_text, is_stopped
from experiments.output import markdown, read_csv
from experiments.papers import paper_figures
from experiments.sweeps import results
from experiments.usage import FOLDER

_BLOCK = re.compile(
    r"<!-- (?!end )(\w+) ((?:\S*results/\S+\.(?:csv|jsonl?) )*)-->\n.*?<!-- end -->", re.DOTALL
)
_SAID = re.compile(r"<!-- say (\w+) ((?:\S*results/\S+ )*)-->(.*?)<!-- end -->", re.DOTALL)
_NUMBER = r"([-+]?\d[\d,]*(?:\.\d+)?)%?"
_CLAIM = re.compile(rf"{_NUMBER}(?:\*\*)? \[{_NUMBER},\s+{_NUMBER}\]")
_PERCENTAGE = re.compile(r"(?<![\d.,])(\d{1,3}\.\d)%")
_INTERVALS = (
    ("score", "low", "high"),
    ("elo", "elo_low", "elo_high"),
    ("elo", "low", "high"),
    ("bias", "bias_low", "bias_high"),
    ("against_mean", "against_low", "against_high"),
)

Interval = tuple[float, float, float]
"""(estimate, low, high): a measured value and the ends of its interval."""


def points(path: pathlib.Path) -> str:
    """A table of a sweep's points, one per line; with ratings from games against GNU Go."""
    lines, ratings = [], []
    command = next(map(_opponent_command, sorted(path.parent.glob("anchors/*"))), None)
    for row in results.read(path):
        own_command = command if row.anchor else None
        ratings.append(scale.rating_text(own_command, row.score, row.low, row.high))
        name = f"{row.series}, {_thousands(row.label)}" + f", against {row.opponent}" * row.anchor
        score = f"{row.score:.1%} [{row.low:.1%}, {row.high:.1%}]"
        elo = results.elo_text(row.elo, row.elo_low, row.elo_high)
        wins = f"{row.won}, {row.drawn}, {row.lost}"
        lines.append([name, row.games, wins, score, "" if 0 in (row.won, row.lost) else elo])
    head = ["", "games", "won, drawn, lost", "score [95%]", "Elo [95%]"]
    return _rated(head, lines, ratings)


def grid(path: pathlib.Path) -> str:
    """A table of a sweep's scores: one line per series, one column per label."""
    rows = results.read(path)
    points = [row for row in rows if not row.anchor and row.x is not None]
    series = list(dict.fromkeys(row.series for row in points))
    labels = list(dict.fromkeys(row.label for row in points))
    cells = {
        (row.series, row.label): f"{row.score:.1%} [{row.low:.1%}, {row.high:.1%}]"
        for row in points
    }
    return markdown(["", *labels], [[s, *(cells.get((s, x), "") for x in labels)] for s in series])


def matches(path: pathlib.Path) -> str:
    """A table of matches, with the paper's figures, the required scores and the target scores, and
    with ratings from games against GNU Go.

    A score is bold if it is the required one. A match that was stopped has no score yet: short
    games end first, which biases it. One with fewer games than the experiment asks for, played to
    its end, has one.
    """
    lines, ratings = [], []
    for row in read_csv(path):
        numbers = [float(row[key]) for key in _INTERVALS[0]]
        score, low, high = (f"{x:.1%}" for x in numbers)
        stopped = is_stopped(row)
        games = games_text(int(row["games"]), int(row["asked"]))
        least, most = float(row["must_low"] or 0), float(row["must_high"] or 1)
        required = f"{least:.0%}" + f" to {most:.0%}" * (most < 1) if row["must_low"] else ""
        lines.append([f"`{row['match']}`", row["opponent"], row["paper"], games])
        lines[-1] += [f"{row['won']}, {row['drawn']}, {row['lost']}"]
        mark = "**" if row["holds"] == "True" else ""
        missed = " (missed)" if row["holds"] == "False" else ""
        lines[-1] += ["stopped" if stopped else f"{mark}{score}{mark} [{low}, {high}]"]
        lines[-1] += [required + missed]
        lines[-1] += [f"{float(row['aim']):.0%}" if row["aim"] else ""]
        command = None if stopped else _opponent_command(path.parent / row["match"])
        ratings.append(scale.rating_text(command, *numbers))
    head = ["", "opponent", "paper", "games", "won, drawn, lost", "score [95%]", "must", "aim"]
    return _rated(head, lines, ratings)


def columns(path: pathlib.Path) -> str:
    """A table of all columns of a CSV file: whole numbers, and others with three significant digits
    below 100 and none after the point from there on."""
    lines = read_csv(path)
    head = [name.replace("_", " ") for name in lines[0]]
    return markdown(head, [[_cell(text) for text in line.values()] for line in lines])


def _cell(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return {"True": "yes", "False": "no"}.get(text, text)
    is_whole = text.lstrip("-").isdigit()
    return f"{number:,.0f}" if is_whole or 100 <= abs(number) < math.inf else f"{number:.3g}"


def _rated(head: list[str], lines: list[list[Any]], ratings: list[str]) -> str:
    """A table with a column of ratings, if there are any."""
    if any(ratings):
        head = [*head, scale.HEAD]
        lines = [[*cells, text] for cells, text in zip(lines, ratings, strict=True)]
    return markdown(head, lines)


def _opponent_command(match: pathlib.Path) -> str | None:
    """The opponent's command line in a match's folder; None if it is no program or unrecorded."""
    config = match / "config.json"
    return json.loads(config.read_text())["opponent"]["command"] if config.exists() else None


def by_colour(path: pathlib.Path) -> str:
    """In a match's summary: ``67.5% as Black and 44.5% as White``."""
    summary = json.loads(path.read_text())
    black, white = (summary[f"as_{colour}"]["score"] for colour in ("black", "white"))
    return f"{black:.1%} as Black and {white:.1%} as White"


def resigned(*paths: pathlib.Path) -> str:
    """In the games of some matches: how many the player resigned, ``422 of the 1,000 games``."""
    lines = [line for path in paths for line in path.read_text().splitlines()]
    games = [json.loads(line) for line in lines]
    count = sum(game["end"] == "resign" and game["points"] == 0 for game in games)
    return f"{count:,} of the {len(games):,} games"


def with_draws_as_whites_wins(path: pathlib.Path) -> str:
    """The player's score in the games of a match, if White had half a point more of komi."""
    games = [json.loads(line) for line in path.read_text().splitlines()]
    points = [
        game["points"] if game["points"] in (0, 1) else float(game["black"] == "opponent")
        for game in games
    ]
    return f"{sum(points) / len(points):.1%}"


KINDS = {
    kind.__name__: kind
    for kind in (
        *(points, grid, matches, columns, paper_figures),
        *(by_colour, resigned, with_draws_as_whites_wins),
    )
}


def pages() -> list[pathlib.Path]:
    """The pages that may have generated tables: the experiments' READMEs and docs/."""
    return [*FOLDER.glob("*/README.md"), *(FOLDER.parent / "docs").rglob("*.md")]


def regenerated(page: pathlib.Path) -> str:
    """A page's text with its tables, and the numbers in its sentences, regenerated."""

    def made(kind: str, records: str) -> str:
        paths = [(page.parent / record).resolve() for record in records.split()]
        return _maker(kind, *paths)(*paths)

    def table(block: re.Match[str]) -> str:
        kind, records = block.groups()
        return f"<!-- {kind} {records}-->\n{made(kind, records)}\n<!-- end -->"

    def words(said: re.Match[str]) -> str:
        kind, records, now = said.groups()
        new = made(kind, records)
        now = now if now.split() == new.split() else new  # lines may be broken anywhere
        return f"<!-- say {kind} {records}-->{now}<!-- end -->"

    return _SAID.sub(words, _BLOCK.sub(table, page.read_text()))


def _maker(kind: str, *records: pathlib.Path) -> Callable[..., str]:
    if kind in KINDS:
        return KINDS[kind]
    experiment = records[0].resolve().relative_to(FOLDER.resolve()).parts[0]
    return getattr(importlib.import_module(f"experiments.{experiment}.readme"), kind)


def claims(text: str) -> Iterator[tuple[int, str, Interval]]:
    """Yields (line, words, numbers) of each figure with an interval, as ``80.0% [72.0, 86.1]``."""
    for match in _CLAIM.finditer(text):
        middle, low, high = (float(one.replace(",", "")) for one in match.groups())
        yield text.count("\n", 0, match.start()) + 1, match[0], (middle, low, high)


def percentages(text: str) -> Iterator[tuple[int, float]]:
    """Yields (line, number) of each percentage with one decimal outside the generated tables."""
    text = _BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    for match in _PERCENTAGE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, float(match[1])


def recorded(folder: pathlib.Path = FOLDER) -> set[Interval]:
    """All figures with intervals in the records below a folder, in every rounding in use; scores
    also as ratings on GNU Go's scale."""
    intervals = _recorded(folder)
    ratings = [
        (scale.rating(score), scale.rating(low), scale.rating(high))
        for score, low, high in intervals
        if low > 0 and high < 1
    ]
    scales = (100, 1), (100, 0), (1, 0), (1, 1), (1, 3)
    return {_rounded(one, by, digits) for one in intervals for by, digits in scales} | {
        _rounded(one, 1, 0) for one in ratings
    }


def _recorded(folder: pathlib.Path) -> list[Interval]:
    """The figures with intervals, as the records have them: scores from 0 to 1."""
    intervals: list[Interval] = []
    for path in folder.rglob("results/**/*.csv"):
        intervals += [one for row in read_csv(path) for one in _intervals(row)]
    for path in folder.rglob("results/**/*.json"):
        intervals += _nested(json.loads(path.read_text()))
    return intervals


def _rounded(interval: Interval, scale: int, digits: int) -> Interval:
    middle, low, high = (round(x * scale, digits) for x in interval)
    return middle, low, high


def recorded_for(page: pathlib.Path) -> set[Interval]:
    """The figures that a page may claim: an experiment's README those of its own records and of
    the experiments that it links to; every other page all."""
    return set().union(*map(recorded, _folders_of(page)))


def percentages_for(page: pathlib.Path) -> set[float]:
    """The scores and their bounds that a page may claim, in percent with one decimal."""
    intervals = [one for folder in _folders_of(page) for one in _recorded(folder)]
    return {round(100 * x, 1) for one in intervals if 0 <= one[0] <= 1 for x in one}


def _folders_of(page: pathlib.Path) -> list[pathlib.Path]:
    if page.parent.parent != FOLDER:
        return [FOLDER]
    linked = re.findall(r"\]\(\.\./(\w+)/", page.read_text())
    return [page.parent, *(FOLDER / name for name in linked)]


def _nested(record: Any) -> Iterator[Interval]:
    if isinstance(record, dict):
        yield from _intervals(record)
        record = list(record.values())
    if isinstance(record, list):
        for one in record:
            yield from _nested(one)


def _intervals(row: dict[str, Any]) -> Iterator[Interval]:
    if is_stopped(row):
        return
    if isinstance(row.get("interval"), list) and "score" in row:  # of a match's summary.json
        yield row["score"], *row["interval"]
    for keys in _INTERVALS:
        if all(key in row and row[key] not in ("", None) for key in keys):
            middle, low, high = (float(row[key]) for key in keys)
            yield middle, low, high


def _thousands(label: str) -> str:
    """A label with thousands separators in its numbers, unless they are years after a name."""
    return re.sub(r"(?<![a-z] )\b\d{4,}", lambda number: f"{int(number[0]):,}", label)


if __name__ == "__main__":
    for path in pages():
        path.write_text(regenerated(path))
