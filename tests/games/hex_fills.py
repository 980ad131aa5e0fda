"""Hex boards filled at random: a full board has the winner that the game had on the way.

Fills give more first plays than games that stop at the winning move.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gozero.games import hex
from gozero.games.hex import FIRST, HexBoard
from gozero.search.game import Evaluation, Evaluator


def fill_evaluator(size: int) -> Evaluator:
    """An evaluator by one fill per position, with its first plays; uniform priors."""

    def evaluate(params, key, boards: HexBoard) -> Evaluation:
        count = boards.to_play.shape[0]
        random = jax.random.uniform(key, (count, size * size))
        value, played = jax.vmap(_fill)(boards, random)
        return Evaluation(jnp.zeros((count, size * size)), value, played)

    return Evaluator(evaluate, observe=lambda context, board, ancestors: board)


def _fill(board: HexBoard, random: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(value f32[], played bool[2, A]): points are filled in random order, the mover first."""
    first, second = (hex._unpack(rows) for rows in board.stones)
    vacant = ~(first | second).reshape(-1)
    order = jnp.argsort(jnp.where(vacant, random, jnp.inf))
    rank = jnp.zeros(order.shape, jnp.int32).at[order].set(jnp.arange(order.shape[0]))
    movers, opponents = vacant & (rank % 2 == 0), vacant & (rank % 2 == 1)
    began = board.to_play == FIRST
    won = _joins(first | jnp.where(began, movers, opponents).reshape(first.shape)) == began
    return jnp.where(won, 1.0, -1.0), jnp.stack([movers, opponents])


def _joins(stones: jax.Array) -> jax.Array:
    """bool[]: whether stones bool[n, n] join top and bottom."""
    bits = np.uint16(1) << np.arange(stones.shape[0], dtype=np.uint16)
    rows = tuple(jnp.sum(jnp.where(row, bits, 0), dtype=jnp.uint16) for row in stones)
    none = tuple(jnp.zeros_like(row) for row in rows[1:])
    reached = hex._flood((rows[0], *none), rows)
    return reached[-1] != 0
