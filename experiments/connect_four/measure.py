"""Measures a network: its opening, games against plain MCTS, and solved positions."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from experiments.connect_four.config import POSITIONS
from gozero.games.connect_four import connect_four_game
from gozero.games.rollouts import rollout_evaluator
from gozero.play import arena
from gozero.play.evaluators import over_symmetries
from gozero.play.networks import network_evaluator
from gozero.play.player import Player, Turn, search_player
from gozero.play.searches import gumbel_search, to_win
from gozero.search.config import SearchConfig
from gozero.search.game import NO_ACTION

GAME = connect_four_game()
CENTRE = 3


def network_player(config: Any, params: dict, num_simulations: int) -> Player:
    """Gumbel search without noise; the network is averaged over a position and its mirror image."""
    evaluator = over_symmetries(GAME, network_evaluator(GAME, config, params))
    return search_player(GAME, evaluator, to_win(gumbel_search(num_simulations)))


def plain_mcts(num_simulations: int) -> Player:
    """Uniform priors and one random game per leaf."""
    evaluator = rollout_evaluator(GAME)
    return search_player(GAME, evaluator, SearchConfig(num_simulations, select=evaluator.select))


def _choose(player: Player, seed: int, states: Any) -> np.ndarray:
    """i32[B]: the player's actions, each from a fresh search."""
    unseen = jnp.full((2, len(jax.tree.leaves(states)[0])), NO_ACTION, jnp.int32)
    turn = Turn(states, arena.legal_actions(GAME, states), unseen)
    choice = arena.choose_actions(player.choose, player.params, jax.random.key(seed), 0, turn, None)
    return np.asarray(choice.action)


def opening(player: Player, seed: int, done: int = 0) -> Iterator[dict]:
    """Yields the opening move, unless it is done."""
    for _ in range(done, 1):
        column = int(_choose(player, seed, _new(1))[0])
        yield {"column": column, "holds": column == CENTRE}


def games(
    player: Player, opponent: Player, count: int, batch: int, seed: int, done: int = 0
) -> Iterator[dict]:
    """Yields each batch's results of games that the player begins; skips `done` batches."""
    for start in range(done * batch, count, batch):
        numbers = range(start, min(start + batch, count))
        key = jax.random.fold_in(jax.random.key(seed), start)
        sides, lanes = (player, opponent), -(-len(numbers) // 2)  # of each of two batches
        begins, new = lambda number: 0, lambda numbers: _new(len(numbers))
        played = arena.play_games(GAME, sides, key, numbers, begins, lanes, new)
        outcomes = [one.outcome for one in played]
        yield {name: outcomes.count(x) for name, x in (("won", 1), ("drawn", 0), ("lost", -1))}


def known_results(
    player: Player, count: int, batch: int, seed: int, done: int = 0
) -> Iterator[dict]:
    """Yields, for each batch, the number of positions in which the move keeps the best result.

    Skips `done` batches.
    """
    rows = json.loads(POSITIONS.read_text())[:count]
    for start in range(done * batch, len(rows), batch):
        part = rows[start : start + batch]
        states = _after([row["columns"] for row in part])
        actions = _choose(player, seed, states)
        best = [max(row["results"].values()) for row in part]
        results = [row["results"].get(str(a)) for row, a in zip(part, actions, strict=True)]
        right = sum(x == y for x, y in zip(results, best, strict=True))
        yield {"positions": len(part), "right": right}


def _new(count: int) -> Any:
    return jax.vmap(GAME.init)(jax.random.split(jax.random.key(0), count))


def _after(sequences: list[list[int]]) -> Any:
    """States [B] after sequences of columns."""
    actions = np.full((GAME.max_moves, len(sequences)), -1, np.int32)
    for i, columns in enumerate(sequences):
        actions[: len(columns), i] = columns
    return _played(jnp.asarray(actions))


@jax.jit
def _played(actions: jax.Array) -> Any:
    def one(states, action):
        after = jax.vmap(GAME.play)(states, action)
        keep = functools.partial(jnp.where, action < 0)
        return jax.tree.map(keep, states, after), None

    return lax.scan(one, _new(actions.shape[1]), actions)[0]
