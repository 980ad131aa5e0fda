"""What a try comes to, in one word: a verdict.

A verdict is the flags of `policies` and, above them, the stones that the try captures, as a
pattern of five rows by five columns around the point. A capture that does not fit there is
left pending, and so is what the rows looked at do not decide.

Functions of one game on rows of the board, a row a word; under ``vmap``, or on rows of B
lanes as they are, elementwise.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.go import bitboard as bb
from gozero.playouts import policies

PATTERN_REACH = 2  # rows and columns around the point that a pattern shows
_PATTERN_SHIFT = 7  # its bits in a verdict: 7 to 31, row by row
_WINDOW_REACH = 2  # rows above and below the point that a window has
_WINDOW_SWEEPS, _WINDOW_STEPS = 1, 2
_BOARD_SWEEPS = 2

_ONE, _FIVE = np.uint32(1), np.uint32(5)
_FIVE_BITS = np.uint32(31)


def by_mover(turn: jax.Array, black, white) -> tuple[bb.Board, bb.Board]:
    """(own, opponent): the rows of the player to move, and those of the other."""
    return (
        bb.where(turn != 0, tuple(white), tuple(black)),
        bb.where(turn != 0, tuple(black), tuple(white)),
    )


def judge_in_window(
    lay: bb.Layout, black: bb.Board, white: bb.Board, turn: jax.Array, spot: jax.Array
) -> jax.Array:
    """u32[]: the verdict on a try, from the rows around its point."""
    reach, word = _WINDOW_REACH + 1, policies.word_of(spot)
    around = [rows_around(list(board), word, reach) for board in (black, white)]
    own_rows, opponent_rows = map(list, by_mover(turn, *around))
    bit = point_bit(spot)
    own_rows[reach] = own_rows[reach] | bit
    vacant = []
    for i, (x, y) in enumerate(zip(own_rows, opponent_rows, strict=True)):
        above = reach - i  # rows from here down to the point's
        on_board = word >= np.uint32(above) if above > 0 else word < np.uint32(lay.size + above)
        vacant.append(jnp.where(on_board, lay.full[0] & ~(x | y), np.uint32(0)))
    point = [jnp.zeros_like(bit)] * (2 * reach + 1)
    point[reach] = bit
    flags, dead = examine(own_rows, opponent_rows, vacant, point, _WINDOW_SWEEPS, _WINDOW_STEPS)
    beyond = _WINDOW_REACH - PATTERN_REACH
    return _verdict(spot, flags, dead, dead[beyond : len(dead) - beyond])


def judge_on_board(lay: bb.Layout, own: bb.Board, opponent: bb.Board, spot: jax.Array) -> jax.Array:
    """u32[]: the verdict on a try, from the whole board."""
    none = jnp.zeros_like(spot)
    point = policies.spot_board(lay, spot)
    own = bb.union(own, point)
    vacant = bb.complement(lay, bb.union(own, opponent))
    framed = [[none, *board, none] for board in (own, opponent, vacant, point)]
    flags, dead = examine(*framed, sweeps=_BOARD_SWEEPS, steps=1)
    return _verdict(spot, flags, dead, rows_around(dead, policies.word_of(spot), PATTERN_REACH))


def _verdict(spot, flags, dead: list[jax.Array], around: list[jax.Array]) -> jax.Array:
    """The flags and the pattern of the dead stones; pending if the pattern cannot show them.

    Args:
      spot: u32[], what is tried.
      flags: u32[], of `examine`.
      dead: the rows with what it captures.
      around: the five rows around the point of these.
    """
    column = spot & _FIVE_BITS
    columns = (_FIVE_BITS << column) >> np.uint32(PATTERN_REACH)
    total = functools.reduce(lambda x, y: x + y, map(lax.population_count, dead))
    shown = functools.reduce(
        lambda x, y: x + y, (lax.population_count(row & columns) for row in around)
    )
    fits = total == shown
    single = jnp.where(total == 1, np.uint32(0xFFFFFFFF), ~policies.KO)
    known = (flags & single) | pattern(spot, around)
    verdict = jnp.where(fits, known, policies.PENDING)
    return jnp.where(spot == policies.PASS_SPOT, policies.PLAY, verdict)


def rows_around(rows: list[jax.Array], word: jax.Array, reach: int) -> list[jax.Array]:
    """Rows word - reach .. word + reach of a board, empty beyond its edge.

    A barrel shifter: a round of selects for each bit of `word`, and no gather.
    """
    count = 2 * reach + 1
    none = jnp.zeros_like(word)
    shifted = [*[None] * reach, *rows, *[None] * reach]
    for step in (16, 8, 4, 2, 1):
        if step >= len(rows):
            continue  # `word` is the index of a row
        here = (word & np.uint32(step)) != 0
        needed = count + step - 1
        taken = [_select(here, _get(shifted, i + step), _get(shifted, i)) for i in range(needed)]
        shifted = taken
    return [none if row is None else row for row in shifted]


def _get(rows: list, i: int):
    return rows[i] if i < len(rows) else None


def _select(condition, a, b):
    """where(condition, a, b) of rows that may be None, the empty row."""
    if a is None and b is None:
        return None
    return jnp.where(condition, np.uint32(0) if a is None else a, np.uint32(0) if b is None else b)


def examine(
    own: list[jax.Array],
    opponent: list[jax.Array],
    vacant: list[jax.Array],
    point: list[jax.Array],
    sweeps: int,
    steps: int,
) -> tuple[jax.Array, list[jax.Array]]:
    """What rows of the board say of a stone just placed there.

    The stones that have a liberty beside them grow along their chains for some sweeps; what
    they reach is alive. If an enemy chain beside the point is not seen to live, it grows
    from there; else, if the point's chain is not, that one does. If this comes to an end
    within the rows and meets nothing alive, it has found whole chains without liberty:
    captured ones, or a suicide.

    Args:
      own, opponent, vacant, point: n + 2 rows; own has the point's stone. The first and the
        last are looked at, but nothing grows there: what reaches them is not decided. Rows
        beyond the edge are empty in all four.
      sweeps: sweeps down and up again.
      steps: how far growth runs along a row at each visit.

    Returns:
      The flags of a try as u32[] (KO: if what is captured is one stone), and the captured
      stones as n rows.
    """
    inner = range(1, len(own) - 1)
    stones = [x | y for x, y in zip(own, opponent, strict=True)]
    east = [(x & (x >> _ONE)) | (y & (y >> _ONE)) for x, y in zip(own, opponent, strict=True)]
    south = [(own[i] & own[i + 1]) | (opponent[i] & opponent[i + 1]) for i in range(len(own) - 1)]

    def along(i, x):
        x = x | (((x & east[i]) + east[i]) ^ east[i])
        for _ in range(steps):
            x = x | ((x >> _ONE) & east[i])
        return x

    def grown(x):
        x = list(x)
        for _ in range(sweeps):
            for i in inner:
                if i > 1:
                    x[i] = x[i] | (x[i - 1] & south[i - 1])
                x[i] = along(i, x[i])
            for i in reversed(inner[:-1]):
                x[i] = x[i] | (x[i + 1] & south[i])
                x[i] = along(i, x[i])
        return x

    def beside(x, i):
        return (x[i] << _ONE) | (x[i] >> _ONE) | x[i - 1] | x[i + 1]

    def anything(rows):
        return functools.reduce(lambda x, y: x | y, rows) != 0

    none = jnp.zeros_like(own[0])
    outer = [none]  # a row that nothing grows in
    alive = grown(outer + [beside(vacant, i) & stones[i] for i in inner] + outer)
    touched = [beside(point, i) for i in inner]
    rows = list(zip(inner, touched, strict=True))
    doubtful = [near & opponent[i] & ~alive[i] for i, near in rows]
    in_doubt = anything(doubtful)
    lives = anything(point[i] & alive[i] for i in inner)

    seeds = [jnp.where(in_doubt, x, point[i]) for i, x in zip(inner, doubtful, strict=True)]
    chain = grown([*outer, *seeds, *outer])
    last = inner[-1]
    leaves = [chain[1] & south[0], chain[last] & south[last]]
    for i in inner:
        further = ((chain[i] & east[i]) << _ONE) | ((chain[i] >> _ONE) & east[i])
        if i > 1:
            further = further | (chain[i - 1] & south[i - 1])
        if i < last:
            further = further | (chain[i + 1] & south[i])
        leaves.append(further & ~chain[i])
    whole = ~anything(leaves)
    has_liberty = anything(chain[i] & alive[i] for i in inner)
    dies = whole & ~has_liberty

    capture = in_doubt & dies
    play = capture | (~in_doubt & (lives | has_liberty))
    reject = ~in_doubt & ~lives & dies
    walled_in = ~anything(near & (own[i] | vacant[i]) for i, near in rows)
    flags = policies.flags(
        (play, policies.PLAY),
        (reject, policies.REJECT),
        (~play & ~reject, policies.PENDING),
        (capture, policies.CAPTURE),
        (capture & walled_in, policies.KO),
    )
    return flags, [jnp.where(capture, chain[i], np.uint32(0)) for i in inner]


# --- patterns -------------------------------------------------------------------------


def point_bit(spot: jax.Array) -> jax.Array:
    """u32[]: the bit of a spot's point in its word; 0 for a pass and for no spot."""
    is_point = (spot & policies.POINT_SPOT) != 0
    return jnp.where(is_point, _ONE << (spot & _FIVE_BITS), np.uint32(0))


