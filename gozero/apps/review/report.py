"""Reports of reviewed games: a summary, a table, a page with pictures, SGF with variations."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Sequence

import numpy as np

from gozero.apps import sgf
from gozero.apps.pictures import BLACK, BLUE, LINES, WHITE, Svg, board_svg, picture, text
from gozero.apps.review.analyse import ReviewedGame, ReviewedPosition
from gozero.go import coords

COLOURS = ("Black", "White")
COLUMNS = (
    *("game", "moves", "to_play", "black_win", "black_lead"),
    *("played", "lost", "best", "variation"),
)
_OWNED = 0.5
"""The least ownership of a point that is marked as territory."""


def summary(games: Sequence[ReviewedGame], mistakes: int) -> str:
    """The leader at the end of each game, and its greatest mistakes, as plain text."""
    lines = []
    for game in games:
        last = game.positions[-1]
        lines += [f"{_title(game)}: {_standing(last)} after {len(game.positions) - 1} moves"]
        lines += [f"  {_mistake(game, i)}" for i in game.mistakes(mistakes)]
    return "\n".join(lines)


def table(games: Sequence[ReviewedGame]) -> str:
    """Every position as CSV."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(COLUMNS)
    for game in games:
        name = lambda action, size=game.record.size: coords.to_gtp(size, action)
        for number, position in enumerate(game.positions):
            played = "" if position.played is None else name(position.played)
            line = [name(action) for action in position.variation]
            numbers = f"{position.win:.4f}", f"{position.lead:.2f}", played, f"{position.lost:.4f}"
            best = line[0] if line else ""
            write([game.name, number, "BW"[position.to_play], *numbers, best, " ".join(line)])
    return out.getvalue()


def annotated(games: Sequence[ReviewedGame], mistakes: int) -> str:
    """The games as SGF, one after the other, with Black's winning percentage (SBKV) and a comment
    at each move, better variations at the greatest mistakes, and territory at the end."""
    return "".join(_annotated(game, game.mistakes(mistakes)) for game in games)


def _annotated(game: ReviewedGame, mistakes: Sequence[int]) -> str:
    size = game.record.size
    tree = sgf.tree_of(game.record)
    moves = [node for node in tree.main_sequence_iter() if node.get_move()[0]]
    nodes = [tree.get_root(), *moves]
    for number, (node, position) in enumerate(zip(nodes, game.positions, strict=True)):
        node.set_raw("SBKV", f"{100 * position.win:.1f}".encode())
        comments = [node.get("C")] if node.has_property("C") else []
        if number and game.positions[number - 1].lost >= 0.01:
            comments.append(_mistake(game, number - 1))
        node.set("C", "\n".join([*comments, _standing(position)]))
    for i in mistakes:
        node, colour = nodes[i], game.positions[i].to_play
        for action in game.positions[i].variation:
            node = node.new_child()
            node.set_raw("BW"[colour], coords.to_sgf(size, action).encode())
            colour = 1 - colour
    for name, sign in (("TB", 1), ("TW", -1)):
        owned_points = np.flatnonzero(sign * game.positions[-1].ownership >= _OWNED)
        empty = [p for p in owned_points if game.positions[-1].stones.flat[p] != sign]
        if empty:
            points = [coords.to_sgf(size, int(point)).encode() for point in empty]
            nodes[-1].set_raw_list(name, points)
    return tree.serialise().decode("utf-8") + "\n"


def page(games: Sequence[ReviewedGame], mistakes: int) -> str:
    """A self-contained HTML page."""
    body = "".join(_section(game, game.mistakes(mistakes)) for game in games)
    return (
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Review</title><style>'
        "body{font-family:sans-serif;margin:1em auto;max-width:62em;padding:0 1em}"
        "figure{display:inline-block;margin:.5em;vertical-align:top;max-width:22em}"
        "figcaption{padding:.3em 0}svg{max-width:100%;height:auto}</style>"
        f"<body>{body}</body></html>\n"
    )


