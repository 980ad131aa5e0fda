"""Temporal-difference search: TD(0) from the current position, then the best move (RLGO 2.4).

Silver, Sutton & Müller (2012), section 5. For each move the player starts from learnt weights, or
from zeros; it plays simulated games against itself from the position to the end, which update those
weights; then it takes the move whose afterstate has the highest value. There is no tree. What the
simulations have learnt may be kept until the game is over, like the transient memory of Dyna-2
(Silver, Sutton & Müller 2008), or discarded after the move.

The simulations of a position run in lockstep on the same weights (see `td`), so the games of a
batch are searched one after the other: each fills the device by itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.go import rules as go
from gozero.playouts import playable
from gozero.runs.settings import ABOVE_0, COUNT, Range, check_ranges
from gozero.td import local_shape, td
from gozero.td import shapes as local
from gozero.td.shapes import Shapes


class TdParams(NamedTuple):
    """The player's parameters."""

    weight_index: jax.Array  # i32[S, E]: the weights of each entry, see `shapes.Sharing`
    weights: jax.Array  # f32[K + 1]


@dataclasses.dataclass(frozen=True)
class TdSearchConfig:
    """The configuration of a player (static).

    Attributes:
      td: how the simulations play and learn; its rules are those of the game.
      simulations: games to simulate before each move; 0 plays the best move by the given weights.
      lanes: how many of these are played in lockstep; all, if there are fewer.
      rate: the learning rate alpha.

    Raises:
      ValueError: simulations below 0, lanes below 1, or a rate that is not above 0.
    """

    td: td.TdConfig
    simulations: int = 1000
    lanes: int = 32
    rate: float = 1.0

    def __post_init__(self):
        check_ranges(self, simulations=Range(0, whole=True), lanes=COUNT, rate=ABOVE_0)


def params(shapes: Shapes, weights: np.ndarray | None = None) -> TdParams:
    """A player's parameters: weights f32[K + 1], from `gozero.td.weights.load`; None for zeros."""
    share = local.sharing(shapes)
    if weights is None:
        weights = np.zeros(share.num_weights + 1, np.float32)
    return TdParams(jnp.asarray(share.weight_index), jnp.asarray(weights))


class Best(NamedTuple):
    """The move whose afterstate has the highest value, and that value."""

    action: jax.Array  # i32; a pass if the game has ended
    value: jax.Array  # f32 in [-1, 1], for the player to move


def player(config: TdSearchConfig) -> Callable[..., tuple[Best, jax.Array]]:
    """Returns ``(params, key, states [B], weights) -> (Best [B], weights f32[B, K + 1])``.

    Each game's simulations start from its own row of the weights f32[B, K + 1] or, if these are
    None, from the weights of the params; the updated weights are returned.
    """

    def play(params: TdParams, key: jax.Array, states: go.GameState, weights=None):
        keys = jax.random.split(key, states.komi.shape[0])

        def play_one(args):
            key, state, own_weights = args
            return search(
                config,
                params if own_weights is None else params._replace(weights=own_weights),
                key,
                state,
            )

        return lax.map(play_one, (keys, states, weights))

    return play


def search(
    config: TdSearchConfig, params: TdParams, key: jax.Array, state: go.GameState
) -> tuple[Best, jax.Array]:
    """(the best move in one game after the simulations, the weights f32[K + 1] by then)."""
    learn_key, choose_key = jax.random.split(key)
    params = params._replace(weights=learn(config, params, learn_key, state))
    return best(config, params, choose_key, state), params.weights


def best(config: TdSearchConfig, params: TdParams, key: jax.Array, state: go.GameState) -> Best:
    """The best move in one game by the given weights; ties are broken at random."""
    rules, shapes = config.td.rules, config.td.shapes
    positions = jax.tree.map(lambda x: x[None], state.position)
    table = local.expand(params.weight_index, params.weights)
    logits = local_shape.action_logits(rules, shapes, table, positions)
    legal = go.legal_actions(rules, state)[None, :-1]
    allowed = playable.no_own_eyes(rules, positions, legal)
    action = td.choose(allowed, positions, logits, 0.0, key)[0]
    logit = jnp.take(logits[0], action)
    for_mover = jnp.where(state.position.to_play == go.WHITE, -logit, logit)
    return Best(action, jnp.tanh(for_mover / 2))  # 2 logistic(x) - 1


def learn(
    config: TdSearchConfig, params: TdParams, key: jax.Array, state: go.GameState
) -> jax.Array:
    """f32[K + 1]: the weights after the simulations from one game's position.

    Trip bound: the number of simulations times the moves of the longest.
    """
    if config.simulations == 0:
        return params.weights
    task = td.Task(params.weight_index, state.komi, state.position)
    step = functools.partial(td.step, config.td, task)

    def one_move(carry):
        steps, ended, lanes, weights = carry
        lanes, weights, stats = step(
            lanes, weights, jnp.float32(config.rate), jax.random.fold_in(key, steps)
        )
        return steps + 1, ended + stats.ended, lanes, weights

    def continues(carry):
        return (carry[1] < config.simulations) & ~state.ended

    lanes = td.start(config.td, state.position, min(config.lanes, config.simulations))
    start = (jnp.int32(0), jnp.int32(0), lanes, params.weights)
    return lax.while_loop(continues, one_move, start)[3]
