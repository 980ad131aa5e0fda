"""A board as an SVG picture, with a search's or a network's results on it, or as text.

In the picture, stones differ by lightness; visits and priors are drawn in one blue, darker for
larger numbers, with the number written on it: no information depends on hue.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gozero.go.coords import GTP_COLUMNS, row_col, star_points

BOARD, LINES, BLACK, WHITE, BLUE = "#ecd5a3", "#4d4033", "#111111", "#fbfbfb", "#0072b2"


class Svg(str):
    """SVG text that a notebook displays as a picture."""

    def _repr_svg_(self) -> str:
        return str(self)


def board_svg(
    stones: Any,
    *,
    visits: Any = None,
    values: Any = None,
    policy: Any = None,
    ownership: Any = None,
    numbers: Any = None,
    variation: Any = (),
    to_play: int = 0,
    crossed: Any = (),
    last_move: int | None = None,
    title: str | None = None,
    cell: int = 32,
) -> Svg:
    """Draw one board.

    There are A = size * size + 1 actions; the pass, the last one, is written below the board. In
    games without a pass there are A = size * size.

    Args:
      stones: int[size, size]; +1 Black, -1 White, 0 empty; row 0 at the top.
      visits: N, int[A]; how often the search took each action. Points without visits stay empty.
      values: Q, f32[A] in [-1, 1] for the player to move; written above the visits as a winning
        percentage. Requires visits.
      policy: f32[A], probabilities; drawn as a square with a percentage, for each of 1% or more.
      ownership: f32[size * size], or [size, size], in [-1, 1]; +1 Black's, -1 White's; drawn as a
        small square on each point.
      numbers: int[size, size]; written on the stones, such as the moves that placed them; 0 for
        none.
      variation: the actions that follow, by alternate players, up to the first -1 (NO_ACTION);
        drawn as numbered, half-transparent stones.
      to_play: who plays the first of them; 0 Black, 1 White.
      crossed: points to mark with a cross, such as mistakes; passes are left out.
      last_move: the action to mark; a pass is written below the board.
      title: a line of text above the board.
      cell: pixels from line to line.

    Raises:
      ValueError: an argument does not fit a board of 1 to 25; the message names it.
    """
    stones, size = _check_board(stones, last_move)
    without_pass = any(np.shape(x) == (size * size,) for x in (visits, policy))
    num_actions = size * size + (not without_pass)
    visits = _check_array("visits", visits, (num_actions,))
    values = _check_array("values", values, (num_actions,))
    policy = _check_array("policy", policy, (num_actions,))
    if np.shape(ownership) == (size, size):
        ownership = np.reshape(ownership, -1)
    ownership = _check_array("ownership", ownership, (size * size,))
    numbers = _check_array("numbers", numbers, (size, size))
    if values is not None and visits is None:
        raise ValueError("values: shown only with visits; pass visits, too")
    variation, crossed = [int(action) for action in variation], [int(action) for action in crossed]
    if -1 in variation:
        variation = variation[: variation.index(-1)]
    for name, actions in (("variation", variation), ("crossed", crossed)):
        for action in actions:
            if not 0 <= action < num_actions:
                raise ValueError(f"{name}: {action} is not an action from 0 to {num_actions - 1}")
    top = cell * (1.75 if title else 1)
    pass_lines = list(_pass_words(visits, policy, last_move, size))
    width, height = cell * (size + 1), top + cell * (size + (1 if pass_lines else 0.2))
    parts = [
        *_grid(size, cell),
        *_coordinates(size, cell),
        *(_policy(policy, size, cell) if policy is not None else ()),
        *_stones(stones, cell),
        *(_ownership(ownership, size, cell) if ownership is not None else ()),
        *(_visits(visits, values, size, cell) if visits is not None else ()),
        *(_numbers(numbers, stones, cell) if numbers is not None else ()),
        *_variation(variation, to_play, size, cell),
        *_crosses(crossed, size, cell),
        *(_mark(stones, last_move, cell) if last_move is not None else ()),
    ]
    if title:
        parts.append(text(width / 2, cell * 0.75 - top, title, cell * 0.5, weight="bold"))
    if pass_lines:
        parts.append(text(width / 2, cell * (size + 0.5), "; ".join(pass_lines), cell * 0.4))
    board = f'<g transform="translate(0 {top:g})">{"".join(parts)}</g>'
    return picture(width, height, title or f"{size}x{size} board", [board])


def picture(
    width: float, height: float, title: str, parts: Iterable[str], background: str = BOARD
) -> Svg:
    """A picture with these parts; width and height in pixels. Screen readers read the title."""
    return Svg(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" font-family="sans-serif">'
        f"<title>{html.escape(title)}</title>"
        f'<rect width="{width:g}" height="{height:g}" fill="{background}"/>'
        f"{''.join(parts)}</svg>"
    )


def ascii_board(stones: np.ndarray, last: int | None = None) -> str:
    """The board as in GTP's showboard: X Black, O White, + a star point, (X) the last move.

    Args:
      stones: i8[size, size]; +1 Black, -1 White, 0 empty; row 0 at the top.
      last: the action of the last move; None, or a pass, for no mark.

    Raises:
      ValueError: stones is not a square board of 1 to 25 points on a side.

    >>> print(ascii_board(np.array([[0, 1], [-1, 0]]), last=1))
       A B
     2 .(X)2
     1 O . 1
       A B
    """
    stones, size = _check_board(stones, None)
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


def number_board(numbers: Any) -> str:
    """A text board with a number on each point: visits, percentages or move numbers, say.

    Args:
      numbers: int[size, size]; row 0 at the top; 0 is drawn as a dot.

    >>> print(number_board([[0, 12], [3, 0]]))
         A  B
     2   . 12 2
     1   3  . 1
         A  B
    """
    numbers = np.asarray(numbers)
    size = len(numbers) if numbers.ndim else 0
    if numbers.shape != (size, size) or not 1 <= size <= len(GTP_COLUMNS):
        raise ValueError(f"numbers: shape {numbers.shape} is not a square board of 1 to 25")
    width = 1 + max(1, max(len(str(int(x))) for x in numbers.flat))
    words = lambda row: "".join(f"{int(x) or '.':>{width}}" for x in row)
    header = "   " + "".join(f"{letter:>{width}}" for letter in GTP_COLUMNS[:size])
    lines = [f"{size - i:2d} {words(row)} {size - i}" for i, row in enumerate(numbers)]
    return "\n".join([header, *lines, header])


def _row(stones: np.ndarray, number: int, stars: set[int]) -> str:
    marks = {1: "X", -1: "O"}
    points = [marks.get(int(x), "+" if col in stars else ".") for col, x in enumerate(stones)]
    return f"{number:2d} {' '.join(points)} {number}"


def _check_board(stones: Any, last_move: int | None) -> tuple[np.ndarray, int]:
    """(the stones as an array, the board size), after checking the stones and the last move."""
    stones = np.asarray(stones)
    size, limit = len(stones) if stones.ndim else 0, len(GTP_COLUMNS)
    if stones.shape != (size, size) or not 1 <= size <= limit:
        raise ValueError(f"stones: shape {stones.shape} is not a square board of 1 to {limit}")
    if not np.isin(stones, (-1, 0, 1)).all():
        raise ValueError("stones: expected +1 Black, -1 White and 0 empty only")
    if last_move is not None and not 0 <= last_move <= size * size:
        raise ValueError(f"last_move: {last_move} is not an action from 0 to {size * size}")
    return stones, size


def _check_array(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """The argument as an array, checked to be finite and of this shape; None stays None."""
    if values is None:
        return None
    if np.shape(values) != shape:
        raise ValueError(f"{name}: shape {np.shape(values)}, expected {shape}")
    if not np.isfinite(array := np.asarray(values)).all():
        raise ValueError(f"{name}: expected finite numbers")
    return array


def _grid(size: int, cell: int) -> Iterator[str]:
    """Lines and star points; point (row, col) is drawn at x = col + 1, y = row, in cells."""
    lines = []
    for i in range(size):
        lines.append(f"M{cell} {i * cell}h{(size - 1) * cell}")
        lines.append(f"M{(i + 1) * cell} 0v{(size - 1) * cell}")
    yield f'<path d="{"".join(lines)}" stroke="{LINES}" stroke-linecap="square" fill="none"/>'
    for row, col in star_points(size):
        yield circle(row, col, cell, 0.1, f'class="star" fill="{LINES}"')


def _coordinates(size: int, cell: int) -> Iterator[str]:
    """Letters below, without I; numbers on the left, from the bottom."""
    for i in range(size):
        yield text((i + 1) * cell, (size - 0.22) * cell, GTP_COLUMNS[i], cell * 0.36)
        yield text(cell * 0.3, i * cell, str(size - i), cell * 0.36)


def _stones(stones: np.ndarray, cell: int) -> Iterator[str]:
    for row, col in zip(*np.nonzero(stones), strict=True):
        name, fill = ("black", BLACK) if stones[row, col] > 0 else ("white", WHITE)
        yield circle(row, col, cell, 0.47, f'class="{name}" fill="{fill}" stroke="{BLACK}"')


def _visits(visits: np.ndarray, values: np.ndarray | None, size: int, cell: int) -> Iterator[str]:
    """A circle on each visited point, opaque at the most visited; with its value and visits."""
    for action in np.flatnonzero(visits[: size**2] > 0):
        row, col = divmod(int(action), size)
        share = visits[action] / visits[: size**2].max()
        attributes = f'class="visits" fill="{BLUE}" fill-opacity="{0.15 + 0.85 * share:.2f}"'
        yield circle(row, col, cell, 0.43, attributes)
        lines = [_short_count(int(visits[action]))]
        if values is not None:
            lines.insert(0, _percent((1 + values[action]) / 2))
        colour = WHITE if share > 0.4 else BLACK
        for i, line in enumerate(lines):
            y = (row + 0.28 * (i - (len(lines) - 1) / 2)) * cell
            height = (0.32 if len(lines) == 1 else 0.3 - 0.05 * i) * cell
            yield text((col + 1) * cell, y, line, height, fill=colour)


def _policy(policy: np.ndarray, size: int, cell: int) -> Iterator[str]:
    """A square on each point of 1% or more, opaque at the greatest; with the percentage."""
    for action in np.flatnonzero(policy[: size**2] >= 0.01):
        row, col = divmod(int(action), size)
        share = policy[action] / policy[: size**2].max()
        attributes = f'class="policy" fill="{BLUE}" fill-opacity="{0.15 + 0.85 * share:.2f}"'
        yield square(row, col, cell, 0.9, attributes)
        colour = WHITE if share > 0.4 else BLACK
        yield text((col + 1) * cell, row * cell, _percent(policy[action]), cell * 0.32, colour)


def _ownership(ownership: np.ndarray, size: int, cell: int) -> Iterator[str]:
    """A square on each point in its owner's colour, larger the more certain the ownership."""
    for point in np.flatnonzero(np.abs(ownership) >= 0.05):
        row, col = divmod(int(point), size)
        name, fill = ("blacks", BLACK) if ownership[point] > 0 else ("whites", WHITE)
        attributes = f'class="{name}" fill="{fill}" stroke="{LINES}" stroke-width="{cell * 0.03:g}"'
        yield square(row, col, cell, 0.4 * min(1.0, abs(float(ownership[point]))), attributes)


