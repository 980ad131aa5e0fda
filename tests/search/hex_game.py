"""Hex as a `Game`, n x n, no swap: the first player joins top and bottom, the other the sides.

Point (row, col) touches (row, col +- 1), (row +- 1, col), (row - 1, col + 1) and
(row + 1, col - 1). A colour's stones are a word a row, its lowest bit the left column. Nobody
passes and somebody always wins.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.hashing import mix
from gozero.search.game import Evaluation, Game
from tests.reference.hex import Hex

FIRST, SECOND = 0, 1


class Board(NamedTuple):
    stones: jax.Array  # u16[2, n]: the first player's rows, and the second's
    to_play: jax.Array  # u8[]: FIRST or SECOND


class Playout(NamedTuple):
    """How random fills of M positions came out, as the player to move there sees it."""

    value: jax.Array  # f32[M]: +1 or -1
    first_play: jax.Array  # bool[M, 2, A]: where the mover (0), or the opponent (1), played first


def empty(size: int) -> Board:
    return Board(jnp.zeros((2, size), jnp.uint16), jnp.uint8(FIRST))


def hex_game(size: int) -> Game:
    """The game; an action is a point, row by row.

    Raises:
      ValueError: a size that a word does not hold.
    """
    if not 1 <= size <= 16:
        raise ValueError(f"size: {size} is not from 1 to 16")
    return Game(
        size * size,
        init=lambda key: empty(size),
        play=play,
        legal=legal,
        outcome=outcome,
        observe=lambda board: board,
        max_moves=size * size,
    )


def play(board: Board, action: jax.Array) -> Board:
    size = board.stones.shape[1]
    points = jnp.arange(size * size) == action
    colour = jnp.arange(2, dtype=jnp.uint8) == board.to_play
    stone = jnp.where(colour[:, None], pack(points)[None], np.uint16(0))
    return Board(board.stones | stone, np.uint8(SECOND) - board.to_play)


def legal(board: Board) -> jax.Array:
    return empty_points(board) & ~outcome(board)[0]


def outcome(board: Board):
    """The player to move has lost if the other is through; he has moved last."""
    mover_is_first = board.to_play == FIRST
    over = jnp.where(mover_is_first, joins(board.stones[SECOND], SECOND), _first_joins(board))
    return over, jnp.where(over, -1.0, 0.0)


def _first_joins(board: Board) -> jax.Array:
    return joins(board.stones[FIRST], FIRST)


def observe(context, board: Board, trail) -> Board:
    del context, trail
    return board


def key(board: Board) -> jax.Array:
    """u32[2]: two hashes of the stones; whose turn it is follows from them."""
    keys = jnp.array([0x9E3779B9, 0x7F4A7C15], jnp.uint32)
    for row in range(board.stones.shape[1]):
        both = board.stones[:, row].astype(jnp.uint32)
        keys = mix(keys * np.uint32(31) ^ (both[0] | (both[1] << np.uint32(16))))
    return keys


def joins(rows: jax.Array, colour: int) -> jax.Array:
    """bool[]: whether a colour's stones u16[n] join its two sides. Trip bound: n^2."""
    size = rows.shape[0]
    top = jnp.arange(size) == 0
    seeds = jnp.where(top, rows, np.uint16(0)) if colour == FIRST else rows & np.uint16(1)

    def spread(carry):
        reached, _ = carry
        none = jnp.zeros(1, jnp.uint16)
        above = jnp.concatenate([none, reached[:-1]])
        below = jnp.concatenate([reached[1:], none])
        one = np.uint16(1)
        beside = (reached << one) | (reached >> one)
        # From the row above one comes straight down or to the left, from below up or right.
        found = reached | beside | above | (above >> one) | below | (below << one)
        return found & rows, reached

    start = (seeds, jnp.zeros_like(seeds))
    reached, _ = lax.while_loop(lambda carry: (carry[0] != carry[1]).any(), spread, start)
    last_column = np.uint16(1 << (size - 1))
    return reached[-1] != 0 if colour == FIRST else (reached & last_column).any()


def pack(points: jax.Array) -> jax.Array:
    """bool[n^2] -> u16[n]."""
    size = int(np.sqrt(points.shape[0]))
    bit = jnp.arange(size, dtype=jnp.uint16)
    bits = points.reshape(size, size).astype(jnp.uint16) << bit[None]
    return jnp.sum(bits, axis=1, dtype=jnp.uint16)


def unpack(rows: jax.Array) -> jax.Array:
    """u16[n] -> bool[n^2]."""
    bit = jnp.arange(rows.shape[0], dtype=jnp.uint16)
    return ((rows[:, None] >> bit[None]) & np.uint16(1)).reshape(-1) == 1


def empty_points(board: Board) -> jax.Array:
    """bool[A]."""
    return ~unpack(board.stones[FIRST] | board.stones[SECOND])


def playouts(boards: Board, key: jax.Array) -> Playout:
    """One random game from each of M boards, played on until the board is full.

    Who is through first stays through, so the moves after that change nothing but `first_play`.
    Nobody plays where a stone is: the first play at a point is the only one.
    """
    count, _, size = boards.stones.shape
    random = jax.random.uniform(key, (count, size * size))
    return jax.vmap(_fill)(boards, random)


def _fill(board: Board, random: jax.Array) -> Playout:
    """The points in the order of f32[A] numbers, the mover's first."""
    vacant = empty_points(board)
    order = jnp.argsort(jnp.where(vacant, random, jnp.inf))
    rank = jnp.zeros(order.shape, jnp.int32).at[order].set(jnp.arange(order.shape[0]))
    movers, opponents = vacant & (rank % 2 == 0), vacant & (rank % 2 == 1)
    mover_is_first = board.to_play == FIRST
    filled = board.stones[FIRST] | pack(jnp.where(mover_is_first, movers, opponents))
    mover_won = joins(filled, FIRST) == mover_is_first
    return Playout(jnp.where(mover_won, 1.0, -1.0), jnp.stack([movers, opponents]))


def playout_evaluate(params, rng, boards: Board) -> Evaluation:
    """An evaluator: one random fill a position, uniform priors."""
    del params
    count, _, size = boards.stones.shape
    played = playouts(boards, rng)
    return Evaluation(jnp.zeros((count, size * size)), played.value, played.first_play)


def as_board(game: Hex) -> Board:
    """The plain game's position."""
    cells = np.array(game.cells).reshape(game.size, -1)
    bit = 1 << np.arange(game.size)
    rows = lambda stones: (stones * bit).sum(axis=1).astype(np.uint16)
    stones = np.stack([rows(cells == 1), rows(cells == -1)])
    return Board(stones, np.uint8(FIRST if game.to_play == 1 else SECOND))
