"""Connect Four as a `Game`, on 7x6 or any other board of at most 8 columns and 7 rows.

Each colour has a bitboard: one byte per column, with the lowest row in its lowest bit, and four
columns per word. A byte's highest bit is never set, so that shifting a line never wraps:

    point (column, row)  ->  word column // 4, bit (column % 4) * 8 + row
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.search.game import Game, Symmetries, one_action

_LINES = (1, 8, 9, 7)  # bits from a point to the next in a line: up, across, and both diagonals

Stones = tuple[jax.Array, ...]
"""u32 words of four columns each, scalars for one game."""


class ConnectFourBoard(NamedTuple):
    own: Stones  # of the player to move
    other: Stones


def connect_four_game(width: int = 7, height: int = 6) -> Game:
    """Connect Four; an action is a column, from the left. A full board without a line is a draw.
    The same `Game` for the same board.

    An observation is f32[height, width, 3], top row first: the stones of the player to move, the
    opponent's, and a plane of ones if the player to move began the game, else zeros.

    Raises:
      ValueError: the board does not fit into the words.
    """
    for name, size, max_size in (("width", width, 8), ("height", height, 7)):
        if not isinstance(size, int | np.integer) or not 1 <= size <= max_size:
            raise ValueError(f"{name}: {size} is not from 1 to {max_size}")
    return _connect_four_game(int(width), int(height))


@functools.cache
def _connect_four_game(width: int, height: int) -> Game:
    blank = tuple(np.uint32(0) for _ in range(-(-width // 4)))

    def init(key: jax.Array) -> ConnectFourBoard:
        del key
        return ConnectFourBoard(
            *(tuple(jnp.zeros((), jnp.uint32) for _ in blank) for _ in range(2))
        )

    def is_open(board: ConnectFourBoard) -> jax.Array:
        """bool[width]: the column is not full."""
        column = lax.iota(jnp.uint32, width)
        return ~_has(_occupied(board), column, jnp.full_like(column, height - 1))

    def outcome(board: ConnectFourBoard) -> tuple[jax.Array, jax.Array]:
        lost = has_line(board.other)
        return lost | ~is_open(board).any(), jnp.where(lost, np.float32(-1), np.float32(0))

    def play(board: ConnectFourBoard, action: jax.Array) -> ConnectFourBoard:
        """The stone lands on top of its column: adding 1 to the column's bits carries there."""
        action = one_action(action)
        over, occupied = outcome(board)[0], _occupied(board)
        bottom = np.uint32(1) << (8 * (action % 4)).astype(jnp.uint32)
        added = []
        for w, word in enumerate(occupied):
            lowest_bit = jnp.where(action // 4 == w, bottom, np.uint32(0))
            added.append(board.own[w] | ((word + lowest_bit) & ~word))
        swapped = ConnectFourBoard(board.other, tuple(added))
        return jax.tree.map(lambda new, old: jnp.where(over, old, new), swapped, board)

    def observe(board: ConnectFourBoard) -> jax.Array:
        row, column = (lax.broadcasted_iota(jnp.uint32, (height, width), i) for i in (0, 1))
        planes = [_has(stones, column, height - 1 - row) for stones in board]
        began = jnp.broadcast_to(first_to_move(board), planes[0].shape)
        return jnp.stack([*planes, began], axis=-1).astype(jnp.float32)

    return Game(
        num_actions=width,
        init=init,
        play=play,
        legal=lambda board: is_open(board) & ~outcome(board)[0],
        outcome=outcome,
        observe=observe,
        max_moves=width * height,
        symmetries=Symmetries(2, _mirror_columns, _mirror_actions),
    )


def _mirror_columns(planes: jax.Array, k: jax.Array) -> jax.Array:
    """Planes [height, width, C], mirrored left to right if k is 1."""
    return jnp.where(k == 1, planes[:, ::-1], planes)


def _mirror_actions(values: jax.Array, k: jax.Array) -> jax.Array:
    return jnp.where(k == 1, values[::-1], values)


def first_to_move(board: ConnectFourBoard) -> jax.Array:
    """bool[]: whether the player to move began the game: both have the same number of stones."""
    count = lambda stones: functools.reduce(jnp.add, map(lax.population_count, stones))
    return count(board.own) == count(board.other)


def has_line(stones: Stones) -> jax.Array:
    """bool[]: whether any four are in a row. Finds pairs of neighbours, then pairs of pairs."""
    in_line = jnp.zeros_like(stones[0])
    for bits in _LINES:
        pairs = _both(stones, _ahead(stones, bits))
        in_line = functools.reduce(jnp.bitwise_or, _both(pairs, _ahead(pairs, 2 * bits)), in_line)
    return in_line != 0


def _occupied(board: ConnectFourBoard) -> Stones:
    return tuple(a | b for a, b in zip(board.own, board.other, strict=True))


def _both(a: Stones, b: Stones) -> Stones:
    return tuple(x & y for x, y in zip(a, b, strict=True))


def _ahead(stones: Stones, bits: int) -> Stones:
    """At each point, the stone that many bits further on (fewer than 32)."""
    further = (*stones[1:], jnp.zeros_like(stones[0]))
    shift, rest = np.uint32(bits), np.uint32(32 - bits)
    return tuple((a >> shift) | (b << rest) for a, b in zip(stones, further, strict=True))


def _has(stones: Stones, column: jax.Array, row: jax.Array) -> jax.Array:
    """bool[...]: whether there is a stone at each of these points u32[...].

    (Bits are computed, not looked up: from a table of masks LLVM makes loads that it cannot
    generate code for at some batch sizes; seen with jaxlib 0.10.1.)
    """
    bit = np.uint32(1) << (np.uint32(8) * (column % 4) + row)
    hits = [jnp.where(column // 4 == w, word & bit, 0) for w, word in enumerate(stones)]
    return functools.reduce(jnp.bitwise_or, hits) != 0
