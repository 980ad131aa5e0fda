"""Who played where in a playout: what all-moves-as-first statistics ask of it.

Two kinds: the points where a player made the first play of either player, as in the text of Gelly &
Silver (2011), section 4; or where it has played at all, as in their Algorithm 2. A board has the
form that the policy of the playouts uses: an array u32[W, B], or W words u32[B].
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb

Wanted = bool | Literal["either", "same"]
"""False for none; True or "either"; "same"."""


class ByEither(NamedTuple):
    """Where the first play of all was whose."""

    taken: Any  # board: points played at so far
    by_black: Any  # board: of those, where Black was the first

    def and_then(self, placed: Any, black_moves: jax.Array) -> ByEither:
        """With a stone more, or none, on an empty board of each lane."""
        fresh = jax.tree.map(lambda new, old: new & ~old, placed, self.taken)
        return ByEither(_union(self.taken, placed), _union(self.by_black, _if(black_moves, fresh)))

    def by_colour(self) -> tuple[bb.Board, bb.Board]:
        """(Black's, White's); disjoint."""
        by_white = jax.tree.map(lambda a, b: a & ~b, self.taken, self.by_black)
        return tuple(self.by_black), tuple(by_white)


class ByEach(NamedTuple):
    """Where each has played."""

    by_black: Any  # board
    by_white: Any  # board

    def and_then(self, placed: Any, black_moves: jax.Array) -> ByEach:
        """As `ByEither.and_then`."""
        return ByEach(
            _union(self.by_black, _if(black_moves, placed)),
            _union(self.by_white, _if(~black_moves, placed)),
        )

    def by_colour(self) -> tuple[bb.Board, bb.Board]:
        """(Black's, White's); where both have played, both."""
        return tuple(self.by_black), tuple(self.by_white)


FirstPlays = ByEither | ByEach


def none_yet(wanted: Wanted, empty: Any) -> FirstPlays | None:
    """Of a playout that has not begun; None if none are wanted.

    Raises:
      ValueError: `wanted` is no kind of them.
    """
    if wanted is False:
        return None
    if wanted is True or wanted == "either":
        return ByEither(empty, empty)
    if wanted != "same":
        kinds = get_args(get_args(Wanted)[1])
        raise ValueError(f"first_plays: {wanted!r} is neither a bool nor one of {', '.join(kinds)}")
    return ByEach(empty, empty)


def _union(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.bitwise_or, a, b)


def _if(condition: jax.Array, board: Any) -> Any:
    return jax.tree.map(lambda x: jnp.where(condition, x, np.uint32(0)), board)
