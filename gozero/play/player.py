"""A player of any game: how it chooses its moves, in n games at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.games.go import go_game
from gozero.go.rules import Rules
from gozero.play import openings
from gozero.search import move_choice, reuse
from gozero.search import search as searching
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator, Game, positions_of


class Turn(NamedTuple):
    """n games in which the player is to move."""

    states: Any  # [n]
    legal: jax.Array  # bool[n, A]; in a finished game only the pass, if the game has one
    recent: jax.Array  # i32[2, n]: the player's last action and the reply; NO_ACTION for none


class Choice(NamedTuple):
    """A player's choices in n games."""

    action: jax.Array  # i32[n]; meaningless where the game is over
    ok: jax.Array  # bool[n]: False where something went wrong, such as a NaN evaluation
    memory: Any  # for the next turn in these games; same shapes as the memory passed in
    resigns: jax.Array | None = None  # bool[n]; None: the player never resigns


Choose = Callable[[Any, jax.Array, Turn, Any], Choice]
"""``(params, key, turn, memory) -> Choice``, jittable."""


class Player(NamedTuple):
    """Functions and their parameters. Players that share `choose` share one compiled program and
    differ only in `params`."""

    choose: Choose
    params: Any = None
    begin: Callable[[Any, Any], Any] | None = None
    """``(params, states[n]) -> memory`` before the first turn; None: the player has no memory."""


def as_game(game: Game | Rules) -> Game:
    """The game itself, or Go under the given rules."""
    return game if isinstance(game, Game) else go_game(game)


def policy_player(
    policy: Callable[[Any, jax.Array, Turn], jax.Array], params: Any = None
) -> Player:
    """A player without a search: ``policy(params, key, turn) -> actions i32[n]``."""

    def choose(params, key, turn, memory):
        action = policy(params, key, turn)
        return Choice(action, jnp.ones(action.shape, bool), memory)

    return Player(choose, params)


def random_player(game: Game | Rules) -> Player:
    """Plays uniformly random legal actions; in Go only plays that do not fill an own eye, and a
    pass if there are none."""
    game = as_game(game)

    def policy(params, key, turn):
        del params
        return openings.any_sensible_play(game, key, turn.states, turn.legal)

    return policy_player(policy)


def check_resign(resign: float | None) -> None:
    """Check a resignation threshold.

    Raises:
      ValueError: the threshold is not in [-1, 0).
    """
    if resign is not None and not -1 <= resign < 0:
        raise ValueError(f"resign: {resign} is not in [-1, 0); -0.95, for example, is")


def search_player(
    game: Game | Rules,
    evaluator: Evaluator,
    config: SearchConfig,
    reuse_subtree: bool = False,
    resign: float | None = None,
) -> Player:
    """A player that searches.

    Args:
      game: the game, or rules of Go.
      evaluator: evaluates positions; its `select` is ignored in favour of the config's.
      config: the search for every move.
      reuse_subtree: whether each search starts from the subtree that the previous one built below
        the moves played since; the config is then made `SearchConfig.for_reuse`. A match then keeps
        the trees of all its games; without it, only those of the half being searched exist.
      resign: the player resigns when the values of the position and of its best move are both
        below this, in [-1, 0); None: never. See `move_choice.resigns`.

    Raises:
      ValueError: a threshold out of range, or subtree reuse with a root rule that counts the
        visits of one search.
    """
    config.check_with(tree=reuse_subtree)
    check_resign(resign)
    game = as_game(game)
    config = config.for_reuse if reuse_subtree else config

    def choose(params, key, turn, memory):
        search_key, _ = jax.random.split(key)
        if memory is not None:
            follow = lambda i, tree: reuse.reroot(tree, turn.recent[i])
            memory = lax.fori_loop(0, 2, follow, memory)
        own_evaluator = evaluator._replace(params=params)
        result = searching.search(game, own_evaluator, search_key, turn.states, config, memory)
        resigns = None
        if resign is not None:
            resigns = move_choice.resignations(result.value, result.visits, result.q, resign)
        return Choice(result.action, result.ok, result.tree if reuse_subtree else None, resigns)

    def begin(params, states):
        """Empty trees, with prior counts if the evaluator has a heuristic."""
        init = lambda params, states: searching.begin(
            game, evaluator._replace(params=params), jax.random.key(0), states, config
        )
        has_prior_counts = jax.eval_shape(init, params, states).tree.prior_counts is not None
        return reuse.empty(positions_of(game, states), game.num_actions, config, has_prior_counts)

    return Player(choose, evaluator.params, begin if reuse_subtree else None)
