"""Which empty points beside the last move make a good shape: MoGo's 3x3 patterns.

Gelly, Wang, Munos & Teytaud (2006), "Modification of UCT with patterns in Monte-Carlo Go",
INRIA report 6062, section 3.2: hane, cuts, and what they have for the edge. A pattern is seen
around an empty point and says that a play there is of its kind. All its rotations and
reflections count, and where it is for either player to play, those with the colours swapped.

The patterns stand here as diagrams. When a program is traced, all their variants become one
formula, a tree of ANDs and ORs, on boards of 5 x 5 points around the last move, a board a
word: so the eight points beside that move are answered at once, and nothing is looked up.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np

WINDOW = 5  # points on a side of what is seen around the last move
BESIDE = np.uint32(0b00000_01110_01010_01110_00000)  # the eight points beside its centre


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A shape around an empty point, `+`, in three rows.

    X and O are the two colours, `x` all that is not X and `o` all that is not O, off the board
    included; `.` is empty, `#` off the board, `?` anything.
    """

    kind: str
    rows: str
    either: bool = True  # may either player play there? False: the player whose stones X are


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
"""(place, what): what is at one of the eight places around a point. Places are distances in a
window: a row down is `WINDOW`, a column to the right 1."""

_SWAPPED = str.maketrans("XOxo", "OXox")
_NARROWER = {"x": "O.#", "o": "X.#"}  # what is surely not X, not O


# --- variants -------------------------------------------------------------------------


@functools.cache
def variants() -> tuple[frozenset[Literal], ...]:
    """All that the patterns look like to the player to move, whose stones are X.

    Each is the set of its conditions, without those that hold of anything. What a wider
    variant covers is left out.
    """
    found = {
        _literals(grid)
        for pattern in PATTERNS
        for rows in _colours(pattern)
        for grid in _symmetries(rows.split())
    }
    ordered = sorted(found, key=lambda variant: (len(variant), sorted(variant)))
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
        ((row - 1) * WINDOW + column - 1, what)
        for row, cells in enumerate(grid)
        for column, what in enumerate(cells)
        if what not in "?+"
    )


def _covers(wider: frozenset[Literal], variant: frozenset[Literal]) -> bool:
    """Does `wider` hold wherever `variant` does?"""
    cells = dict(variant)
    return all(
        cells.get(place) == what or cells.get(place, "?") in _NARROWER.get(what, "")
        for place, what in wider
    )


# --- matching -------------------------------------------------------------------------


def match(own: jax.Array, opponent: jax.Array, vacant: jax.Array) -> jax.Array:
    """u32[]: those of the points beside the last move where a pattern stands.

    Args:
      own, opponent, vacant: u32[]; the window around the last move, bit 5 row + column: the
        stones of the player to move, those of the other, and the empty points of the board.

    Returns:
      A window; legal or not, eye or not, is not asked.
    """
    plane_of = _planes(own, opponent, vacant)
    return _any_of(variants(), plane_of) & vacant & BESIDE


def _planes(own, opponent, vacant) -> Callable[[Literal], jax.Array]:
    """literal -> u32[]: the points of the window where it holds (of the inner nine)."""
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
        place, what = literal
        shift = np.uint32(abs(place))
        return planes[what] >> shift if place > 0 else planes[what] << shift

    return plane_of


def _any_of(
    choices: Iterable[frozenset[Literal]], plane_of: Callable[[Literal], jax.Array]
) -> jax.Array:
    """The OR of the choices, each the AND of its literals: u32[].

    What most of them share is asked first, and for all that share it once.
    """

    @functools.cache
    def either(choices: frozenset[frozenset[Literal]]) -> jax.Array | None:
        """None stands for "everywhere"."""
        if frozenset() in choices:
            return None
        counts = collections.Counter(literal for choice in choices for literal in choice)
        shared = min(counts, key=lambda literal: (-counts[literal], literal))
        rest = either(frozenset(c - {shared} for c in choices if shared in c))
        found = plane_of(shared) if rest is None else plane_of(shared) & rest
        others = frozenset(c for c in choices if shared not in c)
        if not others:
            return found
        other = either(others)
        return other if other is None else found | other

    found = either(frozenset(choices))
    assert found is not None
    return jnp.asarray(found)
