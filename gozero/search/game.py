"""The doors through which a game and a judgement enter the search.

Any strictly alternating two-player zero-sum game fits. The functions of a `Game` are for
one game; the search vmaps them. Values lie in [-1, 1] and belong to the player to move.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class Trail(NamedTuple):
    """The ancestors of a position inside the tree, root first, itself not among them."""

    positions: Any  # a position with a leading axis [D]; entries from `length` on mean nothing
    length: jax.Array  # i32[]: how many ancestors there are, 0 at the root


class Game(NamedTuple):
    """A game as pure functions of one game.

    Attributes:
      num_actions: A, the number of actions; action indices are i32 in [0, A).
      play: (position, action) -> position. Assumes a legal action.
      key: (position) -> u32[2]. Equal positions have equal keys.
      legal: (context, position, trail) -> bool[A]. The context is the game up to the root.
      result: (context, position) -> (over bool[], value f32[]). Exact when over, for the
        player to move; a game cut by a move limit is scored, not lost.
      observe: (context, position, trail) -> what the evaluator sees, any pytree.
    """

    num_actions: int
    play: Callable[[Any, jax.Array], Any]
    key: Callable[[Any], jax.Array]
    legal: Callable[[Any, Any, Trail], jax.Array]
    result: Callable[[Any, Any], tuple[jax.Array, jax.Array]]
    observe: Callable[[Any, Any, Trail], Any]


class Evaluation(NamedTuple):
    """What an evaluator says of M positions: ``evaluate(params, key, observations[M])``."""

    prior_logits: jax.Array  # f32[M, A]; illegal actions may have any value
    value: jax.Array  # f32[M] in [-1, 1], for the player to move


Evaluate = Callable[[Any, jax.Array, Any], Evaluation]
