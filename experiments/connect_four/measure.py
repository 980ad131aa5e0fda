"""What a network plays: its opening, games against plain MCTS, positions of known results."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from experiments.connect_four.config import POSITIONS
from gozero.games.connect_four import connect_four_game
from gozero.games.rollouts import rollout_evaluator
from gozero.play.evaluators import network_evaluator
from gozero.play.setups import gumbel_search, to_win
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator
from gozero.search.search import search

GAME = connect_four_game()
_STEP, _OUTCOME = (jax.jit(jax.vmap(function)) for function in (GAME.play, GAME.outcome))
CENTRE = 3

Choose = Callable[[Any, jax.Array, Any], jax.Array]
"""(params, key, states [B]) -> actions i32[B]."""


def network_player(config: Any, params: dict, num_simulations: int) -> tuple[Choose, Any]:
    """Gumbel's search without its noise, and the parameters."""
    evaluator = network_evaluator(GAME, config, params)
    return _player(evaluator, to_win(gumbel_search(num_simulations))), params


def plain_mcts(num_simulations: int) -> tuple[Choose, Any]:
    """Uniform priors and one random game a leaf."""
    evaluator = rollout_evaluator(GAME)
    return _player(evaluator, SearchConfig(num_simulations, select=evaluator.select)), None


def _player(evaluator: Evaluator, settings: SearchConfig) -> Choose:
    @jax.jit
    def choose(params: Any, key: jax.Array, states: Any) -> jax.Array:
        own = evaluator._replace(params=params)
        return search(GAME, own, key, states, settings).action

    return choose


def opening(player: tuple[Choose, Any], seed: int, done: int = 0) -> Iterator[dict]:
    """Where it begins, once."""
    choose, params = player
    for _ in range(done, 1):
        column = int(choose(params, jax.random.key(seed), _new(1))[0])
        yield {"column": column, "holds": column == CENTRE}


def games(player, opponent, count: int, batch: int, seed: int, done: int = 0) -> Iterator[dict]:
    """Results of games in which the player begins, batch by batch, but for those that are done."""
    for start in range(done * batch, count, batch):
        key = jax.random.fold_in(jax.random.key(seed), start)
        value = _play(player, opponent, min(batch, count - start), key)
        won, drawn, lost = ((value == x).sum() for x in (1, 0, -1))
        yield {"won": int(won), "drawn": int(drawn), "lost": int(lost)}


def _play(player, opponent, count: int, key: jax.Array) -> np.ndarray:
    """f32[B]: how games ended for the player, who begins."""
    states = _new(count)
    for ply in range(GAME.max_moves):
        over, value = map(np.asarray, _OUTCOME(states))
        if over.all():
            break
        choose, params = (player, opponent)[ply % 2]
        states = _STEP(states, choose(params, jax.random.fold_in(key, ply), states))
    _, value = map(np.asarray, _OUTCOME(states))
    began = np.asarray(jax.vmap(GAME.observe)(states))[:, 0, 0, 2] > 0
    return np.where(began, value, -value)


def known_results(player, count: int, batch: int, seed: int, done: int = 0) -> Iterator[dict]:
    """In how many positions the move keeps what there is, batch by batch, as `games`."""
    choose, params = player
    rows = json.loads(POSITIONS.read_text())[:count]
    for start in range(done * batch, len(rows), batch):
        some = rows[start : start + batch]
        states = _after([row["columns"] for row in some])
        actions = np.asarray(choose(params, jax.random.key(seed), states))
        best = [max(row["results"].values()) for row in some]
        found = [row["results"].get(str(a)) for row, a in zip(some, actions, strict=True)]
        right = sum(x == y for x, y in zip(found, best, strict=True))
        yield {"positions": len(some), "right": right}


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
