"""A board as an SVG picture, with where a search looked, or as text.

In the picture stones differ by lightness; the visits are one blue, darker the more they are, with
their number in it: nothing depends on telling hues apart.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

import numpy as np

from gozero.go.coords import GTP_COLUMNS, row_col, star_points

BOARD, LINES, BLACK, WHITE, BLUE = "#ecd5a3", "#4d4033", "#111111", "#fbfbfb", "#0072b2"


class SvgBoard(str):
    """SVG text that a notebook shows as the picture."""

    def _repr_svg_(self) -> str:
        return str(self)


def board_svg(
    stones: np.ndarray,
    *,
    visits: np.ndarray | None = None,
    last_move: int | None = None,
    title: str | None = None,
    cell: int = 32,
) -> SvgBoard:
    """Draw one board.

    Args:
      stones: int[size, size]; +1 Black, -1 White, 0 empty; row 0 at the top.
      visits: N, int[size * size + 1]; how often the search took each action, the pass last,
        which is written below the board. Actions without visits are left empty.
      last_move: the action to mark; a pass is written below the board.
      title: a line of text above the board.
      cell: pixels from line to line.

    Raises:
      ValueError: stones, visits or the last move that fit no board of 1 to 25.
    """
    stones, size = _checked(stones, visits, last_move)
    top = cell * (1.75 if title else 1)
    passed = list(_pass_words(visits, last_move, size))
    width, height = cell * (size + 1), top + cell * (size + (1 if passed else 0.2))
    parts = [
        *_grid(size, cell),
        *_coordinates(size, cell),
        *_stones(stones, cell),
        *(_visits(visits, stones, cell) if visits is not None else ()),
        *(_mark(stones, last_move, cell) if last_move is not None else ()),
    ]
    if title:
        parts.append(_text(width / 2, cell * 0.75 - top, title, cell * 0.5, weight="bold"))
    if passed:
        parts.append(_text(width / 2, cell * (size + 0.5), "; ".join(passed), cell * 0.4))
    return SvgBoard(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" font-family="sans-serif">'
        f"<title>{html.escape(title or f'{size}x{size} board')}</title>"
        f'<rect width="{width:g}" height="{height:g}" fill="{BOARD}"/>'
        f'<g transform="translate(0 {top:g})">{"".join(parts)}</g></svg>'
    )


def ascii_board(stones: np.ndarray, last: int | None = None) -> str:
    """The board as GTP's showboard draws it: X Black, O White, + a star point, (X) the last move.

    Args:
      stones: i8[size, size]; +1 Black, -1 White, 0 empty; row 0 at the top.
      last: the action of the last move; None, or a pass, for no mark.

    Raises:
      ValueError: stones that are not a square board of 1 to 25 points on a side.

    >>> print(ascii_board(np.array([[0, 1], [-1, 0]]), last=1))
       A B
     2 .(X)2
     1 O . 1
       A B
    """
    stones, size = _checked(stones, None, None)
    header = "   " + " ".join(GTP_COLUMNS[:size])
    stars = star_points(size)
    lines = [
        _row(stones[row], size - row, {col for r, col in stars if r == row}) for row in range(size)
    ]
    if last is not None and 0 <= last < size * size:
        row, col = row_col(size, last)
        at = 3 + 2 * col
        line = lines[row]
        lines[row] = f"{line[: at - 1]}({line[at]}){line[at + 2 :]}"
    return "\n".join([header, *lines, header])


def _row(stones: np.ndarray, number: int, stars: set[int]) -> str:
    marks = {1: "X", -1: "O"}
    points = [marks.get(int(x), "+" if col in stars else ".") for col, x in enumerate(stones)]
    return f"{number:2d} {' '.join(points)} {number}"


def _checked(
    stones: np.ndarray, visits: np.ndarray | None, last_move: int | None
) -> tuple[np.ndarray, int]:
    """(the stones as an array, the size of the board), if all of them fit it."""
    stones = np.asarray(stones)
    size, most = len(stones) if stones.ndim else 0, len(GTP_COLUMNS)
    if stones.shape != (size, size) or not 1 <= size <= most:
        raise ValueError(f"stones: shape {stones.shape} is not a square board of 1 to {most}")
    if not np.isin(stones, (-1, 0, 1)).all():
        raise ValueError("stones: expected +1 Black, -1 White and 0 empty only")
    if visits is not None and np.shape(visits) != (size * size + 1,):
        raise ValueError(f"visits: shape {np.shape(visits)}, expected {(size * size + 1,)}")
    if last_move is not None and not 0 <= last_move <= size * size:
        raise ValueError(f"last_move: {last_move} is not an action from 0 to {size * size}")
    return stones, size


def _grid(size: int, cell: int) -> Iterator[str]:
    """Lines and star points; point (row, col) lies at (col + 1, row) cells."""
    lines = []
    for i in range(size):
        lines.append(f"M{cell} {i * cell}h{(size - 1) * cell}")
        lines.append(f"M{(i + 1) * cell} 0v{(size - 1) * cell}")
    yield f'<path d="{"".join(lines)}" stroke="{LINES}" stroke-linecap="square" fill="none"/>'
    for row, col in star_points(size):
        yield _circle(row, col, cell, 0.1, f'class="star" fill="{LINES}"')


def _coordinates(size: int, cell: int) -> Iterator[str]:
    """Letters below, without I; numbers on the left, from the bottom."""
    for i in range(size):
        yield _text((i + 1) * cell, (size - 0.22) * cell, GTP_COLUMNS[i], cell * 0.36)
        yield _text(cell * 0.3, i * cell, str(size - i), cell * 0.36)


def _stones(stones: np.ndarray, cell: int) -> Iterator[str]:
    for row, col in zip(*np.nonzero(stones), strict=True):
        name, fill = ("black", BLACK) if stones[row, col] > 0 else ("white", WHITE)
        yield _circle(row, col, cell, 0.47, f'class="{name}" fill="{fill}" stroke="{BLACK}"')


def _visits(visits: np.ndarray, stones: np.ndarray, cell: int) -> Iterator[str]:
    """A circle for each visited point, opaque at the most visited, and its count."""
    size = len(stones)
    counts = np.asarray(visits)[:-1].reshape(size, size)
    for row, col in zip(*np.nonzero(counts > 0), strict=True):
        share = counts[row, col] / counts.max()
        look = f'class="visits" fill="{BLUE}" fill-opacity="{0.15 + 0.85 * share:.2f}"'
        yield _circle(row, col, cell, 0.43, look)
        colour = WHITE if share > 0.4 else BLACK
        text = _short(int(counts[row, col]))
        yield _text((col + 1) * cell, row * cell, text, cell * 0.32, fill=colour)


def _mark(stones: np.ndarray, last_move: int, cell: int) -> Iterator[str]:
    """A ring on the last move's stone."""
    row, col = divmod(last_move, len(stones))
    if row < len(stones):
        ring = WHITE if stones[row, col] > 0 else BLACK
        look = f'class="last" fill="none" stroke="{ring}" stroke-width="{cell * 0.07:g}"'
        yield _circle(row, col, cell, 0.25, look)


def _pass_words(visits: np.ndarray | None, last_move: int | None, size: int) -> Iterator[str]:
    if last_move == size * size:
        yield "last move: pass"
    if visits is not None:
        yield f"pass: {int(visits[-1])} of {int(np.sum(visits))} visits"


def _short(count: int) -> str:
    """A count in at most four characters: 987, 1.2k, 34k, 2.1M."""
    for unit, letter in ((10**6, "M"), (10**3, "k")):
        if count >= 10 * unit:
            return f"{count // unit}{letter}"
        if count >= unit:
            return f"{count * 10 // unit / 10}{letter}"
    return str(count)


def _circle(row: int, col: int, cell: int, radius: float, look: str) -> str:
    return f'<circle cx="{(col + 1) * cell}" cy="{row * cell}" r="{radius * cell:g}" {look}/>'


def _text(
    x: float, y: float, words: str, height: float, fill: str = BLACK, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{height:g}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="middle" dominant-baseline="central">{html.escape(words)}</text>'
    )
