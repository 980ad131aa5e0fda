"""MoGo's 3x3 patterns: which empty points around the last move make a good shape.

Gelly, Wang, Munos & Teytaud (2006), "Modification of UCT with patterns in Monte-Carlo Go",
INRIA report 6062, section 3.2: hane, cuts, and their patterns for the edge. A pattern describes the
surroundings of an empty point where a play makes that shape. All its rotations and reflections
count, and, if either player may play it, those with the colours swapped.

The patterns are given here as diagrams. When a program is traced, all their variants become one
formula, a tree of ANDs and ORs, on the 5 x 5 points around the last move, packed in one word: so
the eight points around that move are matched at once, without a lookup. Such a **window** is u32[],
bit 5 row + column; the move is its centre, bit 12, and points off the board are not set.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.playouts import playable

WINDOW = 5  # points on a side of the window around the last move
_BESIDE = np.uint32(0b00000_01110_01010_01110_00000)  # the eight points around the centre

_REACH = WINDOW // 2
_ROW_BITS = np.uint32((1 << WINDOW) - 1)
_ALL_BITS = np.uint32((1 << WINDOW * WINDOW) - 1)
_FIRST_COLUMN = np.uint32(sum(1 << WINDOW * row for row in range(WINDOW)))


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A shape around an empty point, `+`, in three rows.

    X and O are the two colours; `x` is anything but X and `o` anything but O, including off the
    board; `.` is empty, `#` off the board, `?` anything.
    """

    kind: str
    rows: str
    either: bool = True  # whether either player may play there; False: only the player of X


PATTERNS = (
    Pattern("hane that encloses", "XOX .+. ???"),
    Pattern("hane that does not cut", "XO. .+. ?.?"),
    Pattern("magari", "XO? X+. x.?"),
    Pattern("thin hane", "XOO .+. ?.?", either=False),
    Pattern("cut", "XO? O+o ?o?"),
    Pattern("cut of a peeped connection", "XO? O+X ???"),
    Pattern("cut through", "?X? O+O ooo"),
    Pattern("chase along the edge", "X.? O+? ##?"),
    Pattern("block against a cut at the edge", "OX? X+O ###"),
    Pattern("block against a connection at the edge", "?X? x+O ###"),
    Pattern("sagari", "?XO x+x ###", either=False),
    Pattern("cut at the edge", "?OX X+O ###", either=False),
)

Literal = tuple[int, str]
"""(place, contents) of one of the eight places around a point. A place is an offset in a
window: `WINDOW` for a row down, 1 for a column to the right."""

_SWAPPED = str.maketrans("XOxo", "OXox")
_NARROWER = {"x": "O.#", "o": "X.#"}  # the contents that imply "not X", "not O"


# --- variants -------------------------------------------------------------------------


@functools.cache
def variants() -> tuple[frozenset[Literal], ...]:
    """All variants of the patterns for the player to move, whose stones are X.

    Each is the set of its conditions, without `?`. Variants that a wider one covers are omitted.
    """
    all_variants = {
        _literals(grid)
        for pattern in PATTERNS
        for rows in _colours(pattern)
        for grid in _symmetries(rows.split())
    }
    ordered = sorted(all_variants, key=lambda variant: (len(variant), sorted(variant)))
    widest: list[frozenset[Literal]] = []
    for variant in ordered:
        if not any(_covers(other, variant) for other in widest):
            widest.append(variant)
    return tuple(widest)


def _colours(pattern: Pattern) -> tuple[str, ...]:
    swapped = pattern.rows.translate(_SWAPPED)
    return (pattern.rows, swapped) if pattern.either else (pattern.rows,)


def _symmetries(rows: list[str]) -> Iterable[list[str]]:
    for _ in range(4):
        rows = ["".join(column) for column in zip(*rows[::-1], strict=True)]  # a quarter turn
        yield rows
        yield rows[::-1]


def _literals(grid: list[str]) -> frozenset[Literal]:
    return frozenset(
        ((row - 1) * WINDOW + column - 1, contents)
        for row, cells in enumerate(grid)
        for column, contents in enumerate(cells)
        if contents not in "?+"
    )


def _covers(wider: frozenset[Literal], variant: frozenset[Literal]) -> bool:
    """Whether `wider` matches wherever `variant` does."""
    cells = dict(variant)
    return all(
        cells.get(place) == contents or cells.get(place, "?") in _NARROWER.get(contents, "")
        for place, contents in wider
    )


# --- matching -------------------------------------------------------------------------


def match(own: jax.Array, opponent: jax.Array, vacant: jax.Array) -> jax.Array:
    """u32[]: the points around the last move where a pattern matches.

    Args:
      own, opponent, vacant: u32[]; windows around the last move, bit 5 row + column, of the stones
        of the player to move, those of the opponent, and the empty points of the board.

    Returns:
      A window. Whether a point is legal or an eye is not checked.
    """
    plane_of = _planes(own, opponent, vacant)
    return _any_of(variants(), plane_of) & vacant & _BESIDE


def _planes(own, opponent, vacant) -> Callable[[Literal], jax.Array]:
    """Returns literal -> u32[]: where it holds in the window (valid for the inner nine points)."""
    planes = {
        "X": own,
        "O": opponent,
        ".": vacant,
        "x": ~own,
        "o": ~opponent,
        "#": ~(own | opponent | vacant),
    }

    @functools.cache
    def plane_of(literal: Literal) -> jax.Array:
        place, contents = literal
        shift = np.uint32(abs(place))
        return planes[contents] >> shift if place > 0 else planes[contents] << shift

    return plane_of


