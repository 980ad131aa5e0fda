"""The search behind genmove: one tree, compiled once for a board size."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from gozero.go.rules import GameState, Rules, with_to_play
from gozero.players.evaluators import make_evaluator
from gozero.players.go_game import go_game
from gozero.search.config import SearchConfig
from gozero.search.search import search

if TYPE_CHECKING:
    from gozero.apps.gtp_config import GtpConfig


class Found(NamedTuple):
    """What a search says of the root, for the colour that it searched for."""

    action: int  # the most visited
    value: float  # in [-1, 1]
    ok: bool  # every evaluation was a finite number


class Searcher:
    """`gozero.search` for single games under some rules.

    Raises:
      ValueError: weights that are missing, damaged or for another size.
    """

    def __init__(self, rules: Rules, config: GtpConfig):
        evaluator = make_evaluator(rules, config.evaluator, config.weights, config.seed)
        game = go_game(rules, evaluator.observe)
        settings = SearchConfig(num_simulations=config.simulations, select=evaluator.select)

        def one_tree(params, key: jax.Array, state: GameState, colour: jax.Array):
            states = jax.tree.map(lambda x: x[None], with_to_play(state, colour))
            result = search(
                game, evaluator.evaluate, params, key, states, states.position, settings
            )
            return result.action[0], result.value[0], result.ok[0]

        self._search = jax.jit(one_tree)
        self._params = evaluator.params
        self._key = jax.random.key(config.seed)

    def search(self, state: GameState, colour: int, number: int) -> Found:
        """Search a game that is not over, for a colour; `number` picks the random stream."""
        key = jax.random.fold_in(self._key, number)
        action, value, ok = self._search(self._params, key, state, jnp.int32(colour))
        return Found(int(action), float(value), bool(ok))
