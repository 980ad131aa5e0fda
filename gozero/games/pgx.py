"""Games from pgx, unchanged: ``pgx_game(pgx.make("othello"))``. This module imports without pgx.

A state is pgx's own. Tree nodes hold the whole state except the observation, which is computed
only when an evaluator needs it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.search.game import Game

MAX_MOVES = 512
"""The limit of games that are not in `LIMITS`."""

LIMITS = {
    "tic_tac_toe": 9,
    "connect_four": 42,
    "othello": 121,  # 60 discs, a pass after each, and the pass that ends the game
    "hex": 122,  # 11x11 and a swap
    "go_9x9": 162,
    "go_19x19": 722,
    "animal_shogi": 256,
    "gardner_chess": 256,
    "chess": 512,
    "shogi": 512,
}
"""The most moves of pgx's games, by `env.id`: what the board holds, or pgx's own limit."""

_CHANCE_OR_HIDDEN = ("backgammon", "kuhn_poker", "leduc_holdem", "bridge_bidding")


def make(name: str) -> Any:
    """Makes the pgx environment with this name.

    Raises:
      ValueError: pgx is not installed, or has no environment of this name.
    """
    try:
        import pgx
    except ImportError as error:
        raise ValueError("game: pgx is not installed; pip install 'gozero[bench]'") from error
    if name not in pgx.available_envs():
        raise ValueError(f"game: pgx has no {name!r}; it has {', '.join(pgx.available_envs())}")
    return pgx.make(name)


def pgx_game(env: Any, max_moves: int | None = None, trial_seed: int | None = 0) -> Game:
    """A two-player `Game` from a pgx environment.

    Assumed, and checked in one random game: the players alternate until the end (a pass is an
    action); rewards are paid only at the end, lie in [-1, 1] and add up to 0. Assumed, but not
    checked: a step draws nothing at random, and the observation hides nothing that matters.

    Args:
      env: from `pgx.make`, or an object with the same methods.
      max_moves: a game is over after this many moves, and drawn if it has not ended by then.
        Self-play allocates room for this many, and by default samples the moves of the first
        quarter. None: that of `LIMITS`, or `MAX_MOVES`.
      trial_seed: the seed of the random game; None: no game is played and nothing is compiled.

    Raises:
      ValueError: the environment is not for 2 players, is known to have chance or hidden
        information, or violated an assumption in the random game.
    """
    if env.num_players != 2:
        raise ValueError(f"env: {env.id} has {env.num_players} players; a search needs 2")
    if env.id in _CHANCE_OR_HIDDEN:
        raise ValueError(
            f"env: {env.id} has chance or hidden information; a search supports neither"
        )
    if max_moves is None:
        max_moves = LIMITS.get(env.id, MAX_MOVES)
    if trial_seed is not None:
        _check_random_game(env, trial_seed, max_moves)

    def init(key: jax.Array) -> Any:
        return _without_observation(env.init(key))

    def is_over(state: Any) -> jax.Array:
        return state.terminated | state.truncated | (state._step_count >= max_moves)

    def play(state: Any, action: jax.Array) -> Any:
        """In pgx a further step zeroes the rewards of a finished game; here they are kept."""
        over, after = is_over(state), env.step(state, action)
        if state.observation.size == 0:
            after = _without_observation(after)
        return jax.tree.map(lambda new, old: jnp.where(over, old, new), after, state)

    def outcome(state: Any) -> tuple[jax.Array, jax.Array]:
        return is_over(state), jnp.sum(jnp.where(_mover(state), state.rewards, 0.0))

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


def _mover(state: Any) -> jax.Array:
    """bool[2]: one-hot of the player to move."""
    return jnp.arange(2) == state.current_player


def _check_random_game(env: Any, seed: int, max_moves: int) -> None:
    """Plays one random game.

    Raises:
      ValueError: it violated an assumption of `pgx_game`.
    """
    rng, step = np.random.RandomState(seed), jax.jit(env.step)
    state = jax.jit(env.init)(jax.random.key(seed))
    for _ in range(max_moves):
        player, legal = int(state.current_player), np.asarray(state.legal_action_mask)
        state = step(state, np.int32(rng.choice(np.flatnonzero(legal))))
        rewards, over = np.asarray(state.rewards), bool(state.terminated | state.truncated)
        if int(state.current_player) == player:
            raise ValueError(f"env: in {env.id} a player moved twice; players must alternate")
        if abs(rewards.sum()) > 1e-6 or np.abs(rewards).max() > 1:
            raise ValueError(
                f"env: {env.id} has rewards {rewards.tolist()}; they must be in [-1, 1] and add up "
                "to 0"
            )
        if rewards.any() and not over:
            raise ValueError(
                f"env: {env.id} has rewards before the end; only the last move may have one"
            )
        if over:
            return
