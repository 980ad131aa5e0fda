"""Who played where in a playout, as all-moves-as-first statistics need it.

There are two kinds: the points where a player was the first of both to play, as in the text of
Gelly & Silver (2011), section 4; or those where it has played at all, as in their Algorithm 2. A
board has the form that the playout policy uses: an array u32[W, B], or W words u32[B].
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb

FirstPlayKind = bool | Literal["either", "same"]
"""False for none; True or "either" for `ByEither`; "same" for `ByEach`."""


class ByEither(NamedTuple):
    """Which player was the first of both to play at each point."""

    played: Any  # board: points played at so far
    by_black: Any  # board: of these, the points where Black was first

    def and_then(self, placed: Any, black_moves: jax.Array) -> ByEither:
        """After one more play; `placed` is, for each lane, a board with its point, or empty."""
        newly_played = jax.tree.map(lambda new, old: new & ~old, placed, self.played)
        return ByEither(
            _union(self.played, placed), _union(self.by_black, _if(black_moves, newly_played))
        )

    def by_colour(self) -> tuple[bb.Board, bb.Board]:
        """(Black's, White's); disjoint."""
        by_white = jax.tree.map(lambda a, b: a & ~b, self.played, self.by_black)
        return tuple(self.by_black), tuple(by_white)


class ByEach(NamedTuple):
    """Where each player has played."""

    by_black: Any  # board
    by_white: Any  # board

    def and_then(self, placed: Any, black_moves: jax.Array) -> ByEach:
        """As `ByEither.and_then`."""
        return ByEach(
            _union(self.by_black, _if(black_moves, placed)),
            _union(self.by_white, _if(~black_moves, placed)),
        )

    def by_colour(self) -> tuple[bb.Board, bb.Board]:
        """(Black's, White's); points where both have played are in both."""
        return tuple(self.by_black), tuple(self.by_white)


FirstPlays = ByEither | ByEach


def check_kind(kind: FirstPlayKind) -> None:
    """Raises:
    ValueError: `kind` is not one of the kinds.
    """
    kinds = get_args(get_args(FirstPlayKind)[1])
    if not isinstance(kind, bool) and kind not in kinds:
        raise ValueError(f"first_plays: {kind!r} is neither a bool nor one of {', '.join(kinds)}")


def none_yet(kind: FirstPlayKind, empty: Any) -> FirstPlays | None:
    """The first plays of a playout that has not begun; None if `kind` is False.

    Raises:
      ValueError: `kind` is not one of the kinds.
    """
    check_kind(kind)
    if kind is False:
        return None
    return ByEach(empty, empty) if kind == "same" else ByEither(empty, empty)


def _union(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.bitwise_or, a, b)


def _if(condition: jax.Array, board: Any) -> Any:
    return jax.tree.map(lambda x: jnp.where(condition, x, np.uint32(0)), board)
