"""RLGO 2.4's temporal-difference search as a player: no tree, but weights of local shapes that it
learns before each move."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gozero.go.rules import GameState, Rules
from gozero.play.player import Choice, Player, Turn, check_resign
from gozero.search.game import NO_ACTION
from gozero.td import td_search
from gozero.td import weights as shape_weights
from gozero.td.td import TdConfig
from gozero.td.td_search import TdSearchConfig
from gozero.td.weights import Learnt

TD_LANES = 32
"""Simulations that temporal-difference search runs in lockstep."""


def td_player(
    rules: Rules,
    simulations: int = 1000,
    learnt: Learnt | None = None,
    lanes: int = TD_LANES,
    rate: float = 1.0,
    epsilon: float = 0.1,
    resign: float | None = None,
    reuse_weights: bool = False,
) -> Player:
    """A player that learns the values of local shapes before each move; see `td_search`.

    It has no tree, never fills an own eye and passes only if it has no other move. The games of a
    match are searched one after the other.

    Args:
      rules: the rules of the game; the simulations use simple ko.
      simulations: games against itself before each move; 0: play the best move by `learnt`.
      learnt: the initial weights for each move, see `gozero.td.weights.read`; None: those in the
        package for the size.
      lanes: simulations in lockstep.
      rate: the learning rate, alpha.
      epsilon: the probability of a random move in a simulation.
      resign: the player resigns when its best move's value is below this, in [-1, 0); None: never.
      reuse_weights: whether learnt weights are kept until the game is over; else every move starts
        from `learnt` again.

    Raises:
      ValueError: shapes for another size, a size without shapes in the package, or a number out of
        range.
    """
    learnt = shape_weights.load(rules.size) if learnt is None else learnt
    config = TdSearchConfig(TdConfig(rules, learnt.shapes, epsilon), simulations, lanes, rate)
    check_resign(resign)
    play = td_search.player(config)

    def choose(params: td_search.TdParams, key: jax.Array, turn: Turn, memory) -> Choice:
        if memory is not None:
            is_new_game = turn.recent[0] == NO_ACTION
            memory = jnp.where(is_new_game[:, None], params.weights, memory)
        best, weights = play(params, key, turn.states, memory)
        resigns = None if resign is None else best.value < resign
        memory = None if memory is None else weights
        return Choice(best.action, jnp.isfinite(best.value), memory, resigns)

    def begin(params: td_search.TdParams, states: GameState) -> jax.Array:
        return jnp.tile(params.weights, (states.komi.shape[0], 1))

    params = td_search.params(learnt.shapes, learnt.weights)
    return Player(choose, params, begin if reuse_weights else None)
