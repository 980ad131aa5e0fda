"""Area scoring: a colour's area is its stones and the empty points that reach only them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from gozero.compile import batching
from gozero.go import bitboard as bb
from gozero.go import floods
from gozero.go.rules import GameState, Position, Rules, check_state


def territory(rules: Rules, black: bb.Board, white: bb.Board) -> tuple[bb.Board, bb.Board]:
    """(Black's area, White's area), stones included; points that reach both are in neither."""
    lay = rules.layout
    vacant = bb.complement(lay, bb.union(black, white))
    beside = [bb.intersection(bb.neighbours(lay, stones), vacant) for stones in (black, white)]
    near_black, near_white = floods.flood(lay, beside, bb.joints(lay, vacant))
    return (
        bb.union(black, bb.difference(near_black, near_white)),
        bb.union(white, bb.difference(near_white, near_black)),
    )


def area_difference(rules: Rules, position: Position) -> jax.Array:
    """i32[]: Black's area minus White's, before komi."""
    return difference(rules)(position.black, position.white)


@functools.cache
def difference(rules: Rules) -> Callable[[bb.Board, bb.Board], jax.Array]:
    """Returns (black, white) of one game -> i32[], as `area_difference`."""

    def of_stones(black: bb.Board, white: bb.Board) -> jax.Array:
        black, white = territory(rules, black, white)
        return bb.count(black) - bb.count(white)

    return batching.in_one_kernel(of_stones)


def area_score(rules: Rules, state: GameState) -> jax.Array:
    """f32[]: Black's area - White's area - komi. Stones count where they stand, dead or not.

    Raises:
      ValueError: a batch of games, or a game made for other rules.
    """
    check_state(rules, state)
    return area_difference(rules, state.position).astype(jnp.float32) - state.komi


def owners(rules: Rules, black: bb.Board, white: bb.Board) -> jax.Array:
    """i8[size, size]: +1 Black's area, -1 White's, 0 neither; row 0 at the top."""
    ours, theirs = territory(rules, black, white)
    owner = bb.unpack(rules.layout, ours).astype(jnp.int8) - bb.unpack(rules.layout, theirs)
    return owner.astype(jnp.int8).reshape(rules.size, rules.size)


def ownership(rules: Rules, state: GameState) -> jax.Array:
    """i8[size, size]: as `owners`, of a game's board as it stands, dead stones included.

    Raises:
      ValueError: as `area_score`.
    """
    check_state(rules, state)
    return owners(rules, state.position.black, state.position.white)
