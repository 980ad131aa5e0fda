"""The results of a sweep so far: rows, as CSV and as a table."""

from __future__ import annotations

import csv
import dataclasses
import math
import pathlib
from collections.abc import Iterable, Sequence

from experiments.output import markdown, write_csv
from experiments.sweeps.folder import Piece
from experiments.sweeps.points import Point, Sweep
from gozero.runs import statistics


@dataclasses.dataclass(frozen=True)
class Row:
    """The games of a point against one opponent."""

    experiment: str
    series: str
    x: float | None
    label: str
    player: str
    opponent: str
    anchor: bool
    """Whether the opponent is a program."""
    games: int
    won: int
    drawn: int
    lost: int
    score: float
    """Points a game."""
    low: float
    """Of the score, with `high` 95%, over pairs."""
    high: float
    elo: float
    """Of the player above the opponent; infinite if it won or lost all."""
    elo_low: float
    elo_high: float
    plies: float
    """Of a game, on average."""
    truncated: int
    """Games that the move limit ended."""
    seconds: float
    """That our games took, one after another or many at once, compiling included. An anchor's: that
    both sides thought, of all games together, of which several were played at once."""


def row_of(sweep: Sweep, point: Point, pieces: Sequence[Piece]) -> Row:
    """The row of a point's pieces, of which there is at least one."""
    points = [x for piece in pieces for x in piece.points]
    total, interval = (
        statistics.Tally.of(points),
        statistics.pair_interval(statistics.pair_scores(points)),
    )
    return make_row(
        sweep,
        point,
        point.opponent.text,
        total,
        interval,
        plies=sum(piece.plies for piece in pieces) / total.games,
        truncated=sum(piece.truncated for piece in pieces),
        seconds=sum(piece.seconds for piece in pieces),
    )


def make_row(
    sweep: Sweep,
    point: Point,
    opponent: str,
    total: statistics.Tally,
    interval: statistics.Interval,
    **more,
) -> Row:
    """A row; `more` are its fields on the games themselves, and whether it is of an anchor."""
    low, high = interval
    return Row(
        experiment=sweep.name,
        series=point.series,
        x=point.x,
        label=point.label,
        player=point.player.text,
        opponent=opponent,
        games=total.games,
        won=total.wins,
        drawn=total.draws,
        lost=total.losses,
        score=total.score,
        low=low,
        high=high,
        elo=statistics.elo(total.score),
        elo_low=statistics.elo(low),
        elo_high=statistics.elo(high),
        **{"anchor": False} | more,
    )


def write(rows: Iterable[Row], path: pathlib.Path) -> None:
    """The CSV, whole or not at all."""
    write_csv(Row, rows, path, digits=5)


def read(path: pathlib.Path) -> list[Row]:
    """The rows of a CSV."""
    kinds = {"float": float, "float | None": lambda x: float(x) if x else None, "int": int}
    kinds |= {"str": str, "bool": lambda x: x == "True"}
    of = {field.name: kinds[str(field.type)] for field in dataclasses.fields(Row)}
    with path.open(newline="") as file:
        return [Row(**{k: of[k](v) for k, v in row.items()}) for row in csv.DictReader(file)]


def chained(rows: Sequence[Row]) -> list[tuple[float, float, float]]:
    """(Elo, low, high) of each row above where its series began, whose rows are in order.

    Errors of independent matches add up as squares, above and below apart. A match that was won or
    lost outright says no number: nan, there and in the rest of its series.
    """
    at: dict[str, tuple[float, float, float]] = {}
    found = []
    for row in rows:
        elo, below, above = at.get(row.series, (0.0, 0.0, 0.0))
        if not math.isfinite(row.elo):
            elo = math.nan
        below = math.hypot(below, row.elo - row.elo_low)
        above = math.hypot(above, row.elo_high - row.elo)
        at[row.series] = (elo + row.elo, below, above)
        found.append((elo + row.elo, elo + row.elo - below, elo + row.elo + above))
    return found


def table(sweep: Sweep, rows: Sequence[Row]) -> str:
    """In Markdown."""
    ours = [row for row in rows if not row.anchor]
    ratings = dict(zip(map(id, ours), chained(ours), strict=True)) if sweep.chained else {}
    head = ["series", "", "opponent", "games", "won, drawn, lost", "score [95%]", "Elo [95%]"]
    head += ["Elo in all [95%]"] if ratings else []
    lines = []
    for row in rows:
        cells = [row.series, row.label, row.opponent, str(row.games)]
        cells += [f"{row.won}, {row.drawn}, {row.lost}"]
        cells += [f"{row.score:.1%} [{row.low:.1%}, {row.high:.1%}]"]
        cells += [elo_words(row.elo, row.elo_low, row.elo_high)]
        if ratings:
            cells += [elo_words(*ratings[id(row)]) if id(row) in ratings else ""]
        lines.append(cells)
    return markdown(head, lines)


def elo_words(middle: float, low: float, high: float) -> str:
    if math.isnan(middle):
        return "unknown: a match was won or lost outright"
    return f"{middle:+.0f} [{low:+.0f}, {high:+.0f}]"
