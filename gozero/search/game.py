"""The inputs of a search: a game, and an evaluator of its positions.

Any strictly alternating two-player zero-sum game fits. The functions of a `Game` are for one game;
the search vmaps them. Values lie in [-1, 1] and are for the player to move.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

NO_ACTION = -1
"""Stands for an action where there is none."""


class Ancestors(NamedTuple):
    """The ancestors of a position inside the tree, root first, without the position itself."""

    positions: Any  # positions with a leading axis [D]; entries from `length` on are undefined
    length: jax.Array  # i32[]: the number of ancestors, 0 at the root


def no_ancestors(position: Any) -> Ancestors:
    """Those of a root, which has none; the arrays have room for one."""
    return Ancestors(jax.tree.map(lambda x: x[None], position), jnp.int32(0))


def where_games(mask: jax.Array, new: Any, old: Any) -> Any:
    """Pytrees of arrays [B, ...]: `new` in the games of the mask bool[B], `old` in the others."""

    def choose(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, y)

    return jax.tree.map(choose, new, old)


class History(NamedTuple):
    """How a search stores compact positions in its nodes, for a game whose past matters.

    The context is what all nodes of a tree share: the game up to the root.

    Attributes:
      root: (state) -> (context, position).
      play: (position, action) -> position. Assumes a legal action.
      legal: (context, position, ancestors) -> bool[A].
      outcome: (context, position) -> (over bool[], value f32[]); as `Game.outcome`.
      observe: (context, position, ancestors) -> the evaluator's input, any pytree.
      scored: (context, position) -> (over, value, score f32[]): `outcome` and the score of a
        finished game in points, for the player to move. None: the game has no score.
      sees_ancestors: whether `legal` or `observe` reads the positions of ancestors. If False, they
        read only the number of ancestors, and the search reads none from the tree.
    """

    root: Callable[[Any], tuple[Any, Any]]
    play: Callable[[Any, jax.Array], Any]
    legal: Callable[[Any, Any, Ancestors], jax.Array]
    outcome: Callable[[Any, Any], tuple[jax.Array, jax.Array]]
    observe: Callable[[Any, Any, Ancestors], Any]
    scored: Callable[[Any, Any], tuple[jax.Array, jax.Array, jax.Array]] | None = None
    sees_ancestors: bool = True


class Points(NamedTuple):
    """What self-play needs of a game that is decided by points and has a pass (Go): komi, scores
    and training targets. All functions are for one game. The pass is the last action.

    Attributes:
      new: (komi f32[]) -> a new game with this komi, the points given to the second player.
      komi: (state) -> f32[].
      ended, truncated: (state) -> bool[]; over, and over by the move limit.
      ply: (position) -> i16[]: the number of moves played.
      score: (state, counted bool[]) -> (f32[]: the first player's points - the second's - komi,
        u32[2, W]: each player's area as a bitboard). Where not `counted`, 0 and empty, at no cost.
      eyes: (state) -> bool[A - 1]: plays that even a random player avoids.
      rewind: (mask bool[], earlier state, state) -> state: the earlier state where the mask is
        True, else the given one; of the same game or a new one. Its history beyond its length is
        left over from the later state.
      earlier: (state, ply i32[], number) -> u32[number, 2, W]: the stones of each player on the
        boards 1, 2, ... number plies before ply `ply`; empty before the start of the game. The
        state may be a new one that the game was rewound to.
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


class Symmetries(NamedTuple):
    """The symmetries of a game: how its observations and actions move under each. All functions
    are for one position and one symmetry k, i32[] in [0, count); symmetry 0 changes nothing.

    Attributes:
      count: S, the number of symmetries.
      planes: (planes [rows, columns, C], k) -> planes of the same shape and dtype.
      actions: (values [A], k) -> the values of the image's actions: if k takes action a to b, then
        ``actions(values, k)[b] == values[a]``. For values of any dtype.
    """

    count: int
    planes: Callable[[jax.Array, jax.Array], jax.Array]
    actions: Callable[[jax.Array, jax.Array], jax.Array]

    def inputs(self, inputs: Any, k: jax.Array) -> Any:
        """An evaluator's inputs moved by symmetry k: planes, or a NamedTuple with `planes`."""
        if isinstance(inputs, jax.Array | np.ndarray):
            return self.planes(jnp.asarray(inputs), k)
        if not hasattr(inputs, "planes"):
            raise ValueError(
                f"inputs: a {type(inputs).__name__} is neither planes nor has `planes`, as a "
                "network's inputs do; it has no symmetries"
            )
        return inputs._replace(planes=self.planes(inputs.planes, k))


class Game(NamedTuple):
    """A game as pure functions for a single game; its states are any pytree of arrays.

    Attributes:
      num_actions: A, the number of actions; action indices are i32 in [0, A).
      init: (key) -> a new game. The PRNG key is for random starts; most games ignore it.
      play: (state, action) -> state, with the shapes and dtypes of the given one. Assumes a legal
        action; no change once the game is over.
      legal: (state) -> bool[A].
      outcome: (state) -> (over bool[], value f32[]). When over, the value is the exact result
        for the player to move; a game cut short by a move limit is scored, not lost.
      observe: (state) -> the evaluator's input, any pytree.
      max_moves: the most moves that a game can last.
      history: how a search stores positions, for games whose past matters (Go). None: a node
        holds the whole state.
      symmetries: how observations and actions may be rotated and reflected, for training and
        networks; None: not at all.
      points: for a game that is decided by points; None if it is only won, lost or drawn.
    """

    num_actions: int
    init: Callable[[jax.Array], Any]
    play: Callable[[Any, jax.Array], Any]
    legal: Callable[[Any], jax.Array]
    outcome: Callable[[Any], tuple[jax.Array, jax.Array]]
    observe: Callable[[Any], Any]
    max_moves: int
    history: History | None = None
    symmetries: Symmetries | None = None
    points: Points | None = None


def symmetries_of(game: Game) -> Symmetries | None:
    """The symmetries of a game, or None.

    Raises:
      ValueError: they are not `Symmetries`; up to version 0.2 they were a function.
    """
    if game.symmetries is None or isinstance(game.symmetries, Symmetries):
        return game.symmetries
    raise ValueError(
        f"symmetries: this game's are a {type(game.symmetries).__name__}; they must be "
        "gozero.Symmetries(count, planes, actions), or None"
    )


def one_action(action: Any) -> jax.Array:
    """i32[]: the action of one game.

    Raises:
      ValueError: not one integer. (Legality is not checked.)
    """
    shape, dtype = jnp.shape(action), jax.dtypes.result_type(action)
    if not jnp.issubdtype(dtype, jnp.integer):
        raise ValueError(f"action: dtype {dtype} is not an integer type, such as int32")
    if shape != ():
        raise ValueError(
            f"action: shape {shape} for one game, expected (); map over games with jax.vmap"
        )
    return jnp.asarray(action, jnp.int32)


def history_of(game: Game, observe: Callable[[Any, Any, Ancestors], Any] | None = None) -> History:
    """The functions of a game that a search calls, as a `History`.

    `observe` is the evaluator's; None: the game's own.
    """
    history = game.history or History(
        root=lambda state: ((), state),
        play=game.play,
        legal=lambda context, state, ancestors: game.legal(state),
        outcome=lambda context, state: game.outcome(state),
        observe=lambda context, state, ancestors: game.observe(state),
        sees_ancestors=observe is not None,
    )
    return history if observe is None else history._replace(observe=observe)


def check_is_game(game: Any) -> None:
    """Raises:
    TypeError: not a `Game`, such as the rules of Go.
    """
    if not isinstance(game, Game):
        raise TypeError(
            f"game: expected a Game, not a {type(game).__name__}; of Go's rules, pass "
            "gozero.go_game(rules)"
        )


def check_game(game: Game, states: Any) -> None:
    """Refuses functions of a game without a `history` that do not return what a search needs.

    Args:
      game: the game.
      states: its states, with a leading axis.

    Raises:
      TypeError: not a `Game`.
      ValueError: says which function, what it returns and what is needed.
    """
    check_is_game(game)
    if game.history is not None:
        return
    of_one = lambda x: jax.ShapeDtypeStruct(jnp.shape(x)[1:], jax.dtypes.result_type(x))
    state = jax.tree.map(of_one, states)
    structure = jax.tree.structure(state)
    for path, leaf in jax.tree.leaves_with_path(state):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            raise ValueError(
                f"states: {_name(path)} is a PRNG key, which trees cannot hold; keep "
                "jax.random.key_data(key) in the state, and wrap_key_data where it is used"
            )
    after = jax.eval_shape(game.play, state, jax.ShapeDtypeStruct((), jnp.int32))
    if jax.tree.structure(after) != structure:
        raise ValueError(
            f"play: it returns {jax.tree.structure(after)}; it must be the state's {structure}"
        )
    for (path, old), new in zip(
        jax.tree.leaves_with_path(state), jax.tree.leaves(after), strict=True
    ):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise ValueError(
                f"play: {_name(path)} is {_array(new)}; it must stay {_array(old)}, as in the "
                "state before"
            )
    legal = jax.eval_shape(game.legal, state)
    if _array(legal) != f"bool[{game.num_actions}]":
        raise ValueError(f"legal: it returns {_array(legal)}, not bool[{game.num_actions}]")
    outcome = jax.eval_shape(game.outcome, state)
    kinds = [_array(x) for x in outcome] if isinstance(outcome, tuple | list) else _array(outcome)
    if (
        len(kinds) != 2
        or kinds[0] != "bool[]"
        or not re.fullmatch(r"b?(float|int)\d+\[\]", kinds[1])
    ):
        raise ValueError(
            f"outcome: it returns {kinds}; it must return (over bool[], value float32[])"
        )


def _name(path: Any) -> str:
    return f"state{jax.tree_util.keystr(path)}"


def _array(x: Any) -> str:
    if not hasattr(x, "shape"):
        return type(x).__name__
    return f"{x.dtype}[{', '.join(map(str, x.shape))}]"


def positions_of(game: Game, states: Any) -> Any:
    """The positions [B] that a search of states [B] stores in its nodes."""
    return jax.vmap(history_of(game).root)(states)[1]


class Heuristic(NamedTuple):
    """Initial values of the actions of M positions, before any action is tried.

    Gelly & Silver (2011), Eq. 48-52: a node begins with these values, each counted as a number of
    simulations, its confidence. Confidences are whole numbers, 0 where nothing is known. Either
    pair of value and confidence may be None.
    """

    value: jax.Array | None = None  # Q_prior, f32[M, A] in [-1, 1], for the player to move
    visits: jax.Array | None = None  # C, i32[M, A]: the simulations that the value counts for
    amaf_value: jax.Array | None = None  # f32[M, A] in [-1, 1]: initial all-moves-as-first value
    amaf_visits: jax.Array | None = None  # M, i32[M, A]: the simulations that it counts for


class Evaluation(NamedTuple):
    """An evaluator's output for M positions: ``evaluate(params, key, observations[M])``."""

    prior_logits: jax.Array  # f32[M, A]; illegal actions may have any value
    value: jax.Array  # f32[M] in [-1, 1], for the player to move
    played: jax.Array | None = None
    """bool[M, 2, A]: [:, 0] the actions that the player to move was the first of the two players
    to play in the playout, [:, 1] those that the opponent was the first to play; `Amaf` credits
    them. (With ``Amaf(first="same")``: all actions that each player played.) None: there was no
    playout, or nothing needs this."""
    heuristic: Heuristic | None = None
    positions: Any = None
    """Positions [M] for the nodes to store instead of the observed ones, of the same shapes, if
    the evaluation adds information to them, such as whether the game is over. Evaluating a
    position again must give the same result. None: nodes store the observed positions."""
    score: jax.Array | None = None
    """f32[M, 2]: the mean and standard deviation of the final score in points, for the player to
    move; for a rule that needs it (`Needs.score`)."""


Evaluate = Callable[[Any, jax.Array, Any], Evaluation]


class Evaluator(NamedTuple):
    """How positions are evaluated, and the selection rule that suits the evaluator.

    Under ``jax.jit``, pass the parameters in: ``evaluator._replace(params=params)``.

    Attributes:
      evaluate: ``(params, key, observations[M]) -> Evaluation`` of M positions.
      params: passed to `evaluate`.
      observe: (context, position, ancestors) -> the evaluator's input, as `History.observe`; for a
        game without a history, the position is the state. None: the game's own `observe`.
      select: the recommended rule for `SearchConfig.select`, if there is one.
      about: a description for the records of a run; plain data.
      prepare: params -> params with which `evaluate` returns the same with less computation. A
        search calls it once instead of repeating that work at every step. None: nothing to prepare.
      position_bytes: about how many bytes of activations a position takes while it is evaluated;
        only to tell the memory of a search. 0: unknown.
    """

    evaluate: Evaluate
    params: Any = None
    observe: Callable[[Any, Any, Ancestors], Any] | None = None
    select: Callable | None = None
    about: dict[str, Any] = {}  # noqa: RUF012 (never written)
    prepare: Callable[[Any], Any] | None = None
    position_bytes: int = 0

    def prepared(self) -> Evaluator:
        """The evaluator with its parameters prepared; preparing them again changes nothing."""
        if self.prepare is None:
            return self
        return self._replace(params=self.prepare(self.params))
