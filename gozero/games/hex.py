"""Hex as a `Game`, n x n, without the swap rule.

The first player connects top and bottom, the second left and right. Point (row, column) touches
(row, column +- 1), (row +- 1, column), (row - 1, column + 1) and (row + 1, column - 1). There are
no passes and no draws: somebody always wins, by a chain from side to side. So a board also keeps,
for each colour, the stones that are connected to its first side, and each move extends them.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import batching
from gozero.search.game import Game, Symmetries, one_action

SIZES = range(3, 14)
FIRST, SECOND = 0, 1

_AT_ONCE = 2  # steps of a flood between two checks whether it goes on

Rows = tuple[jax.Array, ...]
"""A u16 word for each row, with the left column in its lowest bit; scalars for one game."""


class HexBoard(NamedTuple):
    stones: tuple[Rows, Rows]  # the first player's, and the second's
    joined: tuple[Rows, Rows]  # those connected to the top (first player) or the left (second)
    to_play: jax.Array  # u8[]: FIRST or SECOND


def hex_game(size: int = 11) -> Game:
    """Hex; an action is a point, row by row from the top left. The same `Game` for the same size.

    An observation is f32[n, n, 3]: the stones of the player to move, the opponent's, and a plane
    of ones if the player to move connects top and bottom, else zeros.

    Raises:
      ValueError: the size is not from 3 to 13.
    """
    if not isinstance(size, int | np.integer) or size not in SIZES:
        raise ValueError(f"size: {size} is not from {SIZES[0]} to {SIZES[-1]}")
    return _hex_game(int(size))


@functools.cache
def _hex_game(size: int) -> Game:
    full, ends = np.uint16(2**size - 1), np.arange(size) == 0
    top_side = tuple(np.where(ends, full, np.uint16(0)))
    left_side = (np.uint16(1),) * size

    def init(key: jax.Array) -> HexBoard:
        del key
        empty = lambda: tuple(jnp.zeros((), jnp.uint16) for _ in range(size))
        return HexBoard((empty(), empty()), (empty(), empty()), jnp.zeros((), jnp.uint8))

    def is_over(board: HexBoard) -> jax.Array:
        """bool[]: whether the player who moved last has connected both sides."""
        through_down = board.joined[FIRST][-1]
        through_across = functools.reduce(jnp.bitwise_or, board.joined[SECOND]) >> (size - 1)
        return jnp.where(board.to_play == FIRST, through_across, through_down) != 0

    def outcome(board: HexBoard) -> tuple[jax.Array, jax.Array]:
        over = is_over(board)
        return over, jnp.where(over, np.float32(-1), np.float32(0))

    def play(board: HexBoard, action: jax.Array) -> HexBoard:
        action = one_action(action)
        is_first, over = board.to_play == FIRST, is_over(board)
        column = np.uint16(1) << (action % size).astype(jnp.uint16)
        stone = [
            jnp.where((action // size == r) & ~over, column, np.uint16(0)) for r in range(size)
        ]
        own_stones = _either(_where(is_first, *board.stones), stone)
        side = _where(is_first, top_side, left_side)
        start = _either(_where(is_first, *board.joined), map(jnp.bitwise_and, own_stones, side))
        joined = _flood(start, own_stones)
        replaced = lambda new, old: (_where(is_first, new, old[0]), _where(is_first, old[1], new))
        to_play = jnp.where(over, board.to_play, np.uint8(SECOND) - board.to_play)
        return HexBoard(replaced(own_stones, board.stones), replaced(joined, board.joined), to_play)

    def observe(board: HexBoard) -> jax.Array:
        is_first, (first, second) = board.to_play == FIRST, map(_unpack, board.stones)
        own, other = jnp.where(is_first, first, second), jnp.where(is_first, second, first)
        downward = jnp.broadcast_to(is_first, own.shape)
        return jnp.stack([own, other, downward], axis=-1).astype(jnp.float32)

    return Game(
        num_actions=size * size,
        init=init,
        play=play,
        legal=lambda board: ~_unpack(_either(*board.stones)).reshape(-1) & ~is_over(board),
        outcome=outcome,
        observe=observe,
        max_moves=size * size,
        symmetries=Symmetries(2, _turn_planes, _turn_actions),
    )


def _turn_planes(planes: jax.Array, k: jax.Array) -> jax.Array:
    """Planes [n, n, C], turned by 180 degrees if k is 1."""
    return jnp.where(k == 1, planes[::-1, ::-1], planes)


def _turn_actions(values: jax.Array, k: jax.Array) -> jax.Array:
    return jnp.where(k == 1, values[::-1], values)


def _where(condition: jax.Array, a, b) -> Rows:
    return tuple(map(functools.partial(jnp.where, condition), a, b))


def _either(a, b) -> Rows:
    return tuple(map(jnp.bitwise_or, a, b))


def _unpack(rows: Rows) -> jax.Array:
    """bool[n, n]."""
    size = len(rows)
    bits = np.uint16(1) << lax.iota(jnp.uint16, size)
    return jnp.stack([row & bits for row in rows]) != 0


@batching.over_games
def _flood(start: Rows, stones: Rows) -> Rows:
    """The stones that are connected to those of `start`. Trip bound: n^2 / 2.

    All games of a batch are flooded in one loop, with one predicate for all of them.
    """

    def grow(carry):
        grown, _ = carry
        for _ in range(_AT_ONCE):
            grown, before = _grown(grown, stones), grown
        changes = functools.reduce(jnp.bitwise_or, map(jnp.bitwise_xor, grown, before))
        return grown, jnp.any(changes)

    return lax.while_loop(lambda carry: carry[1], grow, (start, jnp.bool_(True)))[0]


def _grown(x: Rows, stones: Rows) -> Rows:
    """`x` and the stones next to it; in the row below, a point touches its column and one left."""
    one, none = np.uint16(1), jnp.zeros_like(x[0])
    above, below = (none, *x[:-1]), (*x[1:], none)
    near = lambda x, up, down: x | x << one | x >> one | up | up >> one | down | down << one
    return tuple(near(*three) & row for *three, row in zip(x, above, below, stones, strict=True))
