"""Tables of README.md and the figure of the 9x9 network's Elo by hours of training, from records.

python -m experiments.zero_strength.readme    # draws results/9x9-elo-by-hours.svg
python -m experiments.records                 # writes the tables
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import NamedTuple

import numpy as np

from experiments.output import check_plots, markdown, picture, read_csv
from train.plots import EXTRAPOLATION, elo_line, extrapolate, label_hours

RESULTS = pathlib.Path(__file__).parent / "results"
FIRST, CONTINUED = RESULTS / "9x9-training.csv", RESULTS / "9x9-continued-training.csv"


class Curve(NamedTuple):
    """A run's matches against its own earlier networks."""

    hours: np.ndarray  # f64[N]: hours of play and learning, those before the run included
    elo: np.ndarray  # f64[N]: relative to the network with which the first run ended


def curves(first: pathlib.Path, continued: pathlib.Path) -> tuple[Curve, Curve]:
    """The first run's curve, and that of the run that began with its last network."""
    hours, elo = _rated(first)
    more_hours, more_elo = _rated(continued)
    return Curve(hours, elo - elo[-1]), Curve(hours[-1] + more_hours, more_elo)


def elo_by_hours(first: pathlib.Path, continued: pathlib.Path) -> str:
    """A table of some networks of both runs, and of later ones by the first run's line."""
    runs = curves(first, continued)
    slope, level = elo_line(*runs[0])
    on_line = lambda hours: f"{slope * np.log2(hours) + level:+,.0f}"
    rows = [
        [f"{hours:.2f}", f"{elo:+,.0f}", on_line(hours), run]
        for run, curve in zip(("first", "continued"), runs, strict=True)
        for hours, elo in _some(curve)
    ]
    last = runs[0].hours[-1]
    rows += [[f"{k * last:.2f}", "", on_line(k * last), "extrapolated"] for k in (2, EXTRAPOLATION)]
    return markdown(["hours", "Elo", "line of the first run", "run"], rows)


def learning(*paths: pathlib.Path) -> str:
    """Seconds of play and of learning in an iteration, and the share of learning in both, by the
    simulations of the recorded iterations."""
    rows = []
    for path in paths:
        recorded = [row for row in read_csv(path) if float(row["learning_s"]) > 0]
        for simulations in dict.fromkeys(row["simulations"] for row in recorded):
            same = [row for row in recorded if row["simulations"] == simulations]
            play, learn = (np.mean([float(row[k]) for row in same]) for k in _SECONDS)
            cells = [path.stem.removesuffix("-training"), simulations, len(same)]
            rows.append(
                [*cells, f"{play:.1f} s", f"{learn:.1f} s", f"{learn / (play + learn):.0%}"]
            )
    return markdown(["run", "simulations", "iterations", "play", "learning", "share"], rows)


def openings(against_itself: pathlib.Path, *matches: pathlib.Path) -> str:
    """Scores by who wins a pair's opening when one player has both sides: White or Black in both
    games, or neither. The last column leaves out games whose opening the other side wins; to be
    read beside that of the first row, of the player against itself."""
    wins = [{one["result"][0] for one in pair} for pair in _pairs(against_itself)]
    kinds = ["White" if won == {"W"} else "Black" if won == {"B"} else "neither" for won in wins]
    names, rows = sorted(set(kinds)), []
    for path in (against_itself, *matches):
        scores: dict[tuple[str, str], list[float]] = {}
        for kind, pair in zip(kinds, _pairs(path), strict=True):
            for one in pair:
                colour = "Black" if one["black"] == "player" else "White"
                scores.setdefault((kind, colour), []).append(one["points"])
        of = lambda kind, colour, scores=scores: f"{np.mean(scores[kind, colour]):.1%}"
        cells = [f"{of(kind, 'Black')}, {of(kind, 'White')}" for kind in names]
        fair = [
            x for (kind, own), all_of in scores.items() if kind in (own, "neither") for x in all_of
        ]
        rows.append([f"`{path.parent.name}`", *cells, f"{np.mean(fair):.1%} of {len(fair)}"])
    head = [f"{kind}: {kinds.count(kind)} openings" for kind in names]
    return markdown(
        ["as Black, as White; opening won by", *head, "not won by the other side"], rows
    )


def _pairs(path: pathlib.Path) -> list[list[dict]]:
    """The games of a match's results.jsonl, two of each opening."""
    games = [json.loads(line) for line in path.read_text().splitlines()]
    games.sort(key=lambda one: one["game"])
    return [games[i : i + 2] for i in range(0, len(games), 2)]


_SECONDS = "playing_s", "learning_s"


def _some(curve: Curve) -> list[tuple[float, float]]:
    """Every network of a short curve, every fifth of a long one; always the last."""
    every = 5 if len(curve.hours) > 5 else 1
    points = list(zip(curve.hours, curve.elo, strict=True))
    return points[::-1][::every][::-1]


def _rated(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """(hours, Elo) of the iterations that have played a match."""
    rows = [row for row in read_csv(path) if row["elo"]]
    seconds, elo = (np.array([float(row[key]) for row in rows]) for key in ("seconds", "elo"))
    return seconds / 3600, elo


def main() -> int:
    check_plots()
    first, continued = curves(FIRST, CONTINUED)
    with picture(RESULTS / "9x9-elo-by-hours.svg", figsize=(7, 4)) as (_, axis):
        axis.plot(*first, color="#2e8b57", marker="o", label="first run")
        axis.plot(*continued, color="#b5651d", marker="o", label="continued")
        extrapolate(axis, *first, colour="#64707c")
        label_hours(axis)
        axis.set(ylabel="Elo above the first run's last network")
        axis.legend(frameon=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
