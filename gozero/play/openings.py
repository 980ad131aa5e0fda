"""Random openings: the first plies of a game are drawn at random, so that games differ."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.search.game import NO_ACTION, Game, positions_of, where_games

_TRIES = 1000
"""Openings of a pair that may end the game before `of_pair` gives up."""

_ROUND = 512
"""Openings that `distinct` draws at once. If none of them is new, it stops drawing."""


@dataclasses.dataclass(frozen=True)
class Openings:
    """The length of each game's opening, which is not learnt from: uniform from `least` to `most`.

    All its plies are random; or, with `last_only`, only the last is and those before it are
    searched moves, as in the games that trained AlphaGo's value network (Silver et al. 2016).

    Raises:
      ValueError: naming the field, its value and what is allowed.
    """

    least: int = 0
    most: int = 0
    last_only: bool = False

    def __post_init__(self):
        if self.least < 0:
            raise ValueError(f"least: {self.least} plies; expected at least 0")
        if self.most < self.least:
            raise ValueError(
                f"most: {self.most} plies; expected at least {self.least}, the value of least"
            )

    def draw(self, key: jax.Array, num_games: int) -> jax.Array:
        """i32[B]: the opening plies of B = `num_games` games."""
        return jax.random.randint(key, (num_games,), self.least, self.most + 1)


def is_over(game: Game, states: Any) -> jax.Array:
    """bool[B]: which games have ended; scores no board."""
    ended = game.points.ended if game.points else lambda state: game.outcome(state)[0]
    return jax.vmap(ended)(states)


def any_of(key: jax.Array, actions: jax.Array) -> jax.Array:
    """i32[n]: a uniformly random action of each game's `actions` bool[n, A], or A if it has none;
    game i's draw does not depend on n."""
    logits = jnp.where(actions, 0.0, -jnp.inf)
    action = jax.vmap(jax.random.categorical)(jax.random.split(key, actions.shape[0]), logits)
    return jnp.where(actions.any(axis=1), action, actions.shape[1]).astype(jnp.int32)


def any_play(game: Game, key: jax.Array, legal: jax.Array) -> jax.Array:
    """i32[B]: a uniformly random play of `legal` bool[B, A]; a pass if there is nothing else."""
    return any_of(key, legal if game.points is None else legal[:, :-1])


def any_sensible_play(game: Game, key: jax.Array, states: Any, legal: jax.Array) -> jax.Array:
    """`any_play`, excluding plays that fill the player's own eyes."""
    if game.points is not None:
        eyes = jax.vmap(game.points.eyes)(states)
        legal = legal.at[:, :-1].set(legal[:, :-1] & ~eyes)
    return any_play(game, key, legal)


@functools.partial(jax.jit, static_argnames=("game", "plies"))
def draw(game: Game, key: jax.Array, states: Any, plies: int) -> tuple[Any, jax.Array]:
    """(games [B] after `plies` plies of `any_play`, the actions i32[plies, B], NO_ACTION where a
    game had ended)."""

    def one_ply(states, ply):
        action = any_play(game, jax.random.fold_in(key, ply), jax.vmap(game.legal)(states))
        recorded = jnp.where(is_over(game, states), NO_ACTION, action)
        return jax.vmap(game.play)(states, action), recorded

    return lax.scan(one_ply, states, jnp.arange(plies))


def scatter_phases(game: Game, key: jax.Array, states: Any, most: int) -> tuple[Any, jax.Array]:
    """Play a random number of random plies in each new game [B], uniform from 0 to `most`.

    A game that ends on the way stays at its end. Trip bound: `most`.

    Returns:
      (states [B], plies i32[B]: how many were drawn for each).
    """
    number_key, ply_key = jax.random.split(key)
    num_games = jax.tree.leaves(states)[0].shape[0]
    plies = jax.random.randint(number_key, (num_games,), 0, most + 1)

    def one_ply(i, states):
        legal = jax.vmap(game.legal)(states)
        action = any_sensible_play(game, jax.random.fold_in(ply_key, i), states, legal)
        after = jax.vmap(game.play)(states, action)
        return rewind(game, i >= plies, states, after)

    return lax.fori_loop(0, most, one_ply, states), plies