def _numbers(numbers: np.ndarray, stones: np.ndarray, cell: int) -> Iterator[str]:
    for row, col in zip(*np.nonzero(numbers), strict=True):
        colour = WHITE if stones[row, col] > 0 else BLACK
        yield text((col + 1) * cell, row * cell, str(numbers[row, col]), cell * 0.36, colour)


def _variation(variation: Sequence[int], to_play: int, size: int, cell: int) -> Iterator[str]:
    """The variation's stones, numbered from 1; of several on one point, the first is drawn."""
    seen_points = {size * size}  # a pass has no point
    for i, action in enumerate(variation):
        if action in seen_points:
            continue
        seen_points.add(action)
        row, col = divmod(int(action), size)
        fill, ink = (BLACK, WHITE) if (to_play + i) % 2 == 0 else (WHITE, BLACK)
        attributes = f'class="variation" fill="{fill}" fill-opacity="0.6" stroke="{BLACK}"'
        yield circle(row, col, cell, 0.44, attributes)
        yield text((col + 1) * cell, row * cell, str(i + 1), cell * 0.36, ink)


def _crosses(actions: Sequence[int], size: int, cell: int) -> Iterator[str]:
    for action in actions:
        row, col = divmod(int(action), size)
        if row == size:
            continue
        x, y, half = (col + 1) * cell, row * cell, 0.25 * cell
        arms = f"M{x - half:g} {y - half:g}l{2 * half:g} {2 * half:g}m0 {-2 * half:g}"
        attributes = f'stroke="{BLACK}" stroke-width="{0.12 * cell:g}"'
        yield f'<path class="cross" d="{arms}l{-2 * half:g} {2 * half:g}" {attributes}/>'


