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


class Heuristic(NamedTuple):
    """What is believed of the actions of M positions before any is tried.

    Gelly & Silver (2011), Eq. 48-52: a node begins with these values, counted as so many
    simulations. Confidences are whole numbers, 0 where nothing is believed. A pair may be None.
    """

    value: jax.Array | None = None  # Q_prior, f32[M, A] in [-1, 1], for the player to move
    visits: jax.Array | None = None  # C, i32[M, A]: what the value counts for
    amaf_value: jax.Array | None = None  # f32[M, A] in [-1, 1]: as the all-moves-as-first value
    amaf_visits: jax.Array | None = None  # M, i32[M, A]: what that counts for


class Evaluation(NamedTuple):
    """What an evaluator says of M positions: ``evaluate(params, key, observations[M])``."""

    prior_logits: jax.Array  # f32[M, A]; illegal actions may have any value
    value: jax.Array  # f32[M] in [-1, 1], for the player to move
    first_play: jax.Array | None = None
    """bool[M, 2, A]: [:, 0] the actions that the player to move was the first of the two to play
    in the playout, [:, 1] those of the opponent; what `amaf.Amaf` credits. (For "same" colour: what
    each has played.) None: there was no playout, or no one asked."""
    heuristic: Heuristic | None = None


Evaluate = Callable[[Any, jax.Array, Any], Evaluation]
