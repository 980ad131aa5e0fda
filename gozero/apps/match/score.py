"""The result of a match: the score, its interval, the difference in Elo, and a table."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gozero.runs import statistics


class GameLine(NamedTuple):
    """A line of ``results.jsonl``."""

    game: int  # its number
    black: str  # "player" or "opponent"
    result: str  # as in SGF; "Void" if it does not count
    points: float | None  # the player's: 1, 0.5 or 0; None for a void game
    end: str  # "score", "limit", "resign", "forfeit", "void"
    why: str  # a remark, or ""
    moves: int
    attempts: int  # times it was begun
    seconds: tuple[float, float]  # spent on moves by the player and the opponent
    turns: tuple[int, int]  # moves that they chose
    failures: tuple[str, ...] = ()  # why each earlier attempt was void; not in older files
    replies: tuple[tuple[float, ...], ...] = ()  # seconds of each move, in matches with a clock
    digest: str = ""  # of its moves, see `moves_digest`; "" in older files


def moves_digest(actions: Sequence[int]) -> str:
    """Equal for equal games: 16 hexadecimal digits."""
    return hashlib.sha256(" ".join(map(str, actions)).encode()).hexdigest()[:16]


def summarise(games: Iterable[GameLine], paired: bool = False) -> dict:
    """The statistics of a match, as JSON data; an infinite Elo is None.

    If games 2 i and 2 i + 1 are pairs, the interval is computed over pairs; a pair of which only
    one game counts is half a pair.
    """
    games = list(games)
    counted = [game for game in games if game.points is not None]
    pairs = _pairs(counted) if paired else []
    num_by_end = Counter(game.end for game in games)
    seconds, turns = (
        [sum(x) for x in zip((0, 0), *pairs, strict=True)] for pairs in _both(counted)
    )
    return {
        **_row(counted, pairs),
        "as_black": _row([game for game in counted if game.black == "player"]),
        "as_white": _row([game for game in counted if game.black == "opponent"]),
        "different": _num_different(counted),
        "void": num_by_end["void"],
        "forfeits": _lost_by("forfeit", counted),
        "on_time": _lost_by("forfeit", [game for game in counted if game.result.endswith("+T")]),
        "resigned": _lost_by("resign", counted),
        "move_limit": num_by_end["limit"],
        "replayed": sum(game.attempts - 1 for game in games),
        "mean_moves": _ratio(sum(game.moves for game in counted), len(counted)),
        "seconds_a_move": {
            name: _ratio(seconds[i], turns[i]) for i, name in enumerate(("player", "opponent"))
        },
    }


def _num_different(counted: list[GameLine]) -> int | None:
    """The number of games that differ in a move or in who was Black; None if the file of a game
    is older than its digest."""
    if not all(game.digest for game in counted):
        return None
    return len({(game.black, game.digest) for game in counted})


def _both(games: list[GameLine]):
    return [[getattr(game, name) for game in games] for name in ("seconds", "turns")]


def _ratio(x: float, y: float) -> float:
    return round(x / y, 4) if y else 0.0


def _lost_by(end: str, counted: list[GameLine]) -> dict[str, int]:
    """The number of games that each side has lost in that way."""
    points = [game.points for game in counted if game.end == end]
    return {"player": points.count(0.0), "opponent": points.count(1.0)}


def _pairs(counted: list[GameLine]) -> list[list[float]]:
    """The points of the games that count in each pair, one or two."""
    pairs = defaultdict(list)
    for game in counted:
        pairs[game.game // 2].append(game.points or 0.0)
    return list(pairs.values())


def _row(games: list[GameLine], pairs: list[list[float]] | None = None) -> dict:
    """The statistics of games that count."""
    points, n = sum(game.points or 0.0 for game in games), len(games)
    num_by_points = Counter(game.points for game in games)
    low, high = 0.0, 1.0
    if n:
        low, high = statistics.wilson(points / n, n)
        if pairs:
            means = [sum(pair) / len(pair) for pair in pairs]
            low, high = statistics.pair_interval(means, games=[len(pair) for pair in pairs])
    numbers = {
        "games": n,
        "wins": num_by_points[1.0],
        "draws": num_by_points[0.5],
        "losses": num_by_points[0.0],
        "score": round(points / n, 6) if n else None,
        "interval": [round(low, 6), round(high, 6)],
    }
    if n:
        ratings = [statistics.elo(x) for x in (points / n, low, high)]
        finite = [round(x, 1) if math.isfinite(x) else None for x in ratings]
        numbers |= {"elo": finite[0], "elo_interval": finite[1:]}
    return numbers


def line(summary: dict) -> str:
    """The score so far: ``12.5/20 62.5% [39, 81]``."""
    if not summary["games"]:
        return "no game yet"
    points = summary["wins"] + summary["draws"] / 2
    low, high = (100 * x for x in summary["interval"])
    return f"{points:g}/{summary['games']} {100 * summary['score']:.1f}% [{low:.0f}, {high:.0f}]"


class LiveScore:
    """The score so far, as in `line`. Computing it takes longer the more games there are, so a new
    one is due only when that took at most a twentieth of the time."""

    def __init__(self, paired: bool):
        self._paired, self._text, self._due = paired, "", -math.inf

    def text(self, games: Iterable[GameLine], is_last: bool) -> str:
        """The score of the games, or that of an earlier call; after the last game, of all."""
        now = time.monotonic()
        if is_last or now >= self._due:
            self._text = line(summarise(games, self._paired))
            self._due = now + 20 * (time.monotonic() - now)
        return self._text


def table(
    summary: dict, names: tuple[str, str], colours: tuple[str, str] = ("Black", "White")
) -> str:
    """The results of a match as text; `colours` are the names of the first and second to move."""
    black, white = (f"as {colour}" for colour in colours)
    rows = [("all", summary), (black, summary["as_black"]), (white, summary["as_white"])]
    lines = [
        f"{names[0]} against {names[1]}",
        f"{'':10}{'games':>6}{'won':>6}{'drawn':>6}{'lost':>6}{'score':>9}{'95%':>16}",
    ]
    for name, row in rows:
        if not row["games"]:
            lines.append(f"{name:10}{0:>6}")
            continue
        low, high = (100 * x for x in row["interval"])
        numbers = f"{row['games']:>6}{row['wins']:>6}{row['draws']:>6}{row['losses']:>6}"
        lines.append(f"{name:10}{numbers}{100 * row['score']:>8.1f}%{low:>8.1f} to {high:>4.1f}")
    return "\n".join([*lines, *_remarks(summary)])


def _remarks(summary: dict) -> list[str]:
    forfeits, resigned = summary["forfeits"], summary["resigned"]
    seconds = summary["seconds_a_move"]
    late = summary["on_time"]
    on_time = f" ({late['player']} and {late['opponent']} on time)" if any(late.values()) else ""
    remarks = [
        f"forfeits: player {forfeits['player']}, opponent {forfeits['opponent']}{on_time}; "
        f"resigned: player {resigned['player']}, opponent {resigned['opponent']}; "
        f"void {summary['void']}, replayed {summary['replayed']}; "
        f"at the move limit {summary['move_limit']}",
        f"{summary['mean_moves']:.1f} moves a game; seconds a move: player "
        f"{seconds['player']:.3f}, opponent {seconds['opponent']:.3f}",
    ]
    if summary["different"] is not None and summary["different"] < summary["games"]:
        remarks.append(
            f"only {summary['different']} of the {summary['games']} games differ; intervals, "
            "which take all as independent, are too narrow"
        )
    if summary["games"]:
        low, high = (_signed(x, s) for x, s in zip(summary["elo_interval"], "-+", strict=True))
        middle = _signed(summary["elo"], "+" if summary["score"] > 0.5 else "-")
        remarks.insert(0, f"Elo {middle} [{low}, {high}]")
    return remarks


def _signed(value: float | None, sign: str) -> str:
    return f"{sign}inf" if value is None else f"{value:+.0f}"