def pattern(spot: jax.Array, rows: list[jax.Array]) -> jax.Array:
    """u32[]: five rows around a spot, five columns each, as the upper 25 bits of a verdict."""
    column, pattern = spot & _FIVE_BITS, jnp.zeros_like(spot)
    for i, row in enumerate(rows):
        near = ((row << np.uint32(PATTERN_REACH)) >> column) & _FIVE_BITS
        pattern = pattern | (near << np.uint32(_PATTERN_SHIFT + 5 * i))
    return pattern


def pattern_rows(row: jax.Array, spot: jax.Array, verdict: jax.Array) -> jax.Array:
    """u32[W, B]: the pattern of a verdict on the board; `row` is u32[W, 1]."""
    # What is shifted by 32 or more, and by the wrapped differences of other rows, is 0.
    shift = _FIVE * row - (_FIVE * policies.word_of(spot) - np.uint32(5 * PATTERN_REACH))
    near = ((verdict >> np.uint32(_PATTERN_SHIFT)) >> shift) & _FIVE_BITS
    return (near << (spot & _FIVE_BITS)) >> np.uint32(PATTERN_REACH)


def pattern_spot(spot: jax.Array, verdict: jax.Array) -> jax.Array:
    """u32[]: the spot of the one stone in the pattern of a verdict."""
    bit = np.uint32(31) - lax.clz(verdict >> np.uint32(_PATTERN_SHIFT))
    row = (bit * np.uint32(13)) >> np.uint32(6)  # bit // 5, for bits 0 to 24
    column = (spot & _FIVE_BITS) + bit - _FIVE * row - np.uint32(PATTERN_REACH)
    word = policies.word_of(spot) + row - np.uint32(PATTERN_REACH)
    return (column & _FIVE_BITS) | (word << np.uint32(5)) | policies.POINT_SPOT
