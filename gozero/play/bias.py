"""The bias b of all-moves-as-first values, measured by short searches: for `rave.MinimumMse`.

A few games are played by MC-RAVE against itself. At each root b^2 is the mean of (Q~ - Q)^2 over
well visited actions, less the part that sampling explains. The same board, playouts and seed give
the same b.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gozero.search import search as searching
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator, Game
from gozero.search.rules.rave import learnt_bias, sampling_error
from gozero.search.tree import all_edges

GAMES, MOVES = 8, 8
SIMULATIONS = 1000
LEAST = 50
"""The visits of each kind that an action needs in order to count."""


class Bias(NamedTuple):
    """A measured bias."""

    bias: float  # b, as a probability of winning
    actions: int  # how many actions it was measured on


def measure(
    game: Game,
    evaluator: Evaluator,
    search: SearchConfig,
    games: int = GAMES,
    moves: int = MOVES,
    least: int = LEAST,
    seed: int = 0,
) -> Bias:
    """Play the first moves of games, each drawn in proportion to its visits, and measure b.

    Args:
      game: the game.
      evaluator: playouts, without a heuristic.
      search: a search with all-moves-as-first values.
      games: games in lockstep.
      moves: searches of each game.
      least: visits of each kind that an action needs in order to count.
      seed: the seed of the games.

    Raises:
      ValueError: no action had as many visits.
    """

    @jax.jit
    def step(states, key):
        search_key, move_key = jax.random.split(key)
        result = searching.search(game, evaluator, search_key, states, search)
        edges = all_edges(result.tree, 0)
        square, count = jax.vmap(functools.partial(learnt_bias, least=least))(edges)
        noise = jax.vmap(functools.partial(sampling_error, least=least))(edges)
        action = jax.random.categorical(move_key, jnp.log(result.visits.astype(jnp.float32)))
        states = jax.vmap(game.play)(states, action)
        return states, (jnp.sum(square), jnp.sum(noise), jnp.sum(count))

    init_key, key = jax.random.split(jax.random.key(seed))
    states = jax.vmap(game.init)(jax.random.split(init_key, games))
    square = noise = 0.0
    actions = 0
    for move in range(moves):
        states, (more, expected, count) = step(states, jax.random.fold_in(key, move))
        square, noise = square + float(more), noise + float(expected)
        actions += int(count)
    if not actions:
        raise ValueError(f"rave_bias: no action had {least} visits, from which to learn the bias")
    return Bias((max(square - noise, 0.0) / actions) ** 0.5, actions)
