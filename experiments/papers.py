"""What papers report of strength, beside our figures from the records: a table for the docs.

A figure that no record has yet is listed as not played, with the command that plays it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from experiments.matches.results import games_text, is_stopped
from experiments.output import markdown, read_csv
from experiments.usage import FOLDER


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a paper and where ours is."""

    place: str
    """Where the paper has it."""
    what: str
    paper: tuple[float, float]
    """The paper's score, from the least to the most that it gives; in Elo if `elo`."""
    record: str
    """A CSV below `experiments/`."""
    row: Mapping[str, str]
    """The columns and their values that identify its row."""
    command: str
    """What plays it, after ``python -m experiments.``."""
    why: str = ""
    """The cause of the difference."""
    deviation: str = ""
    """What differs from the paper's conditions."""
    elo: bool = False
    comparable: bool = True
    """Whether the two may be subtracted."""


_GNUGO = "against_gnugo/results/results.csv"
_NOT_KNOWN = "not known"
_NO_EXPLORATION = (
    "that it is below UCT: without exploration (c = 0) it is greedy on few visits, and with UCT's "
    "it plays as well as UCT; why the paper's program wins with such a k is not known "
    "([rave_equivalence](../../experiments/rave_equivalence/))"
)

GELLY_SILVER = (
    Figure(
        "Fig. 5",
        "UCT, MoGo's playouts, 3,000 simulations, against GNU Go 3.8",
        (0.24, 0.24),
        _GNUGO,
        {"match": "uct"},
        "against_gnugo.run --only uct",
        _NOT_KNOWN,
        "with first-play urgency of 1, MoGo's, where Algorithm 1 tries untried actions first; the "
        "most visited move is played, nakade, trees are reused",
    ),
    Figure(
        "Fig. 5",
        "UCT as in Algorithm 1, MoGo's playouts, 3,000 simulations, against GNU Go 3.8",
        (0.24, 0.24),
        _GNUGO,
        {"match": "uct-literal"},
        "against_gnugo.run --only uct-literal",
        _NOT_KNOWN,
        "`--player literal-uct`, without nakade",
    ),
    Figure(
        "Fig. 5",
        "the first of these two against GNU Go 3.7.10",
        (0.24, 0.24),
        _GNUGO,
        {"match": "uct-3.7.10"},
        "against_gnugo.run --only uct-3.7.10",
    ),
    Figure(
        "Fig. 5",
        "MC-RAVE, 3,000 simulations, against GNU Go 3.8",
        (0.5, 0.6),
        _GNUGO,
        {"match": "rave-1-leaf"},
        "against_gnugo.run --only rave-1-leaf",
    ),
    *(
        Figure(
            "Fig. 5",
            f"MC-RAVE, k = {k:,}, 3,000 simulations, against GNU Go 3.8",
            (0.5, 0.6),
            _GNUGO,
            {"match": f"rave-{form}k-{k}"},
            f"against_gnugo.run --only rave-{form}k-{k}",
            _NO_EXPLORATION if k == 1 else _NOT_KNOWN,
            deviation,
        )
        for form, deviation in (
            ("", ""),
            ("per-action-", "Eq. 19 by the visits of the action, where the node's are printed"),
        )
        for k in (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
    ),
    Figure(
        "4.6.3",
        "the best hand-selected schedule against minimum mean squared error",
        (-80, -80),
        "schedules/results/3000/results.csv",
        {"series": "hand-selected", "label": "k = 30000", "anchor": "False"},
        "schedules.run --simulations 3000 --games 100 --parallel 100 --resign -0.9 --ks 300 1000 "
        "3000 10000 30000 100000 --biases 0.01 --means even",
        "",
        "against each other, not GNU Go; 3,000 simulations, the best of six k; by the node's "
        "visits in Eq. 19, as printed",
        elo=True,
    ),
    Figure(
        "Table 1",
        "heuristic MC-RAVE, 3,000 simulations, one leaf a step, against GNU Go 3.8",
        (0.69, 0.69),
        _GNUGO,
        {"match": "heuristic-1-leaf"},
        "against_gnugo.run --only heuristic-1-leaf",
    ),
    Figure(
        "Table 1",
        "the same with two leaves a step, against GNU Go 3.7.10",
        (0.69, 0.69),
        _GNUGO,
        {"match": "heuristic-3.7.10"},
        "against_gnugo.run --only heuristic-3.7.10",
    ),
    Figure(
        "Table 1",
        "the same with two leaves a step, against GNU Go 3.8, with two more things that the "
        "paper's program did not have: values taught by a network, and an expert bias",
        (0.69, 0.69),
        _GNUGO,
        {"match": "taught-experts"},
        "against_gnugo.run --only taught-experts",
    ),
    Figure(
        "Table 1",
        "heuristic MC-RAVE, 10,000 simulations, two leaves a step, against GNU Go 3.8",
        (0.82, 0.82),
        _GNUGO,
        {"match": "heuristic-10000"},
        "against_gnugo.run --only heuristic-10000",
        "not known; not GNU Go's version, if 10,000 simulations are like 3,000",
    ),
    Figure(
        "Table 1",
        "the same with one leaf a step",
        (0.82, 0.82),
        _GNUGO,
        {"match": "heuristic-10000-1-leaf"},
        "against_gnugo.run --only heuristic-10000-1-leaf",
        _NOT_KNOWN,
    ),
    Figure(
        "Table 1",
        "the same with two leaves a step, against GNU Go 3.7.10",
        (0.82, 0.82),
        _GNUGO,
        {"match": "heuristic-10000-3.7.10"},
        "against_gnugo.run --only heuristic-10000-3.7.10",
        _NOT_KNOWN,
    ),
    Figure(
        "Table 1",
        "the same against GNU Go 3.8 with values taught by a network and an expert bias",
        (0.82, 0.82),
        _GNUGO,
        {"match": "taught-experts-10000"},
        "against_gnugo.run --only taught-experts-10000",
    ),
    Figure(
        "Table 1",
        "heuristic MC-RAVE, ten minutes a game",
        (0.92, 0.92),
        _GNUGO,
        {"match": "heuristic-10-minutes"},
        "against_gnugo.run --only heuristic-10-minutes",
    ),
)
"""Gelly & Silver (2011, Artificial Intelligence 175), 9x9 at GNU Go's level 10. The playouts of
ours also play nakade, but in 4.6.3."""


def paper_figures() -> str:
    """The table of `GELLY_SILVER`: the paper's figures, ours, their difference and its cause."""
    head = ["", "what", "paper", "ours [95%]", "games", "difference", "its cause", "command"]
    return markdown(head, [_line(figure) for figure in GELLY_SILVER])


def _line(figure: Figure) -> list[str]:
    rows = [row for row in read_csv(FOLDER / figure.record) if figure.row.items() <= row.items()]
    assert len(rows) <= 1, f"{figure.record}: {len(rows)} rows are {figure.row}"
    paper = " to ".join(
        f"{x:+.0f} Elo" if figure.elo else f"{x:.0%}" for x in dict.fromkeys(figure.paper)
    )
    what = figure.what + (f" ({figure.deviation})" if figure.deviation else "")
    command = f"`{figure.command}`"
    if not rows:
        return [figure.place, what, paper, "not played", "", "", "", command]
    if is_stopped(rows[0]):
        return [figure.place, what, paper, "stopped", "", "", "", command]
    value, low, high = _interval(rows[0], figure)
    ours = f"{value:+.0f} [{low:+.0f}, {high:+.0f}]" if figure.elo else ""
    ours = ours or f"{value:.1%} [{low:.1%}, {high:.1%}]"
    games = int(rows[0]["games"])
    games_played = games_text(games, int(rows[0].get("asked") or games))
    difference, within = _difference(figure, value, low, high)
    if not figure.comparable:
        difference, within = "", False
    why = figure.why if not within else "not shown: it is within our interval"
    why = why * (difference != "none")
    return [figure.place, what, paper, ours, games_played, difference, why, command]


def _interval(row: Mapping[str, str], figure: Figure) -> tuple[float, float, float]:
    keys = ("elo", "elo_low", "elo_high") if figure.elo else ("score", "low", "high")
    value, low, high = (float(row[key]) for key in keys)
    return value, low, high


def _difference(figure: Figure, value: float, low: float, high: float) -> tuple[str, bool]:
    """(the difference from the paper's nearest figure, whether our interval includes that)."""
    least, most = figure.paper
    nearest = min(max(value, least), most)
    if nearest == value:
        return "none", True
    text = f"{value - nearest:+.0f} Elo" if figure.elo else f"{100 * (value - nearest):+.1f} points"
    return text, low <= nearest <= high
