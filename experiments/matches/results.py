"""The results of matches: rows, a table and a figure."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.matches import scale
from experiments.matches.config import Match
from experiments.output import markdown, picture, write_csv


def games_text(games: int, asked: int) -> str:
    """The number of games that count, and of how many if some are void or not played yet."""
    return str(games) if games >= asked else f"{games} of {asked}"


@dataclasses.dataclass(frozen=True)
class Row:
    """The results of a match so far, from the player's side."""

    match: str
    player: str
    opponent: str
    games: int
    """Games that count."""
    asked: int
    """Games requested, by the match or by flags, whichever is more."""
    won: int
    drawn: int
    lost: int
    void: int
    forfeits: int
    """By either side."""
    resigned: int
    """By either side."""
    score: float
    """Points a game."""
    low: float
    """The 95% interval of the score is `low` to `high`."""
    high: float
    seconds: float
    """The player's mean time for a move, with many games at once."""
    opponent_seconds: float
    moves: float
    """The mean length of a game."""
    paper: str
    must_low: float | None
    """The required range of the score is `must_low` to `must_high`; both None: no requirement."""
    must_high: float | None
    aim: float | None
    holds: bool | None
    """Whether the score is from `must_low` to `must_high`. None before all games have been
    played: resigned games end first, which biases the score. None also if more than 2% of the
    requested games are void, or if there is no requirement."""
    stopped: bool
    """Whether the match was stopped before its command had played all games."""

    @property
    def games_text(self) -> str:
        return games_text(self.games, self.asked)

    @property
    def remarks(self) -> str:
        """Void and forfeited games, if any: `` (2 void, 1 by forfeit)``."""
        void = [f"{self.void} void"] if self.void else []
        forfeits = [f"{self.forfeits} by forfeit"] if self.forfeits else []
        return f" ({', '.join(void + forfeits)})" if void or forfeits else ""


def rows(matches: Mapping[str, Match], out: pathlib.Path) -> list[Row]:
    """The rows of the matches that have games."""
    results = []
    for name, spec in matches.items():
        path = out / name / "summary.json"
        if path.exists():
            summary = json.loads(path.read_text(encoding="utf-8"))
            flags = json.loads((out / name / "config.json").read_text(encoding="utf-8"))
            if summary["games"]:
                results.append(row_of(name, spec, flags["games"], summary))
    return results


def row_of(name: str, spec: Match, num_requested: int, summary: dict) -> Row:
    """A match's row, from the summary of `gozero match` and the number of requested games."""
    seconds = summary["seconds_a_move"]
    low, high = spec.must or (None, None)
    asked = max(num_requested, spec.games)
    is_done = summary["state"] == "complete" and summary["games"] >= asked - asked // 50
    return Row(
        match=name,
        player=summary["player"],
        opponent=summary["opponent"],
        games=summary["games"],
        asked=asked,
        won=summary["wins"],
        drawn=summary["draws"],
        lost=summary["losses"],
        void=summary["void"],
        forfeits=sum(summary["forfeits"].values()),
        resigned=_resigned(summary["resigned"]),
        score=summary["score"],
        low=summary["interval"][0],
        high=summary["interval"][1],
        seconds=seconds["player"],
        opponent_seconds=seconds["opponent"],
        moves=summary["mean_moves"],
        paper=spec.paper,
        must_low=low,
        must_high=high,
        aim=spec.aim,
        holds=spec.must[0] <= summary["score"] <= spec.must[1] if is_done and spec.must else None,
        stopped=summary["state"] != "complete",
    )


def is_stopped(row: Mapping[str, Any]) -> bool:
    """Whether a match's row or summary is of a part of its games: those that end first are no fair
    sample, so their score is no result."""
    return row.get("stopped") == "True" or row.get("state", "complete") != "complete"


def _resigned(games: dict[str, int] | int) -> int:
    """Games resigned by either side; older summaries have only this total."""
    return games if isinstance(games, int) else sum(games.values())


def table(results: Sequence[Row], matches: Mapping[str, Match] | None = None) -> str:
    """The results as a Markdown table; with `matches`, also ratings from games against GNU Go."""
    head = ["", "paper", "games", "won, drawn, lost", "score [95%]", "must", "aim"]
    lines = [_cells(row) for row in results]
    commands = [matches[row.match].opponent.command if matches else None for row in results]
    ratings = [
        scale.rating_text(command, row.score, row.low, row.high)
        for command, row in zip(commands, results, strict=True)
    ]
    if any(ratings):
        head.append(scale.HEAD)
        lines = [[*cells, text] for cells, text in zip(lines, ratings, strict=True)]
    return markdown(head, lines)


def _cells(row: Row) -> list[str]:
    return [
        f"{row.match}: {row.player}",
        row.paper,
        row.games_text + row.remarks,
        f"{row.won}, {row.drawn}, {row.lost}",
        "stopped" if row.stopped else f"{row.score:.1%} [{row.low:.1%}, {row.high:.1%}]",
        _must_text(row),
        "" if row.aim is None else f"{row.aim:.0%}",
    ]


def _must_text(row: Row) -> str:
    """The required score: `12% to 40%`."""
    if row.must_low is None or row.must_high is None:
        return ""
    upper = f" to {row.must_high:.0%}" if row.must_high < 1 else ""
    return f"{row.must_low:.0%}{upper}{' (missed)' if row.holds is False else ''}"


def write(results: Sequence[Row], out: pathlib.Path) -> None:
    """Writes results.csv and results.svg."""
    write_csv(Row, results, out / "results.csv")
    draw(results, out / "results.svg")


def draw(rows: Sequence[Row], out: pathlib.Path) -> None:
    """Draws an SVG: each match's score with its 95% interval, over the required range, if any;
    without matches that were stopped."""
    rows = [row for row in rows if not row.stopped]
    positions = range(len(rows))
    with picture(out, figsize=(7, 0.6 * len(rows) + 1.2)) as (_, axis):
        for y, row in zip(positions, rows, strict=True):
            if row.must_low is not None and row.must_high is not None:
                left, width = 100 * row.must_low, 100 * (row.must_high - row.must_low)
                axis.barh(y, width, left=left, height=0.8, color="#e6ede8", zorder=0)
            if row.aim is not None:
                axis.plot([100 * row.aim] * 2, [y - 0.4, y + 0.4], color="#64707c", ls=":")
        scores = [100 * row.score for row in rows]
        below = [100 * (row.score - row.low) for row in rows]
        above = [100 * (row.high - row.score) for row in rows]
        axis.errorbar(scores, positions, xerr=[below, above], fmt="o", color="#2e8b57", capsize=3)
        axis.set_yticks(list(positions), [f"{row.match} ({row.games_text})" for row in rows])
        axis.set(xlim=(0, 100), xlabel="score, % (shaded: must; dotted: aim)")
        axis.invert_yaxis()
