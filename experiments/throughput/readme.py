"""Tables of this experiment's README, generated from its records."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from experiments.output import markdown, read_csv
from experiments.throughput.measure import Result


def rows(*paths: pathlib.Path) -> str:
    """The rows of `run --json`, by name and `on`, the machine; several measurements of a row stand
    one after the other. Bold: all of them reach `must`."""
    groups: dict[str, list[Result]] = defaultdict(list)
    fields = {field.name for field in dataclasses.fields(Result)}
    for path in paths:
        for line in path.read_text().splitlines():
            row = json.loads(line)
            name = row["row"] + (f" ({row['on']})" if "on" in row else "")
            groups[name].append(Result(**{k: v for k, v in row.items() if k in fields}))
    head = ["", "ours", "against", "ratio", "must", "aim", "note"]
    return markdown(head, [[name, *_cells(group)] for name, group in groups.items()])


def _cells(group: Sequence[Result]) -> list[str]:
    first = group[0]
    unit = first.unit if first.unit == "x" else f" {first.unit}"
    ours = f"{_listed([row.ours for row in group])}{unit}"
    peers = [row.peer for row in group if row.peer is not None]
    ratios = [row.ratio for row in group if row.ratio is not None]
    ratio = ", ".join(f"{x:.3g}x" if x >= 10 else f"{x:.2f}x" for x in ratios)
    holds = all(row.reaches(row.must) for row in group)
    of_ours = first.bounds == "ours"
    bounds = (first.must, first.aim)
    return [
        f"**{ours}**" if holds and of_ours else ours,
        f"{_listed(peers)}, {first.peer_name}" if peers else "",
        "" if of_ours else f"**{ratio}**" if holds else ratio,
        *("" if x is None else f"{x:,g}{unit if of_ours else 'x'}" for x in bounds),
        first.note if all(row.note == first.note for row in group) else "",
    ]


def _listed(figures: Sequence[float]) -> str:
    """The figures, or one if they are all the same."""
    texts = list(map(_number, figures))
    return ", ".join(texts[:1] if len(set(texts)) == 1 else texts)


def _number(figure: float) -> str:
    """With three significant digits, from 10,000 on in thousands or millions."""
    for least, unit, letter in ((999_500, 1e6, "M"), (1e4, 1e3, "k")):
        if figure >= least:
            return f"{_number(figure / unit)}{letter}"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def training(*paths: pathlib.Path) -> str:
    """Each run of `python -m train` in files whose first two columns name it."""
    runs: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for path in paths:
        for line in read_csv(path):
            subject, run = list(line)[:2]
            runs[path.stem, f"{subject}: {line[subject]}", line[run]].append(line)
    cells = [[what, run, *_speeds(lines)] for (_, what, run), lines in runs.items()]
    return markdown(["", "run", "play", "a step", "learning's share"], cells)


def _speeds(iterations: Sequence[dict[str, str]]) -> list[str]:
    """(median seconds of play, median of a step, learning's share of the time); the last two over
    iterations that learn, but the first of them, which may wait for a program."""
    playing, learning, steps = (
        np.array([float(one[name]) for one in iterations])
        for name in ("playing_s", "learning_s", "steps")
    )
    num_steps = np.diff(steps, prepend=0)  # the file counts them from the start of the run
    learns = np.flatnonzero(num_steps)[1:]
    step = np.median(learning[learns] / num_steps[learns])
    share = learning[learns].sum() / (learning + playing)[learns].sum()
    return [f"{np.median(playing):.1f} s", f"{1000 * step:.0f} ms", f"{share:.0%}"]


def checkouts(path: pathlib.Path) -> str:
    """The results of `beside`."""
    lines = read_csv(path)
    commits = {(line["this"], line["other"]) for line in lines}
    this, other = commits.pop() if len(commits) == 1 else ("this", "other")
    cells = [
        [one["program"], f"{one['this_ms']} ms", f"{one['other_ms']} ms", f"{one['ratio']}x"]
        for one in lines
    ]
    return markdown(["", this, other, "as fast as before"], cells)
