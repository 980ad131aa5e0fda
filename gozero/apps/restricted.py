"""Games in which a search must not consider some moves, and positions after passes."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go.rules import GameState, Position
from gozero.search.game import Ancestors, Evaluator, Game


class RestrictedState(NamedTuple):
    """A game, and the moves that its search must not consider."""

    state: GameState
    avoid: Any  # i32[2, A]: depth until which a player avoids an action; 0: it does not


def to_analyse(state: GameState) -> GameState:
    """The game as if it had gone on instead of the latest passes: one at the root of an analysis
    ends nothing, and the final position is analysed like any other (as in KataGo, by its
    `conservativePass` and `forceNonTerminal`)."""
    return state.replace(position=state.position.replace(passes=np.int8(0)))


def without_avoided(game: Game, evaluator: Evaluator) -> tuple[Game, Evaluator]:
    """The game and its evaluator for `RestrictedState`s: avoided moves are illegal in the search,
    unless no other move is legal."""
    history, observe = game.history, evaluator.observe
    assert history is not None  # Go has one

    def root(restricted: RestrictedState) -> tuple[RestrictedState, Position]:
        context, position = history.root(restricted.state)
        return RestrictedState(context, restricted.avoid), position

    def legal(restricted: RestrictedState, position: Position, ancestors: Ancestors) -> jax.Array:
        allowed = history.legal(restricted.state, position, ancestors)
        preferred = allowed & (ancestors.length >= restricted.avoid[position.to_play])
        return jnp.where(jnp.any(preferred), preferred, allowed)

    on_state = lambda function: lambda restricted, *rest: function(restricted.state, *rest)
    if observe is not None:
        evaluator = evaluator._replace(
            observe=lambda restricted, *rest: observe(restricted.state, *rest)
        )
    restricted_game = game._replace(
        history=history._replace(
            root=root,
            legal=legal,
            outcome=on_state(history.outcome),
            observe=on_state(history.observe),
            scored=None if history.scored is None else on_state(history.scored),
        )
    )
    return restricted_game, evaluator
