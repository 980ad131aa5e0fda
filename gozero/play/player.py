"""A player of any game: what it does when it has the turn, in n games at once."""

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

NO_ACTION = -1
"""Where no action was played."""


class Turn(NamedTuple):
    """n games in which a player has the turn."""

    states: Any  # [n]
    legal: jax.Array  # bool[n, A]; after the end of a game the pass, if the game has one
    recent: jax.Array  # i32[2, n]: its last action and the answer to it; NO_ACTION for none


class Choice(NamedTuple):
    """What a player does in n games."""

    action: jax.Array  # i32[n]; of no meaning where the game is over
    ok: jax.Array  # bool[n]: False where something was wrong, such as an evaluation that is nan
    memory: Any  # for its next turn in these games; of the same shapes as what it was given
    resigns: jax.Array | None = None  # bool[n]; None: it never does


Choose = Callable[[Any, jax.Array, Turn, Any], Choice]
"""``(params, key, turn, memory) -> Choice``, jittable."""


class Player(NamedTuple):
    """Functions and parameters. Players with the same `choose` share one compiled program, and
    differ by their parameters."""

    choose: Choose
    params: Any = None
    begin: Callable[[Any, Any], Any] | None = None
    """``(params, states[n]) -> memory`` before the first turn; None: it keeps none."""


def as_game(game: Game | Rules) -> Game:
    """The game; Go under the rules, if they are given."""
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
    """Any legal action, all alike; of Go any play that fills no eye of its own, a pass if there is
    none."""
    game = as_game(game)

    def policy(params, key, turn):
        del params
        return openings.any_sensible_play(game, key, turn.states, turn.legal)

    return policy_player(policy)


def check_resign(resign: float | None) -> None:
    """Raises:
    ValueError: a threshold that resigning cannot go by.
    """
    if resign is not None and not -1 <= resign < 0:
        raise ValueError(f"resign: {resign} is not a value from -1 to below 0, as -0.95")


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
      evaluator: what evaluates positions; its `select` is not used, the config has one.
      config: the search of every move.
      reuse_subtree: a search goes on from what the last one found below the moves played since;
        the config is made `SearchConfig.roomy`. Then the trees of all of a match's games are kept,
        and without it there are those of half of them, while they are searched.
      resign: it resigns when the position and its best move are worth less, from -1 to 0; None:
        never. See `move_choice.resigns`.

    Raises:
      ValueError: a threshold out of range; trees that are reused by a root rule that counts the
        visits of one search.
    """
    config.check_with(tree=reuse_subtree)
    check_resign(resign)
    game = as_game(game)
    config = config.roomy if reuse_subtree else config

    def choose(params, key, turn, memory):
        search_key, _ = jax.random.split(key)
        if memory is not None:
            follow = lambda i, tree: reuse.reroot(tree, turn.recent[i])
            memory = lax.fori_loop(0, 2, follow, memory)
        own = evaluator._replace(params=params)
        found = searching.search(game, own, search_key, turn.states, config, memory)
        resigns = None
        if resign is not None:
            resigns = move_choice.resignations(found.value, found.visits, found.q, resign)
        return Choice(found.action, found.ok, found.tree if reuse_subtree else None, resigns)

    def begin(params, states):
        """Empty trees, with room for what a heuristic believes if the evaluator has one."""
        init = lambda params, states: searching.begin(
            game, evaluator._replace(params=params), jax.random.key(0), states, config
        )
        counts = jax.eval_shape(init, params, states).tree.prior_counts is not None
        return reuse.empty(positions_of(game, states), game.num_actions, config, counts)

    return Player(choose, evaluator.params, begin if reuse_subtree else None)
