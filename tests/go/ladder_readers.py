"""Ladders of bare boards, by the reader and by plain recursion."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gozero.go import bitboard as bb
from gozero.go import ladders
from gozero.go.ladders import PLAIN, Ladders, Reading
from tests.reference.ladders import Reader


def read_board(
    size: int,
    black: bb.Board,
    white: bb.Board,
    white_moves: jax.Array,
    ko: jax.Array | None = None,
    reading: Reading = PLAIN,
) -> Ladders:
    """As `ladders.ladders`, for the board of one game; there is no ko unless it is given."""
    ko = jnp.int16(bb.NO_POINT) if ko is None else ko
    return Ladders(*ladders._reader(size, reading)(black, white, white_moves, ko))


def plain_reader(size: int) -> Reader:
    """The oracle with the bounds of `PLAIN`."""
    return Reader(size, PLAIN.plies * size, PLAIN.moves)
