"""Games that start with stones on the board: diagrams, SGF's AB and AW, handicap."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gozero.go import bitboard as bb
from gozero.go import floods, handicap, superko
from gozero.go.coords import to_gtp
from gozero.go.rules import BLACK, WHITE, GameState, Position, Rules, empty_position, init


def from_stones(
    rules: Rules, stones: Any, to_play: int | jax.Array = BLACK, komi: Any = 7.0
) -> GameState:
    """A game that starts with stones on the board; superko's past starts with this board.

    The inverse of `gozero.stones`. There is no ko, and no move or pass has been made.

    Args:
      rules: the rules.
      stones: integers[size, size]; +1 Black, -1 White, 0 empty; row 0 at the top. Under
        ``jit`` or ``vmap`` the values cannot be checked: every chain must have a liberty (see
        `liberties`).
      to_play: i32[]; 0 Black, 1 White.
      komi: as for `gozero.init`.

    Raises:
      ValueError: a wrong shape or dtype; an invalid colour to play; where the values are known, one
        other than +1, -1 and 0, or a chain without liberties, which the message names.
    """
    _check_stones(rules, stones)
    known = not isinstance(to_play, Tracer)
    if known and not any(np.array_equal(to_play, colour) for colour in (BLACK, WHITE)):
        raise ValueError(f"to_play: {to_play} is not 0, Black, or 1, White")
    state, dead = _from_stones(rules, jnp.asarray(stones), jnp.asarray(to_play), init(rules, komi))
    if not isinstance(dead, Tracer) and dead.any():
        raise ValueError(f"stones: {_name_dead_chain(rules, stones, dead)} has no liberty")
    return state


def from_points(
    rules: Rules,
    black: Sequence[int],
    white: Sequence[int],
    to_play: int = BLACK,
    komi: Any = 7.0,
) -> GameState:
    """As `from_stones`, given the points of Black's stones and of White's.

    Raises:
      ValueError: a point that is not on the board, or is named twice; an invalid colour to play; a
        chain without liberties, which the message names.
    """
    black, white = [int(point) for point in black], [int(point) for point in white]
    points = [*black, *white]
    if len(set(points)) != len(points) or not all(0 <= p < rules.num_points for p in points):
        raise ValueError(
            f"black, white: {points}; expected different points from 0 to {rules.num_points - 1}"
        )
    stones = np.zeros(rules.num_points, np.int8)
    stones[black], stones[white] = 1, -1
    return from_stones(rules, stones.reshape(rules.size, rules.size), to_play, komi)


def with_handicap(rules: Rules, actions: Sequence[int], komi: Any = 0.5) -> GameState:
    """A game with Black's handicap stones on the board and White to play.

    Args:
      rules: the rules.
      actions: the points: `handicap.fixed`, `handicap.free`, or any from 2 to size^2 - 1.
      komi: as for `gozero.init`.

    Raises:
      ValueError: points that are not a valid free handicap.
    """
    actions = [int(action) for action in actions]
    handicap.check_free(rules.size, actions)
    return from_points(rules, actions, (), WHITE, komi)


def liberties(lay: bb.Layout, black: bb.Board, white: bb.Board) -> tuple[bb.Board, bb.Board]:
    """(stones whose chain has a liberty, stones whose chain has exactly one), of both colours.

    Each bit of the points' numbers gives two seeds: the stones beside an empty point whose number
    has the bit set, and those beside one whose number has it clear. A chain that both floods reach
    has at least two liberties. Two different numbers differ in some bit, so no chain is missed.
    """
    stones = bb.union(black, white)
    vacant = bb.complement(lay, stones)
    number = np.arange(lay.num_points)
    seeds = []
    for bit in range((lay.num_points - 1).bit_length()):
        with_bit = bb.pack(lay, (number >> bit) % 2 == 1)
        for points in (bb.intersection(vacant, with_bit), bb.difference(vacant, with_bit)):
            seeds.append(bb.intersection(bb.neighbours(lay, points), stones))
    pairs = zip(bb.joints(lay, black), bb.joints(lay, white), strict=True)
    east, south = (bb.union(a, b) for a, b in pairs)
    reached = floods.flood(lay, seeds, (east, south))
    alive = bb.union(reached[0], reached[1])
    twice = bb.union_all([bb.intersection(*reached[i : i + 2]) for i in range(0, len(reached), 2)])
    return alive, bb.difference(alive, twice)


@functools.partial(jax.jit, static_argnums=0)
def _from_stones(
    rules: Rules, stones: jax.Array, to_play: jax.Array, blank: GameState
) -> tuple[GameState, jax.Array]:
    """(the game, bool[n * n]: the stones whose chain has no liberty)."""
    lay = rules.layout
    black, white = bb.pack(lay, stones > 0), bb.pack(lay, stones < 0)
    alive, atari = liberties(lay, black, white)
    position: Position = empty_position(rules).replace(
        black=black, white=white, atari=atari, to_play=to_play.astype(jnp.int8)
    )
    past = blank.past
    if past is not None:
        past = superko.record(lay, past, jnp.int32(0), black, white, position.to_play)
    dead = bb.unpack(lay, bb.difference(bb.union(black, white), alive))
    return blank.replace(position=position, past=past), dead


def _check_stones(rules: Rules, stones: Any) -> None:
    array = stones if hasattr(stones, "dtype") else np.asarray(stones)
    expected = (rules.size, rules.size)
    if array.shape != expected:
        raise ValueError(f"stones: shape {array.shape}, expected {expected} for one game")
    if not jnp.issubdtype(array.dtype, jnp.signedinteger):
        raise ValueError(f"stones: dtype {array.dtype} is not a signed integer type, such as int8")
    if not isinstance(array, Tracer):
        invalid = np.argwhere(~np.isin(array, (-1, 0, 1)))
        if len(invalid):
            row, col = map(int, invalid[0])
            value = np.asarray(array)[row, col]
            raise ValueError(
                f"stones: {value} at row {row}, column {col}; expected +1 Black, -1 White, 0 empty"
            )


def _name_dead_chain(rules: Rules, stones: Any, dead: jax.Array) -> str:
    """The first chain without liberties, as ``Black's chain A1 A2``."""
    size, board = rules.size, np.asarray(stones)
    first = divmod(int(np.argmax(np.asarray(dead))), size)
    chain, frontier = {first}, [first]
    while frontier:
        row, col = frontier.pop()
        for p in ((row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)):
            on_board = 0 <= p[0] < size and 0 <= p[1] < size
            if on_board and p not in chain and board[p] == board[first]:
                chain.add(p)
                frontier.append(p)
    names = " ".join(to_gtp(size, row * size + col) for row, col in sorted(chain))
    return f"{'Black' if board[first] > 0 else 'White'}'s chain {names}"
