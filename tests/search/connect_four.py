"""Connect Four as a `Game`, on a board of any width and of 8 rows at most.

A colour's stones are a byte a column, the lowest row its lowest bit: 2 x 7 bytes for 7x6.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.hashing import mix
from gozero.search.game import Evaluation, Game

LINE = 4
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))  # (columns, rows) to the next of a line


class Board(NamedTuple):
    own: jax.Array  # u8[width]: the player to move
    other: jax.Array  # u8[width]


def empty(width: int) -> Board:
    return Board(jnp.zeros(width, jnp.uint8), jnp.zeros(width, jnp.uint8))


def connect_four(width: int = 7, height: int = 6) -> Game:
    """The game; an action is a column.

    Raises:
      ValueError: a height that a byte does not hold.
    """
    if not 1 <= height <= 8:
        raise ValueError(f"height: {height} is not from 1 to 8")

    def outcome(board):
        return _result(board, height)

    return Game(
        width,
        init=lambda key: empty(width),
        play=play,
        legal=lambda board: _open_columns(board, height) & ~outcome(board)[0],
        outcome=outcome,
        observe=lambda board: board,
        max_moves=width * height,
    )


def play(board: Board, action: jax.Array) -> Board:
    """A stone falls on the column's topmost: one more than its bits."""
    taken = board.own | board.other
    is_it = jnp.arange(taken.shape[0]) == action
    stone = jnp.where(is_it, taken + np.uint8(1), np.uint8(0))
    return Board(board.other, board.own | stone)


def has_line(columns: jax.Array) -> jax.Array:
    """bool[]: whether stones u8[width] have four in a row somewhere."""
    found = jnp.bool_(False)
    for across, up in _DIRECTIONS:
        line = columns
        for step in range(1, LINE):
            line = line & _moved(columns, step * across, step * up)
        found = found | line.any()
    return found


def _moved(columns: jax.Array, across: int, up: int) -> jax.Array:
    """What stands `across` columns to the right and `up` rows above each point."""
    width = columns.shape[0]
    beyond = jnp.zeros(min(across, width), jnp.uint8)
    moved = jnp.concatenate([columns[across:], beyond])
    return moved >> np.uint8(up) if up >= 0 else moved << np.uint8(-up)


def _result(board: Board, height: int):
    """Lost, for the player to move, if the other has a line; a full board is a draw."""
    lost = has_line(board.other)
    over = lost | ~_open_columns(board, height).any()
    return over, jnp.where(lost, -1.0, 0.0)


def _open_columns(board: Board, height: int) -> jax.Array:
    return (board.own | board.other) < np.uint8(2**height - 1)


def playout(board: Board, seed: jax.Array, height: int) -> jax.Array:
    """f32[]: what uniformly random play to the end comes to, for the player to move.

    Trip bound: the empty points. Move i depends on the seed, u32[], and i.
    """

    def goes_on(carry):
        board, _ = carry
        return ~_result(board, height)[0]

    def move(carry):
        board, moves = carry
        is_open = _open_columns(board, height)
        random = mix(seed + moves.astype(jnp.uint32) * np.uint32(0x9E3779B9))
        number = random % jnp.sum(is_open, dtype=jnp.uint32)
        column = jnp.argmax(jnp.cumsum(is_open) > number.astype(jnp.int32))
        return play(board, column), moves + 1

    board, moves = lax.while_loop(goes_on, move, (board, jnp.int32(0)))
    value = _result(board, height)[1]
    return jnp.where(moves % 2 == 1, -value, value)


def playout_evaluate(width: int = 7, height: int = 6):
    """An evaluator: one uniform playout a position, uniform priors."""

    def evaluate(params, rng, boards):
        del params
        count = boards.own.shape[0]
        seeds = jax.random.bits(rng, (count,), jnp.uint32)
        value = jax.vmap(lambda board, seed: playout(board, seed, height))(boards, seeds)
        return Evaluation(jnp.zeros((count, width)), value)

    return evaluate