def _section(game: ReviewedGame, mistakes: Sequence[int]) -> str:
    positions = game.positions
    wins = curve(
        [100 * position.win for position in positions], 0, 100, "Black wins, %", marks=mistakes
    )
    largest_lead = 10 * -(-max(1.0, *(abs(position.lead) for position in positions)) // 10)
    leads = curve(
        [position.lead for position in positions],
        -largest_lead,
        largest_lead,
        "Black's lead, points",
    )
    boards = "".join(_figure(_mistake_board(game, i), _mistake(game, i)) for i in mistakes)
    end = board_svg(positions[-1].stones, ownership=positions[-1].ownership)
    return (
        f"<h2>{html.escape(_title(game))}</h2><p>{_standing(positions[-1])} "
        f"after {len(positions) - 1} moves.</p>"
        f"{wins}{leads}{boards}{_figure(end, 'The owner of each point at the end')}"
    )


def _mistake_board(game: ReviewedGame, number: int) -> Svg:
    """The position before a mistake, which a cross marks; the better variation is numbered."""
    position = game.positions[number]
    before = game.positions[number - 1].played if number else None
    title = f"Move {number + 1}: {_name(game, position.played)}"
    return board_svg(
        position.stones,
        variation=position.variation,
        to_play=position.to_play,
        crossed=() if position.played is None else (position.played,),
        last_move=before,
        title=title,
    )


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


def curve(
    values: Sequence[float], least: float, most: float, title: str, marks: Sequence[int] = ()
) -> Svg:
    """A line chart of the values after each move; `marks` are moves (from 0) to mark by a dot."""
    width, height, left, top = 640, 170, 46, 26
    step_width = (width - left - 12) / max(1, len(values) - 1)
    x = lambda number: left + step_width * number
    y = lambda value: top + (height - top - 24) * (most - value) / (most - least)
    parts = [text(width / 2, 13, title, 13, weight="bold")]
    for level in (least, (least + most) / 2, most):
        parts.append(f'<path d="M{left} {y(level):g}H{width - 12}" stroke="{LINES}" opacity=".4"/>')
        parts.append(text(left / 2, y(level), f"{level:g}", 12))
    points = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(values))
    parts.append(f'<polyline points="{points}" fill="none" stroke="{BLUE}" stroke-width="2"/>')
    step = max(1, -(-len(values) // 10))
    parts += [text(x(i), height - 10, str(i), 11) for i in range(0, len(values), step)]
    for i in marks:
        centre = f'cx="{x(i + 1):.1f}" cy="{y(values[i + 1]):.1f}"'
        parts.append(f'<circle {centre} r="4" fill="{BLACK}"/>')
    return picture(width, height, title, parts, background=WHITE)


def _title(game: ReviewedGame) -> str:
    record = game.record
    players = f"{record.black or 'Black'} - {record.white or 'White'}"
    board = f"{record.size}x{record.size}, komi {record.komi:g}"
    return f"{game.name}: {players}, {board}, {record.result}"


def _standing(position: ReviewedPosition) -> str:
    leader = "B" if position.lead >= 0 else "W"
    return f"Black wins {100 * position.win:.1f}%, lead {leader}+{abs(position.lead):.1f}"


def _name(game: ReviewedGame, action: int | None) -> str:
    return "" if action is None else coords.to_gtp(game.record.size, action)


def _mistake(game: ReviewedGame, number: int) -> str:
    position = game.positions[number]
    better = " ".join(_name(game, action) for action in position.variation)
    return (
        f"move {number + 1}, {COLOURS[position.to_play]} {_name(game, position.played)}: "
        f"lost {100 * position.lost:.1f}% of wins; better: {better}"
    )


WRITERS: dict[str, Callable[[Sequence[ReviewedGame], int], str]] = {
    ".html": page,
    ".sgf": annotated,
    ".csv": lambda games, mistakes: table(games),
}
"""The writer of each file suffix."""
