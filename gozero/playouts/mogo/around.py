"""The 5 x 5 points around a spot as one word, for one game: see `patterns`.

A window is u32[], bit 5 row + column; the spot is its centre, bit 12. What lies off the board
is not set.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.playouts import policies, verdicts
from gozero.playouts.mogo.patterns import WINDOW

_REACH = WINDOW // 2
_ROW_BITS = np.uint32((1 << WINDOW) - 1)
_WHOLE = np.uint32((1 << WINDOW * WINDOW) - 1)
_FIRST_COLUMN = np.uint32(sum(1 << WINDOW * row for row in range(WINDOW)))


def place(lay: bb.Layout, spot: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(word, row in it, column) of a spot, each u32[]."""
    bit = spot & np.uint32(31)
    row = jnp.zeros_like(spot)
    for r in range(1, lay.rows_per_word):
        row = row + jnp.where(bit >= np.uint32(r * lay.stride), np.uint32(1), np.uint32(0))
    return policies.word_of(spot), row, bit - row * np.uint32(lay.stride)


def window(lay: bb.Layout, board: bb.Board, spot: jax.Array) -> jax.Array:
    """u32[]: the points of `board` around a spot, as a window."""
    word, row, column = place(lay, spot)
    out = jnp.zeros_like(spot)
    for i, bits in enumerate(_five_rows(lay, board, word, row)):
        near = ((bits << np.uint32(_REACH)) >> column) & _ROW_BITS
        out = out | (near << np.uint32(WINDOW * i))
    return out


def _five_rows(lay: bb.Layout, board: bb.Board, word, row) -> list[jax.Array]:
    """The rows of the board around a row of a word; empty beyond the edge."""
    per_word = lay.rows_per_word
    if per_word == 1:
        return verdicts.rows_around(list(board), word, _REACH)
    words = verdicts.rows_around(list(board), word, _REACH // per_word + _REACH % per_word)
    one_row, shifts = np.uint32((1 << lay.size) - 1), range(per_word)
    rows = [(w >> np.uint32(r * lay.stride)) & one_row for w in words for r in shifts]
    first = len(words) // 2 * per_word - _REACH
    out = []
    for i in range(first, first + WINDOW):
        found = rows[i]
        for r in range(1, per_word):
            further = rows[i + r] if i + r < len(rows) else np.uint32(0)
            found = jnp.where(row == np.uint32(r), further, found)
        out.append(found)
    return out


def on_board(lay: bb.Layout, spot: jax.Array) -> jax.Array:
    """u32[]: the points of the board around a spot, as a window."""
    word, row, column = place(lay, spot)
    row = word * np.uint32(lay.rows_per_word) + row
    last = np.uint32(lay.size - 1)

    def beyond(at):
        """How many of the window's lines lie off the board before, and after, this one."""
        none, reach = np.uint32(0), np.uint32(_REACH)
        before = jnp.where(at < reach, reach - at, none)
        return before, jnp.where(last - at < reach, reach - (last - at), none)

    above, below = (np.uint32(WINDOW) * lines for lines in beyond(row))
    left, right = beyond(column)
    columns = ((_ROW_BITS << left) & (_ROW_BITS >> right)) * _FIRST_COLUMN
    return columns & ((_WHOLE << above) & (_WHOLE >> below))


def inner_board(lay: bb.Layout, near: jax.Array, spot: jax.Array) -> bb.Board:
    """The inner nine points of a window around a spot, those of the board, as a board."""
    word, row, column = place(lay, spot)
    row = word * np.uint32(lay.rows_per_word) + row
    words = [jnp.zeros_like(spot)] * lay.num_words
    for i in range(1, WINDOW - 1):
        bits = (((near >> np.uint32(WINDOW * i)) & _ROW_BITS) << column) >> np.uint32(_REACH)
        at = (row + np.uint32(i)) - np.uint32(_REACH)  # wraps above the edge: nothing is set there
        index = _divided(at, lay.rows_per_word)
        bits = bits << ((at - index * np.uint32(lay.rows_per_word)) * np.uint32(lay.stride))
        for w in range(lay.num_words):
            words[w] = words[w] | jnp.where(index == np.uint32(w), bits, np.uint32(0))
    return tuple(words)


def _divided(x: jax.Array, divisor: int) -> jax.Array:
    """x // divisor of numbers below 32, without a division."""
    return (x * np.uint32(-(-256 // divisor))) >> np.uint32(8)
