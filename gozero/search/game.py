"""The inputs of a search: a game, and an evaluator of its positions.

Any strictly alternating two-player zero-sum game fits. The functions of a `Game` are for one game;
the search vmaps them. Values lie in [-1, 1] and belong to the player to move.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class Trail(NamedTuple):
    """The ancestors of a position inside the tree, root first, itself not among them."""

    positions: Any  # a position with a leading axis [D]; entries from `length` on mean nothing
    length: jax.Array  # i32[]: how many ancestors there are, 0 at the root


class History(NamedTuple):
    """How a search keeps compact positions in its nodes, for a game whose past matters.

    The context is what is the same in the whole tree: the game up to the root.

    Attributes:
      root: (state) -> (context, position).
      play: (position, action) -> position. Assumes a legal action.
      legal: (context, position, trail) -> bool[A].
      outcome: (context, position) -> (over bool[], value f32[]); as `Game.outcome`.
      observe: (context, position, trail) -> what the evaluator sees, any pytree.
      scored: (context, position) -> (over, value, score f32[]): `outcome`, and the points of a
        finished game, for the player to move. None: there are none.
      sees_ancestors: `legal` or `observe` look at the trail's positions; False: only at its length,
        and a search reads no ancestors from the tree.
    """

    root: Callable[[Any], tuple[Any, Any]]
    play: Callable[[Any, jax.Array], Any]
    legal: Callable[[Any, Any, Trail], jax.Array]
    outcome: Callable[[Any, Any], tuple[jax.Array, jax.Array]]
    observe: Callable[[Any, Any, Trail], Any]
    scored: Callable[[Any, Any], tuple[jax.Array, jax.Array, jax.Array]] | None = None
    sees_ancestors: bool = True


class Points(NamedTuple):
    """What self-play draws and learns of a game that points decide, with a pass (Go); all for one
    game. The pass is the last action.

    Attributes:
      new: (komi f32[]) -> a new game, with so many points for the second player.
      komi: (state) -> f32[].
      ended, truncated: (state) -> bool[]; over, and over by the move limit.
      ply: (position) -> i16[]: moves played.
      score: (state, counted bool[]) -> (f32[]: the first player's points - the second's - komi,
        u32[2, W]: the area of each player, a bitboard for each); 0 and empty where not counted,
        at no cost.
      eyes: (state) -> bool[A - 1]: plays that even a random player leaves out.
      rewind: (where bool[], earlier state, state) -> state; the earlier one, of the same game or a
        new one, if `where`. What its past holds beyond its length is of the later one.
      earlier: (state, ply i32[], number) -> u32[number, 2, W]: the boards 1, 2, ... number plies
        before that of `ply`, each player's stones; empty where there was none. The state may be a
        new one that the game was rewound to.
    """

    new: Callable[[Any], Any]
    komi: Callable[[Any], jax.Array]
    ended: Callable[[Any], jax.Array]
    truncated: Callable[[Any], jax.Array]
    ply: Callable[[Any], jax.Array]
    score: Callable[[Any, jax.Array], tuple[jax.Array, jax.Array]]
    eyes: Callable[[Any], jax.Array]
    rewind: Callable[[jax.Array, Any, Any], Any]
    earlier: Callable[[Any, jax.Array, int], jax.Array]


class Game(NamedTuple):
    """A game as pure functions of one game; its states are any pytree of arrays.

    Attributes:
      num_actions: A, the number of actions; action indices are i32 in [0, A).
      init: (key) -> a new game. The key draws what is random; most games ignore it.
      play: (state, action) -> state. Assumes a legal action; no change once the game is over.
      legal: (state) -> bool[A].
      outcome: (state) -> (over bool[], value f32[]). The value is exact when over, for the
        player to move; a game cut by a move limit is scored, not lost.
      observe: (state) -> what the evaluator sees, any pytree.
      max_moves: a game is over after at most so many.
      history: how a search keeps positions, for games whose past matters (Go); None: a node
        keeps the whole state.
      symmetries: (observation, f32[A]) -> the same with a leading axis [S], for learning; or None.
      points: of a game that points decide; None of one that is won, lost or drawn.
    """

    num_actions: int
    init: Callable[[jax.Array], Any]
    play: Callable[[Any, jax.Array], Any]
    legal: Callable[[Any], jax.Array]
    outcome: Callable[[Any], tuple[jax.Array, jax.Array]]
    observe: Callable[[Any], Any]
    max_moves: int
    history: History | None = None
    symmetries: Callable[[Any, jax.Array], tuple[Any, jax.Array]] | None = None
    points: Points | None = None


def history_of(game: Game, observe: Callable[[Any, Any, Trail], Any] | None = None) -> History:
    """What a search uses of a game; `observe` is the evaluator's, None for the game's own."""
    history = game.history or History(
        root=lambda state: ((), state),
        play=game.play,
        legal=lambda context, state, trail: game.legal(state),
        outcome=lambda context, state: game.outcome(state),
        observe=lambda context, state, trail: game.observe(state),
        sees_ancestors=observe is not None,
    )
    return history if observe is None else history._replace(observe=observe)


def positions_of(game: Game, states: Any) -> Any:
    """The positions [B] that a search of states [B] keeps in its nodes."""
    return jax.vmap(history_of(game).root)(states)[1]


class Heuristic(NamedTuple):
    """Values of the actions of M positions before any is tried.

    Gelly & Silver (2011), Eq. 48-52: a node begins with these values, counted as so many
    simulations. Confidences are whole numbers, 0 where nothing is known. A pair may be None.
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
    in the playout, [:, 1] those of the opponent; what `Amaf` credits. (For "same" colour: what
    each has played.) None: there was no playout, or no one asked."""
    heuristic: Heuristic | None = None
    positions: Any = None
    """Positions [M] that nodes keep in place of those that were observed, of the same shapes, if
    evaluating them says more of them: of their ends, for one. A position that is evaluated again
    has to come out the same. None: those that were observed."""
    score: jax.Array | None = None
    """f32[M, 2]: the mean of the final score in points, for the player to move, and its standard
    deviation; for a rule that asks (`Needs.score`)."""


Evaluate = Callable[[Any, jax.Array, Any], Evaluation]


class Evaluator(NamedTuple):
    """How positions are evaluated, and the selection rule that suits it.

    Under ``jax.jit`` hand the parameters in: ``evaluator._replace(params=params)``.

    Attributes:
      evaluate: ``(params, key, observations[M]) -> Evaluation`` of M positions.
      params: handed to `evaluate`.
      observe: (context, position, trail) -> what it sees, as `History.observe`; of a game without
        a history the position is the state. None: what the game's own `observe` says.
      select: the rule for `SearchConfig.select`, if one suits it.
      about: what it is, for the records of a run; plain data.
      prepare: params -> params, such that `evaluate` says the same and computes less: what a search
        does once and not at every step. None: there is nothing to prepare.
    """

    evaluate: Evaluate
    params: Any = None
    observe: Callable[[Any, Any, Trail], Any] | None = None
    select: Callable | None = None
    about: dict[str, Any] = {}  # noqa: RUF012 (never written)
    prepare: Callable[[Any], Any] | None = None

    def prepared(self) -> Evaluator:
        """With its parameters prepared; to prepare them twice changes nothing."""
        if self.prepare is None:
            return self
        return self._replace(params=self.prepare(self.params))
