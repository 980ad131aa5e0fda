"""A position as planes, seen by the player to move."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gozero.go import bitboard as bb
from gozero.go.rules import WHITE, GameState, Position, Rules, own_and_opponent

PLANES = (
    "own stones",
    "opponent's stones",
    "own stones in atari",
    "opponent's stones in atari",
    "the ko point",
    "the board (all ones)",
    "White to play",
    "the opponent has just passed",
    "points that komi gives the player to move, / 20",
)
NUM_PLANES = len(PLANES)
KOMI_SCALE = 20.0


def planes(rules: Rules, state: GameState, position: Position) -> jax.Array:
    """f32[size, size, NUM_PLANES] of one position; only komi is taken from the state."""
    lay = rules.layout
    white_moves = position.to_play == WHITE
    own, opponent = own_and_opponent(position)
    boards = (
        own,
        opponent,
        bb.intersection(own, position.atari),
        bb.intersection(opponent, position.atari),
        bb.at(lay, position.ko),
    )
    komi = jnp.where(white_moves, state.komi, -state.komi) / KOMI_SCALE
    scalars = (jnp.float32(1), white_moves, position.passes > 0, komi)
    points = [bb.unpack(lay, board).astype(jnp.float32) for board in boards]
    constants = [jnp.full(rules.num_points, x, jnp.float32) for x in scalars]
    stacked = jnp.stack([*points, *constants], axis=-1)
    return stacked.reshape(rules.size, rules.size, NUM_PLANES)
