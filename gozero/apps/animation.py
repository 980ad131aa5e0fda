"""Games in lockstep as one animated SVG picture, which browsers play without a script."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gozero.apps.pictures import BLACK, LINES, WHITE, Svg, picture, text


def games_svg(
    boards: Any,
    *,
    labels: Sequence[str] = (),
    columns: int = 4,
    cell: int = 12,
    seconds_per_move: float = 0.3,
    pause: float = 3.0,
    title: str = "Games in lockstep",
) -> Svg:
    """Draw games side by side; all advance one move at a time, in an endless loop.

    Args:
      boards: int[T, G, size, size]; game g after t moves: +1 Black, -1 White, 0 empty.
      labels: the texts below the games; none, or G.
      columns: games per row.
      cell: pixels from line to line.
      seconds_per_move: how long each position is shown.
      pause: additional seconds for the last position.

    Raises:
      ValueError: boards, labels, columns or times are invalid.
    """
    boards = np.asarray(boards)
    if boards.ndim != 4 or boards.shape[2] != boards.shape[3] or not boards.size:
        raise ValueError(f"boards: shape {boards.shape}, expected [T, G, size, size]")
    num_games, size = boards.shape[1:3]
    if labels and len(labels) != num_games:
        raise ValueError(f"labels: {len(labels)} labels for {num_games} games")
    if columns < 1 or not seconds_per_move > 0 or not pause >= 0:
        raise ValueError(
            "expected columns of at least 1, seconds_per_move above 0 and pause of at least 0"
        )
    columns = min(columns, num_games)
    width, height = cell * (size + 1), cell * (size + (2.2 if labels else 1))
    parts = [_symbols(size, cell)]
    for game in range(num_games):
        row, col = divmod(game, columns)
        label = labels[game] if labels else ""
        stones = _stones(boards[:, game], cell, seconds_per_move, pause)
        words = text(width / 2, cell * (size + 0.9), label, cell * 0.95) if label else ""
        parts.append(
            f'<g transform="translate({col * width:g} {row * height + cell:g})">'
            f'<use href="#grid"/>{"".join(stones)}{words}</g>'
        )
    rows = -(-num_games // columns)
    return picture(columns * width, rows * height + cell * 0.3, title, parts)


def _symbols(size: int, cell: int) -> str:
    """The definitions that all boards share: the grid, and a stone of each colour."""
    rows = "".join(f"M{cell} {i * cell}h{(size - 1) * cell}" for i in range(size))
    columns = "".join(f"M{(i + 1) * cell} 0v{(size - 1) * cell}" for i in range(size))
    stone = lambda name, fill: (
        f'<circle id="{name}" r="{0.46 * cell:g}" fill="{fill}" stroke="{BLACK}" '
        f'stroke-width="0.5"/>'
    )
    return (
        f'<defs><path id="grid" d="{rows}{columns}" stroke="{LINES}" stroke-width="0.7" '
        f'stroke-linecap="square" fill="none"/>{stone("b", BLACK)}{stone("w", WHITE)}</defs>'
    )


def _stones(boards: np.ndarray, cell: int, seconds: float, pause: float) -> Iterator[str]:
    """Each stone of a game, visible from the move that placed it to the move that captured it.

    Viewers that do not animate show the last board.
    """
    moves = len(boards)
    total = moves * seconds + pause
    for row, col in np.ndindex(boards.shape[1:]):
        for colour, placed, removed in _lifetimes(boards[:, row, col]):
            changes = [(0, 0), (placed, 1), (removed, 0)][placed == 0 :]
            changes = [change for change in changes if change[0] < moves]
            times = ";".join(f"{move * seconds / total:.4g}" for move, _ in changes)
            opacities = ";".join(str(opacity) for _, opacity in changes)
            hidden = ' opacity="0"' if removed < moves else ""
            yield (
                f'<use href="#{"b" if colour > 0 else "w"}" x="{(col + 1) * cell}" '
                f'y="{row * cell}"{hidden}><animate attributeName="opacity" values="{opacities}" '
                f'keyTimes="{times}" calcMode="discrete" dur="{total:g}s" '
                f'repeatCount="indefinite"/></use>'
            )


def _lifetimes(point: np.ndarray) -> list[tuple[int, int, int]]:
    """(colour, first move, last move + 1) of each stone that stood on a point, given as [T]."""
    edges = [0, *(np.flatnonzero(np.diff(point)) + 1).tolist(), len(point)]
    return [
        (int(point[start]), start, end) for start, end in itertools.pairwise(edges) if point[start]
    ]
