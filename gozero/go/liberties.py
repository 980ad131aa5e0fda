"""Chains with exactly one, two and three liberties, all at once and without chain labels.

For any labelling of the points, flooding finds *which* labels occur among a chain's liberties, but
never how many liberties there are. Two floods with the right labels give the count:

  1. The first finds which rows and which columns hold a liberty of the chain: one plane a line.
  2. A chain with at most three liberties has them in at most three rows and three columns: the
     first, the last and one between. Each of the nine cells of that grid is then a single point,
     so the number of cells with a liberty, found by the second flood, is the number of liberties.

A chain with liberties in four rows or four columns has at least four. The count is exact for any
position: nothing is carried from move to move.

Most chains have many liberties, and the long ones, which take longest to flood, have the most. So
first the points are given seven colours, and a chain that sees four of them within a few steps of
any of its stones is known to have at least four liberties and is left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.compile import batching
from gozero.go import bitboard as bb
from gozero.go import floods, stacked

_COLOURS = 7
_NEAR = 2  # sweeps within which a chain must show four colours; any number gives the same counts


class LibertyCounts(NamedTuple):
    """Stones of either colour, by the number of liberties of their chain."""

    one: bb.Board
    two: bb.Board
    three: bb.Board


def liberty_counts(lay: bb.Layout, black: bb.Board, white: bb.Board) -> LibertyCounts:
    """The stones whose chain has exactly one, two or three liberties. For one game."""
    return LibertyCounts(*_liberty_counts(lay)(black, white))


@functools.cache
def _liberty_counts(lay: bb.Layout) -> Callable:
    def count(black, white):
        black, white = stacked.stack(black), stacked.stack(white)
        return tuple(stacked.unstack(x) for x in counts_stage(lay, black, white))

    return batching.over_games(count, in_cache=True)


def counts_stage(lay: bb.Layout, black: jax.Array, white: jax.Array) -> tuple[jax.Array, ...]:
    """`liberty_counts` on arrays with games last: two of u32[W, B] -> three of u32[W, B]."""
    stones = black | white
    vacant = stacked.full(lay) & ~stones
    joined = zip(stacked.joints(lay, black), stacked.joints(lay, white), strict=True)
    east, south = ((a | b)[None] for a, b in joined)

    sides = [side & stones for side in stacked.on_sides(lay, vacant)]
    many = _surely_many(lay, sides, east, south)
    stones, east, south = stones & ~many, east & ~many[None], south & ~many[None]
    lines = np.concatenate([stacked.row_masks(lay), stacked.column_masks(lay)])
    sides = [side & stones for side in sides]
    reached = floods.grow_stacked(lay, stacked.in_masks(lay, sides, lines), east, south)
    rows, columns = reached[: lay.size], reached[lay.size :]

    seeds = _cell_seeds(lay, sides, rows, columns)
    cells = floods.grow_stacked(lay, seeds, east, south)
    many = many | stacked.in_at_least(4, rows) | stacked.in_at_least(4, columns)
    one, two, three, four = stacked.at_least(cells, 4)
    return one & ~two & ~many, two & ~three & ~many, three & ~four & ~many


def _surely_many(lay: bb.Layout, sides, east, south) -> jax.Array:
    """u32[W, B]: chains with a stone that sees liberties of four colours within `_NEAR` sweeps."""
    seeds = stacked.in_masks(lay, sides, _colour_masks(lay))
    near = floods.grow_some(lay, seeds, east, south, _NEAR)
    return floods.grow_stacked(lay, stacked.in_at_least(4, near)[None], east, south)[0]


@functools.cache
def _colour_masks(lay: bb.Layout) -> np.ndarray:
    """u32[7, W, 1]: a colouring in which points fewer than three steps apart differ."""
    return stacked.line_masks(lay, lambda row, col: (3 * row + col) % _COLOURS, _COLOURS)


def _cell_seeds(lay: bb.Layout, sides, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """u32[9, W, B]: for each cell of the chains' 3x3 grids, the stones with a liberty in it.

    Args:
      lay: the layout.
      sides: four of u32[W, B]: stones with a liberty on their west, east, north, south.
      rows, columns: u32[size, W, B]: stones whose chain has a liberty in that line.
    """
    row_masks, column_masks = stacked.row_masks(lay), stacked.column_masks(lay)
    row_of = {step: _first_middle_last(rows, row_masks, step) for step in (-1, 0, 1)}
    column_of = {step: _first_middle_last(columns, column_masks, step) for step in (-1, 0, 1)}
    steps = ((0, -1), (0, 1), (-1, 0), (1, 0))
    cells = []
    for i in range(3):
        for j in range(3):
            by_side = [
                side & row_of[down][i] & column_of[right][j]
                for side, (down, right) in zip(sides, steps, strict=True)
            ]
            cells.append(functools.reduce(lambda x, y: x | y, by_side))
    return jnp.stack(cells)


def _first_middle_last(seen: jax.Array, masks: np.ndarray, step: int) -> tuple[jax.Array, ...]:
    """Stones for which the line `step` after theirs is their chain's first, a middle one or last.

    First, middle or last among the lines that hold a liberty of the chain (`seen`). Three of
    u32[W, B]; each stone is in exactly one.
    """
    size = len(masks)
    lines = range(size)
    none = np.zeros_like(masks[0])

    def own_lines(is_included):
        """The points whose line, moved by the step, is wanted."""
        return functools.reduce(
            np.bitwise_or, [masks[k] for k in lines if is_included(k + step)], none
        )

    # Points whose moved line comes after line k, and before it: constant masks.
    after = np.stack([own_lines(lambda line, k=k: line > k) for k in lines])
    before = np.stack([own_lines(lambda line, k=k: line < k) for k in lines])
    or_lines = lambda x: jax.lax.reduce(x, np.uint32(0), jax.lax.bitwise_or, (0,))
    has_earlier, has_later = or_lines(seen & after), or_lines(seen & before)
    return ~has_earlier, has_earlier & has_later, has_earlier & ~has_later