def _any_of(
    choices: Iterable[frozenset[Literal]], plane_of: Callable[[Literal], jax.Array]
) -> jax.Array:
    """u32[]: the OR of the choices, each the AND of its literals.

    The literal that most choices share is factored out first, so that it is tested only once.
    """

    @functools.cache
    def either(choices: frozenset[frozenset[Literal]]) -> jax.Array | None:
        """None means everywhere."""
        if frozenset() in choices:
            return None
        counts = collections.Counter(literal for choice in choices for literal in choice)
        shared = min(counts, key=lambda literal: (-counts[literal], literal))
        rest = either(frozenset(c - {shared} for c in choices if shared in c))
        matches = plane_of(shared) if rest is None else plane_of(shared) & rest
        others = frozenset(c for c in choices if shared not in c)
        if not others:
            return matches
        other = either(others)
        return other if other is None else matches | other

    matches = either(frozenset(choices))
    assert matches is not None
    return jnp.asarray(matches)


# --- windows ---------------------------------------------------------------------------


def _place(lay: bb.Layout, move: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(word, row in the word, column) of a move, each u32[]."""
    bit = move & np.uint32(31)
    row = jnp.zeros_like(move)
    for r in range(1, lay.rows_per_word):
        row = row + jnp.where(bit >= np.uint32(r * lay.stride), np.uint32(1), np.uint32(0))
    return playable.word_of(move), row, bit - row * np.uint32(lay.stride)


def window(lay: bb.Layout, board: bb.Board, move: jax.Array) -> jax.Array:
    """u32[]: the points of `board` around a move, as a window."""
    out = jnp.zeros_like(move)
    for i, near in enumerate(rows_near(lay, board, move, _REACH)):
        out = out | (near << np.uint32(WINDOW * i))
    return out


def rows_near(lay: bb.Layout, board: bb.Board, move: jax.Array, reach: int) -> list[jax.Array]:
    """2 reach + 1 rows u32[]: the points of `board` within `reach` rows and columns of a move; the
    move's column is bit `reach`."""
    word, row, column = _place(lay, move)
    bits = np.uint32((1 << 2 * reach + 1) - 1)
    rows = _rows_around(lay, board, word, row, reach)
    return [((x << np.uint32(reach)) >> column) & bits for x in rows]


def _rows_around(lay: bb.Layout, board: bb.Board, word, row, reach: int) -> list[jax.Array]:
    """The rows of the board around a row of a word; empty beyond the edge."""
    per_word = lay.rows_per_word
    if per_word == 1:
        return playable.rows_around(board, word, reach)
    words = playable.rows_around(board, word, reach // per_word + reach % per_word)
    one_row, shifts = np.uint32((1 << lay.size) - 1), range(per_word)
    rows = [(w >> np.uint32(r * lay.stride)) & one_row for w in words for r in shifts]
    first = len(words) // 2 * per_word - reach
    out = []
    for i in range(first, first + 2 * reach + 1):
        bits = rows[i]
        for r in range(1, per_word):
            further = rows[i + r] if i + r < len(rows) else np.uint32(0)
            bits = jnp.where(row == np.uint32(r), further, bits)
        out.append(bits)
    return out


def points_on_board(lay: bb.Layout, move: jax.Array) -> jax.Array:
    """u32[]: the points of the board around a move, as a window."""
    word, row, column = _place(lay, move)
    row = word * np.uint32(lay.rows_per_word) + row
    last = np.uint32(lay.size - 1)

    def beyond(at):
        """How many of the window's lines before, and after, this one lie off the board."""
        none, reach = np.uint32(0), np.uint32(_REACH)
        before = jnp.where(at < reach, reach - at, none)
        return before, jnp.where(last - at < reach, reach - (last - at), none)

    above, below = (np.uint32(WINDOW) * lines for lines in beyond(row))
    left, right = beyond(column)
    columns = ((_ROW_BITS << left) & (_ROW_BITS >> right)) * _FIRST_COLUMN
    return columns & ((_ALL_BITS << above) & (_ALL_BITS >> below))


def board_of_window(
    lay: bb.Layout, near: jax.Array, move: jax.Array, as_array: bool = False, reach: int = 1
) -> Any:
    """As a board: the points of a window within `reach` lines of a move, which must all be on the
    board."""
    word, row, column = _place(lay, move)
    row = word * np.uint32(lay.rows_per_word) + row
    boards = []
    for i in range(_REACH - reach, _REACH + reach + 1):
        bits = (((near >> np.uint32(WINDOW * i)) & _ROW_BITS) << column) >> np.uint32(_REACH)
        at = (row + np.uint32(i)) - np.uint32(_REACH)  # wraps above the edge, where no point is set
        index = _divided(at, lay.rows_per_word)
        bits = bits << ((at - index * np.uint32(lay.rows_per_word)) * np.uint32(lay.stride))
        boards.append(playable.spread(lay, index, bits, as_array))
    return bb.union_all(boards)


def _divided(x: jax.Array, divisor: int) -> jax.Array:
    """x // divisor for x below 32, without a division."""
    return (x * np.uint32(-(-256 // divisor))) >> np.uint32(8)
