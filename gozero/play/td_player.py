"""Temporal-difference search as a player: RLGO 2.4."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gozero.go.rules import GameState, Rules
from gozero.play.player import NO_ACTION, Choice, Player, Turn, check_resign
from gozero.td import td_search
from gozero.td import weights as shape_weights
from gozero.td.td import TdConfig
from gozero.td.td_search import TdSearchConfig
from gozero.td.weights import Learnt

LANES = 32


def td_player(
    rules: Rules,
    simulations: int = 1000,
    learnt: Learnt | None = None,
    lanes: int = LANES,
    rate: float = 1.0,
    epsilon: float = 0.1,
    resign: float | None = None,
    reuse_weights: bool = False,
) -> Player:
    """A player that learns what local shapes are worth before each move; see `td_search`.

    He has no tree, fills no own eye and passes only where there is no other move. The games of a
    match are searched one after the other.

    Args:
      rules: the rules; the simulations' own ko rule is the simple one.
      simulations: games against himself before each move; 0: the best move by what was learnt.
      learnt: what he begins each move with, see `gozero.td.weights.read`; None: what comes with the
        package for the size.
      lanes: simulations in lockstep.
      rate: alpha.
      epsilon: the probability of a random move in a simulation.
      resign: he resigns when the best move is worth less, from -1 to 0; None: never.
      reuse_weights: what he has learnt is kept until the game is over; else each move begins with
        `learnt` again.

    Raises:
      ValueError: shapes of another size, none that come with the package, or a number that is
        out of range.
    """
    learnt = shape_weights.load(rules.size) if learnt is None else learnt
    config = TdSearchConfig(TdConfig(rules, learnt.shapes, epsilon), simulations, lanes, rate)
    check_resign(resign)
    play = td_search.player(config)

    def choose(params: td_search.Params, key: jax.Array, turn: Turn, memory) -> Choice:
        if memory is not None:
            new = turn.recent[0] == NO_ACTION
            memory = jnp.where(new[:, None], params.weights, memory)
        found, weights = play(params, key, turn.states, memory)
        resigns = None if resign is None else found.value < resign
        memory = None if memory is None else weights
        return Choice(found.action, jnp.isfinite(found.value), memory, resigns)

    def begin(params: td_search.Params, states: GameState) -> jax.Array:
        return jnp.tile(params.weights, (states.komi.shape[0], 1))

    params = td_search.params(learnt.shapes, learnt.weights)
    return Player(choose, params, begin if reuse_weights else None)