def rewind(game: Game, where: jax.Array, earlier: Any, states: Any) -> Any:
    """[B] states, replaced by those of `earlier` where the mask bool[B] is True. See
    `Points.rewind`."""
    if game.points is not None:
        return jax.vmap(game.points.rewind)(where, earlier, states)
    return where_games(where, earlier, states)


def of_pair(game: Game, plies: int, seed: int, pair: int) -> tuple[int, ...]:
    """The opening of a pair of games in a match, computed on the host: random legal actions without
    passes; fewer than `plies` actions if no play is legal. One that ends the game is drawn again.

    The same arguments give the same opening on any machine and after a restart. It is drawn with
    NumPy, as in earlier versions, so that matches begun by those can be resumed.

    Raises:
      ValueError: so many plies end every game.
    """
    rng = np.random.default_rng([seed, pair])
    for _ in range(_TRIES):
        actions, ended = _random_plays(game, plies, rng)
        if not ended:
            return tuple(actions)
    raise ValueError(
        f"openings: {plies} random plies end the game, in {_TRIES} of {_TRIES} tries; give fewer"
    )


def _random_plays(game: Game, plies: int, rng: np.random.Generator) -> tuple[list[int], bool]:
    """(the plays, up to an end of the game, whether they end it)."""
    play, legal, ended = _compiled(game)
    state, actions = game.init(jax.random.key(0)), []
    while len(actions) < plies:
        plays = np.flatnonzero(np.asarray(legal(state))[: -1 if game.points else None])
        if not len(plays):
            break
        actions.append(int(rng.choice(plays)))
        state = play(state, np.int32(actions[-1]))
        if ended(state):
            return actions, True
    return actions, False


@functools.cache
def _compiled(game: Game) -> tuple[Callable, Callable, Callable]:
    """(play, legal, whether a state has ended), jitted."""
    one = lambda state: is_over(game, jax.tree.map(lambda x: x[None], state))[0]
    return jax.jit(game.play), jax.jit(game.legal), jax.jit(one)


def distinct(game: Game, plies: int, key: jax.Array, most: int) -> np.ndarray:
    """Random openings (`any_play`) of one new game, that of key 0, that all lead to different
    positions. `after` plays them; another random start may not allow them.

    Args:
      game: the game.
      plies: the length of each, at least 1.
      key: PRNG key.
      most: the number of openings to draw; a larger number leaves the first ones unchanged.

    Returns:
      i32[n, plies]: the actions; n is `most`, or less if no more are found.
    """
    by_position: dict[bytes, np.ndarray] = {}
    previous, number = -1, 0
    while previous < len(by_position) < most:
        previous = len(by_position)
        actions, positions = jax.device_get(
            _draw_round(game, plies, jax.random.fold_in(key, number))
        )
        number += 1
        for i, opening in enumerate(actions):
            position = b"".join(x[i].tobytes() for x in jax.tree.leaves(positions))
            by_position.setdefault(position, opening)
    return np.stack([*by_position.values()][:most])


@functools.partial(jax.jit, static_argnames=("game", "plies"))
def _draw_round(game: Game, plies: int, key: jax.Array) -> tuple[jax.Array, Any]:
    """(actions i32[_ROUND, plies], the positions [_ROUND] after them)."""
    new_game = lambda _: game.init(jax.random.key(0))
    states = jax.vmap(new_game)(jnp.arange(_ROUND))
    states, actions = draw(game, key, states, plies)
    return actions.T, positions_of(game, states)


@functools.partial(jax.jit, static_argnames="game")
def after(game: Game, openings: jax.Array) -> Any:
    """States [n] after openings i32[n, plies] of the new game of key 0."""

    def one(opening):
        step = lambda state, action: (game.play(state, action), None)
        return lax.scan(step, game.init(jax.random.key(0)), opening)[0]

    return jax.vmap(one)(openings)
