"""Evaluates positions of any game by random games (rollouts) from there to the end."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.hashing import mix
from gozero.playouts.first_plays import FirstPlayKind, check_kind
from gozero.search.game import Evaluation, Evaluator, Game, check_is_game
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import Rave

ROLLOUT_RULE = Puct(c_puct=3.0, first_play="parent")
"""The selection rule for random games, including Go's playouts. A uniform prior over many actions
needs more exploration than a network's; and if untried actions counted as even, a player who is
ahead would never try a second action."""


def rollout_evaluator(game: Game, first_plays: FirstPlayKind = False) -> Evaluator:
    """Plays one game of uniformly random legal actions from each leaf to the end; uniform prior.

    Args:
      game: any game without a history (for Go use `playout_evaluator`).
      first_plays: whether to also return which player was first to play each action, for
        `SearchConfig(amaf=...)`; the evaluator's selection rule is then `Rave`. "same", for
        `Amaf(first="same")`: which actions each player played at all.

    Raises:
      TypeError: not a `Game`.
      ValueError: a game with a history, whose positions are not states; another kind of
        `first_plays`.
    """
    check_is_game(game)
    check_kind(first_plays)
    if game.history is not None:
        raise ValueError(
            "game: a rollout cannot start from the positions of a game with a history; for Go use "
            "playout_evaluator(rules)"
        )

    def evaluate(params: Any, key: jax.Array, states: Any) -> Evaluation:
        del params
        count = jax.tree.leaves(states)[0].shape[0]
        seeds = jax.random.bits(key, (count,), jnp.uint32)
        value, played = rollouts(game, states, seeds, first_plays)
        return Evaluation(jnp.zeros((count, game.num_actions)), value, played)

    select = Rave() if first_plays else ROLLOUT_RULE
    observe = lambda context, state, ancestors: state
    return Evaluator(evaluate, None, observe, select, {"evaluator": "rollout"})


def rollouts(
    game: Game, states: Any, seeds: jax.Array, first_plays: FirstPlayKind = False
) -> tuple[jax.Array, jax.Array | None]:
    """Plays one game of uniformly random actions from each of M states to the end.

    Trip bound: `Game.max_moves`; a game that lasts longer counts as it stands. The random bits of
    move i depend only on the game's seed and i.

    Args:
      game: the game.
      states: with a leading axis [M].
      seeds: u32[M].
      first_plays: as in `rollout_evaluator`.

    Returns:
      (value f32[M] for the player to move at the state, played bool[M, 2, A] or None).
    """
    outcome = jax.vmap(game.outcome)

    def continues(carry):
        _, over, moves, _ = carry
        return jnp.any(~over & (moves < game.max_moves))

    def move(carry):
        states, over, moves, played = carry
        random = mix(seeds + moves.astype(jnp.uint32) * np.uint32(0x9E3779B9))
        action = jax.vmap(_random_action)(jax.vmap(game.legal)(states), random)
        if played is not None:
            is_mover = jnp.arange(2)[None] == (moves % 2)[:, None]
            is_played = jnp.arange(game.num_actions)[None] == action[:, None]
            if first_plays != "same":
                is_played &= ~played.any(axis=1)
            played |= is_mover[:, :, None] & (is_played & ~over[:, None])[:, None]
        states = jax.vmap(game.play)(states, action)  # no change once a game is over
        return states, outcome(states)[0], moves + ~over, played

    count = seeds.shape[0]
    played = jnp.zeros((count, 2, game.num_actions), bool) if first_plays else None
    start = states, outcome(states)[0], jnp.zeros(count, jnp.int32), played
    states, _, moves, played = lax.while_loop(continues, move, start)
    value = outcome(states)[1]
    return jnp.where(moves % 2 == 1, -value, value), played


def _random_action(legal: jax.Array, random: jax.Array) -> jax.Array:
    """i32[]: a legal action chosen by the bits `random`, u32[]; 0 if none is legal."""
    count = jnp.cumsum(legal, dtype=jnp.uint32)
    k = random % jnp.maximum(count[-1], 1)
    return jnp.argmax(legal & (count == k + 1)).astype(jnp.int32)
