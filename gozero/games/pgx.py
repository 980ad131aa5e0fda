"""Games of pgx, as they are: ``pgx_game(pgx.make("othello"))``. pgx itself need not be installed.

A state is pgx's own. The observation is made when an evaluator wants it and not kept in the nodes
of a tree, which hold all else of the state.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.search.game import Game

MAX_MOVES = 512

_CHANCE_OR_HIDDEN = ("backgammon", "kuhn_poker", "leduc_holdem", "bridge_bidding")


def make(name: str) -> Any:
    """The environment of pgx with this name.

    Raises:
      ValueError: pgx is not installed, or has none of this name.
    """
    try:
        import pgx
    except ImportError as error:
        raise ValueError("game: pgx is not installed; pip install pgx") from error
    if name not in pgx.available_envs():
        raise ValueError(f"game: pgx has no {name!r}, but {', '.join(pgx.available_envs())}")
    return pgx.make(name)


def pgx_game(env: Any, max_moves: int = MAX_MOVES, trial_seed: int | None = 0) -> Game:
    """A game of two players by an environment of pgx.

    Assumed, and tried in one random game: the players take turns, to the end (a pass is an
    action); rewards are paid at the end only, from -1 to 1, and add up to 0. Not tried, but
    assumed: a step draws nothing at random, and the observation hides nothing that matters.

    Args:
      env: of `pgx.make`, or one with the same methods.
      max_moves: after so many a game is over and drawn. Self-play makes room for so many.
      trial_seed: of the game that is tried; None: none is, nor is anything compiled.

    Raises:
      ValueError: an environment of another number of players, known for chance or hidden
        information, or whose trial did not keep what is assumed.
    """
    if env.num_players != 2:
        raise ValueError(f"env: {env.id} has {env.num_players} players; a search is for 2")
    if env.id in _CHANCE_OR_HIDDEN:
        raise ValueError(f"env: {env.id} has chance or hidden information; a search knows neither")
    if trial_seed is not None:
        _try(env, trial_seed, max_moves)

    def init(key: jax.Array) -> Any:
        return _without_observation(env.init(key))

    def is_over(state: Any) -> jax.Array:
        return state.terminated | state.truncated | (state._step_count >= max_moves)

    def play(state: Any, action: jax.Array) -> Any:
        """pgx takes the rewards of a finished game away with the next step; here they stay."""
        over, after = is_over(state), env.step(state, action)
        if state.observation.size == 0:
            after = _without_observation(after)
        return jax.tree.map(lambda new, old: jnp.where(over, old, new), after, state)

    def outcome(state: Any) -> tuple[jax.Array, jax.Array]:
        return is_over(state), jnp.sum(jnp.where(_mine(state), state.rewards, 0.0))

    return Game(
        num_actions=env.num_actions,
        init=init,
        play=play,
        legal=lambda state: state.legal_action_mask,
        outcome=outcome,
        observe=lambda state: env.observe(state),
        max_moves=max_moves,
    )


def _without_observation(state: Any) -> Any:
    return state.replace(observation=jnp.zeros((0,), state.observation.dtype))


def _mine(state: Any) -> jax.Array:
    """bool[2]: the player to move."""
    return jnp.arange(2) == state.current_player


def _try(env: Any, seed: int, max_moves: int) -> None:
    """One random game.

    Raises:
      ValueError: it did not keep what `pgx_game` assumes.
    """
    rng, step = np.random.RandomState(seed), jax.jit(env.step)
    state = jax.jit(env.init)(jax.random.key(seed))
    for _ in range(max_moves):
        player, legal = int(state.current_player), np.asarray(state.legal_action_mask)
        state = step(state, np.int32(rng.choice(np.flatnonzero(legal))))
        rewards, over = np.asarray(state.rewards), bool(state.terminated | state.truncated)
        if int(state.current_player) == player:
            raise ValueError(f"env: in {env.id} a player moves twice; a search alternates")
        if abs(rewards.sum()) > 1e-6 or np.abs(rewards).max() > 1:
            raise ValueError(
                f"env: {env.id} pays {rewards.tolist()}; what one wins the other loses"
            )
        if rewards.any() and not over:
            raise ValueError(f"env: {env.id} pays before the end; a search values results only")
        if over:
            return
