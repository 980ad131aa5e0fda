"""A player of the arena: what it does when it has the turn, in n games at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.games.go import go_game
from gozero.go import bitboard as bb
from gozero.go.rules import GameState, Rules, own_and_opponent
from gozero.play.evaluators import Evaluator
from gozero.playouts import playable
from gozero.search import move_choice, reuse
from gozero.search import search as searching
from gozero.search.config import SearchConfig
from gozero.search.move_choice import Temperature
from gozero.search.search import SearchResult

NO_ACTION = -1
"""Where no action was played."""


class Turn(NamedTuple):
    """n games in which a player has the turn."""

    states: GameState  # [n]
    legal: jax.Array  # bool[n, A]; after the end of a game the pass
    recent: jax.Array  # i32[2, n]: his last action and the answer to it; NO_ACTION for none


class Choice(NamedTuple):
    """What a player does in n games."""

    action: jax.Array  # i32[n]; of no meaning where the game is over
    ok: jax.Array  # bool[n]: False where something was wrong, such as an evaluation that is nan
    memory: Any  # for his next turn in these games; of the same shapes as what he was given
    resigns: jax.Array | None = None  # bool[n]; None: he never does


Choose = Callable[[Any, jax.Array, Turn, Any], Choice]
"""``(params, key, turn, memory) -> Choice``, jittable."""


class Player(NamedTuple):
    """Functions and parameters. Players with the same `choose` share one compiled program, and
    differ by their parameters."""

    choose: Choose
    params: Any = None
    begin: Callable[[Any, GameState], Any] | None = None
    """``(params, states[n]) -> memory`` before the first turn; None: he keeps none."""


def policy_player(
    policy: Callable[[Any, jax.Array, Turn], jax.Array], params: Any = None
) -> Player:
    """A player without a search: ``policy(params, key, turn) -> actions i32[n]``."""

    def choose(params, key, turn, memory):
        action = policy(params, key, turn)
        return Choice(action, jnp.ones(action.shape, bool), memory)

    return Player(choose, params)


def any_play(params: Any, key: jax.Array, turn: Turn) -> jax.Array:
    """A policy: any legal play, all alike; a pass if there is none."""
    del params
    return any_of(key, turn.legal[:, :-1])


def random_player(rules: Rules) -> Player:
    """Any legal play that fills no eye of his own, all alike; a pass if there is none."""

    def policy(params, key, turn):
        del params

        def eyes(position):
            own, opponent = own_and_opponent(position)
            return bb.unpack(rules.layout, playable.eyes(rules.layout, own, opponent))

        return any_of(key, turn.legal[:, :-1] & ~jax.vmap(eyes)(turn.states.position))

    return policy_player(policy)


def any_of(key: jax.Array, points: jax.Array) -> jax.Array:
    """i32[n]: one of the points bool[n, A - 1] of each game; game i draws the same in any n."""
    logits = jnp.where(points, 0.0, -jnp.inf)
    action = jax.vmap(jax.random.categorical)(jax.random.split(key, points.shape[0]), logits)
    return jnp.where(points.any(axis=1), action, points.shape[1]).astype(jnp.int32)


def check_resign(resign: float | None) -> None:
    """Raises:
    ValueError: a threshold that resigning cannot go by.
    """
    if resign is not None and not -1 <= resign < 0:
        raise ValueError(f"resign: {resign} is not a value from -1 to below 0, as -0.95")


def search_player(
    rules: Rules,
    evaluator: Evaluator,
    config: SearchConfig,
    temperature: Temperature | None = None,
    reuse_subtree: bool = False,
    reward: Callable[[jax.Array], jax.Array] = jnp.sign,
    resign: float | None = None,
) -> Player:
    """A player that searches.

    Args:
      rules: the rules.
      evaluator: what judges positions; its `select` is not used, the config has one.
      config: the search of every move.
      temperature: by moves into the game: where it is above 0, the move is drawn by the visits.
        None: what the config says plays, all game long.
      reuse_subtree: a search goes on from what the last one found below the moves played since;
        the config is made `SearchConfig.roomy`. Then the trees of all of a match's games are kept,
        and without it there are those of half of them, while they are searched.
      reward: what a finished game is worth, see `go_game`.
      resign: he resigns when the position and its best move are worth less, from -1 to 0; None:
        never. See `move_choice.resigns`.

    Raises:
      ValueError: a threshold out of range; a temperature beside a root rule that says what is
        played, proofs, an early stop or a temperature of the config; trees that are reused by a
        root rule that counts the visits of one search.
    """
    if temperature is not None:
        _check_temperature(config)
    config.check_with(tree=reuse_subtree)
    check_resign(resign)
    game = go_game(rules, reward=reward)
    config = config.roomy if reuse_subtree else config

    def choose(params, key, turn, memory):
        search_key, draw_key = jax.random.split(key)
        if memory is not None:
            follow = lambda i, tree: reuse.reroot(tree, turn.recent[i])
            memory = lax.fori_loop(0, 2, follow, memory)
        own, states = evaluator._replace(params=params), turn.states
        found = searching.search(game, own, search_key, states, config, memory)
        action = found.action
        if temperature is not None:
            action = _drawn(draw_key, found, temperature(states.position.ply))
        resigns = None
        if resign is not None:
            resigns = move_choice.resignations(found.value, found.visits, found.q, resign)
        return Choice(action, found.ok, found.tree if reuse_subtree else None, resigns)

    def begin(params, states):
        """Empty trees, with room for what a heuristic believes if the evaluator has one."""
        start = lambda params, states: searching.begin(
            game, evaluator._replace(params=params), jax.random.key(0), states, config
        )
        counts = jax.eval_shape(start, params, states).tree.prior_counts is not None
        return reuse.empty(states.position, rules.num_actions, config, counts)

    return Player(choose, evaluator.params, begin if reuse_subtree else None)


def _drawn(key: jax.Array, found: SearchResult, temperature: jax.Array) -> jax.Array:
    """i32[n]: an action by the visits at a temperature f32[n]; what the search plays at 0."""
    keys = jax.random.split(key, temperature.shape[0])
    prior = jnp.zeros(found.visits.shape)  # there are visits where the game is not over
    drawn = jax.vmap(move_choice.by_visits)(keys, found.visits, prior, temperature)
    return jnp.where(temperature > 0, drawn, found.action)


def _check_temperature(config: SearchConfig) -> None:
    wrong = {
        "a root rule that says what is played": config.plays_by_rule,
        "prove, which says what is played": config.prove,
        "early_stop, which settles the most visited action alone": config.early_stop,
        "a temperature of the config": config.temperature > 0,
    }
    for name, found in wrong.items():
        if found:
            raise ValueError(f"temperature: not with {name}; leave one of them out")