def _mark(stones: np.ndarray, last_move: int, cell: int) -> Iterator[str]:
    """A ring on the last move's stone."""
    row, col = divmod(last_move, len(stones))
    if row < len(stones):
        ring = WHITE if stones[row, col] > 0 else BLACK
        attributes = f'class="last" fill="none" stroke="{ring}" stroke-width="{cell * 0.07:g}"'
        yield circle(row, col, cell, 0.25, attributes)


def _pass_words(
    visits: np.ndarray | None, policy: np.ndarray | None, last_move: int | None, size: int
) -> Iterator[str]:
    if last_move == size * size:
        yield "last move: pass"
    if visits is not None and len(visits) > size * size:
        yield f"pass: {int(visits[-1])} of {int(np.sum(visits))} visits"
    if policy is not None and len(policy) > size * size:
        yield f"pass: {_percent(policy[-1])}"


def _percent(share: float) -> str:
    return f"{100 * float(share):.0f}%"


def _short_count(count: int) -> str:
    """A count in at most four characters: 987, 1.2k, 34k, 2.1M."""
    for unit, letter in ((10**6, "M"), (10**3, "k")):
        if count >= 10 * unit:
            return f"{count // unit}{letter}"
        if count >= unit:
            return f"{count * 10 // unit / 10}{letter}"
    return str(count)


def circle(row: int, col: int, cell: int, radius: float, attributes: str) -> str:
    """A circle on a point; the radius is in cells."""
    return f'<circle cx="{(col + 1) * cell}" cy="{row * cell}" r="{radius * cell:g}" {attributes}/>'


def square(row: int, col: int, cell: int, side: float, attributes: str) -> str:
    """A square around a point; the side is in cells."""
    x, y, width = (col + 1 - side / 2) * cell, (row - side / 2) * cell, side * cell
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{width:g}" {attributes}/>'


def text(
    x: float, y: float, words: str, height: float, fill: str = BLACK, weight: str = "normal"
) -> str:
    """A line of text centred at (x, y)."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{height:g}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="middle" dominant-baseline="central">{html.escape(words)}</text>'
    )
