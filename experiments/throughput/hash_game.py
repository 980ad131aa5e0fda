"""A game made of hashes, to time trees alone: rules and evaluation cost next to nothing."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.hashing import mix
from gozero.search.game import Evaluation, Game


class Position(NamedTuple):
    code: jax.Array  # u32[]


def roots(num_trees: int, seed: int) -> Position:
    """Positions [B]."""
    number = np.arange(num_trees, dtype=np.uint32) * np.uint32(7919)
    return Position(mix(jnp.asarray(number + np.uint32(seed))))


def hash_game(num_actions: int) -> Game:
    """A game in which all actions are legal and no game ends."""

    def play(position, action):
        return Position(mix(position.code * np.uint32(31) + action.astype(jnp.uint32)))

    return Game(
        num_actions,
        init=lambda key: Position(jax.random.bits(key)),
        play=play,
        legal=lambda position: jnp.ones(num_actions, bool),
        outcome=lambda position: (jnp.bool_(False), jnp.float32(0)),
        observe=lambda position: position.code,
        max_moves=10**6,
    )


def evaluator(num_actions: int, spread: float, value_scale: float, playouts: bool = False):
    """An evaluator: logits uniform in [0, spread], values uniform in [-value_scale, value_scale].

    With playouts it also returns who played each action first: either player or no one, a third
    each.
    """

    def evaluate(params, key, codes):
        del params, key
        action = jnp.arange(num_actions, dtype=jnp.uint32)[None] * np.uint32(0x27D4EB2D)
        bits = mix(codes[:, None] ^ (action + np.uint32(12345)))
        logits = (bits >> np.uint32(8)).astype(jnp.float32) * (spread / 2**24)
        value = mix(codes ^ np.uint32(0xABCDEF)).astype(jnp.float32) * (2 / 2**32) - 1
        by = bits % 3
        played = jnp.stack([by == 0, by == 1], axis=1) if playouts else None
        return Evaluation(logits, value * value_scale, played)

    return evaluate
