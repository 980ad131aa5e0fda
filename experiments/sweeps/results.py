"""The results of a sweep so far: rows, as CSV and as a table."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Sequence

from experiments.matches import scale
from experiments.output import markdown, read_csv, write_csv
from experiments.sweeps.folder import Piece
from experiments.sweeps.points import Point, Sweep
from gozero.runs import statistics


@dataclasses.dataclass(frozen=True)
class Row:
    """The results of a point against one opponent."""

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
    """The 95% interval of the score, over pairs, is `low` to `high`."""
    high: float
    elo: float
    """The player's Elo minus the opponent's; infinite if it won or lost all games."""
    elo_low: float
    elo_high: float
    plies: float
    """The mean length of a game."""
    truncated: int
    """Games that the move limit ended."""
    seconds: float
    """Wall-clock time of our games, compilation included. For an anchor: both sides' thinking time,
    summed over all games, several of which were played at once."""


def row_of(sweep: Sweep, point: Point, pieces: Sequence[Piece]) -> Row:
    """The row of a point, from its pieces (at least one)."""
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
    """A row; `more` has `plies`, `truncated`, `seconds`, and `anchor=True` for an anchor."""
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
    """Writes the CSV atomically."""
    write_csv(Row, rows, path, digits=5)


def read(path: pathlib.Path) -> list[Row]:
    """The rows of a CSV."""
    by_type = {"float": float, "float | None": lambda x: float(x) if x else None, "int": int}
    by_type |= {"str": str, "bool": lambda x: x == "True"}
    parsers = {field.name: by_type[str(field.type)] for field in dataclasses.fields(Row)}
    return [Row(**{k: parsers[k](v) for k, v in row.items()}) for row in read_csv(path)]


def chained(rows: Sequence[Row]) -> list[tuple[float, float, float]]:
    """Cumulative (Elo, low, high) of each row above the first opponent of its series.

    The rows of a series are in order. Errors of matches add in quadrature, as if they were
    independent (they share their openings), separately above and below. If a match was won or lost
    outright its Elo is unknown: nan, there and in the rest of its series.
    """
    last: dict[str, tuple[float, float, float]] = {}
    heights = []
    for row in rows:
        elo, below, above = last.get(row.series, (0.0, 0.0, 0.0))
        if not math.isfinite(row.elo):
            elo = math.nan
        below = math.hypot(below, row.elo - row.elo_low)
        above = math.hypot(above, row.elo_high - row.elo)
        last[row.series] = (elo + row.elo, below, above)
        heights.append((elo + row.elo, elo + row.elo - below, elo + row.elo + above))
    return heights


def table(sweep: Sweep, rows: Sequence[Row], anchor_command: str | None = None) -> str:
    """The results as a Markdown table; if the anchors' program is GNU Go, with their ratings on its
    scale."""
    own_rows = [row for row in rows if not row.anchor]
    ratings = dict(zip(map(id, own_rows), chained(own_rows), strict=True)) if sweep.chained else {}
    head = ["series", "", "opponent", "games", "won, drawn, lost", "score [95%]", "Elo [95%]"]
    head += ["Elo in all [95%]"] if ratings else []
    on_scale = [
        scale.rating_text(anchor_command, row.score, row.low, row.high) if row.anchor else ""
        for row in rows
    ]
    head += [scale.HEAD] if any(on_scale) else []
    lines = []
    for row, scale_text in zip(rows, on_scale, strict=True):
        cells = [row.series, row.label, row.opponent, str(row.games)]
        cells += [f"{row.won}, {row.drawn}, {row.lost}"]
        cells += [f"{row.score:.1%} [{row.low:.1%}, {row.high:.1%}]"]
        cells += [elo_text(row.elo, row.elo_low, row.elo_high)]
        if ratings:
            cells += [elo_text(*ratings[id(row)]) if id(row) in ratings else ""]
        cells += [scale_text] if any(on_scale) else []
        lines.append(cells)
    return markdown(head, lines)


def elo_text(middle: float, low: float, high: float) -> str:
    if math.isnan(middle):
        return "unknown: a match was won or lost outright"
    return f"{middle:+.0f} [{low:+.0f}, {high:+.0f}]"
