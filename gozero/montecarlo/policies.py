"""What a playout may play: functions of one game on bitboards.

A playout plays a uniformly random legal point that is not an own eye. It has no list of
them: it picks one of the `candidates`, and `grow` and `judge` find out whether it is legal.
The point is named by a **spot**, one u32 that costs two shifts to turn into a board (an
action would cost divisions, in every stage that needs the board):

    bits 0-4 bit in the word, bits 5-9 word, bit 10 "is a point", bit 11 "is a pass"

so that 0 is no spot at all.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.go import bitboard as bb

NO_SPOT = np.uint32(0)
POINT_SPOT = np.uint32(1 << 10)
PASS_SPOT = np.uint32(1 << 11)

# What `judge` says of a try.
FLAGS = PLAY, REJECT, PENDING, CAPTURE, KO = tuple(np.uint32(1 << bit) for bit in range(5))

_SWEEPS = 2  # of growth at a time; one more finds out whether they were enough
_FIVE_BITS = np.uint32(31)
_HOPELESS_REACH = 4  # the best of 0 to 4 on a CPU: a step costs less than the tries it saves
_RANDOM_BITS = 23  # times 361 points, this still fits a word


# --- which points? --------------------------------------------------------------------


def eyes(lay: bb.Layout, own: bb.Board, opponent: bb.Board) -> bb.Board:
    """The empty points that are eyes of `own`: filling them is what no playout does.

    All neighbours are own stones, and fewer than two diagonals are hostile (on the first
    line, none). No such point has an empty neighbour.
    """
    not_own = bb.complement(lay, own)
    surrounded = bb.difference(bb.difference(not_own, opponent), bb.neighbours(lay, not_own))
    return bb.difference(surrounded, _false_eyes(lay, opponent))


def _false_eyes(lay: bb.Layout, opponent: bb.Board) -> bb.Board:
    """Points with too many hostile diagonals to be an eye; may hold bits off the board."""
    one = np.uint32(1)
    rows = zip(bb.south(lay, opponent), bb.north(lay, opponent), lay.edge, strict=True)
    out = []
    for above, below, edge in rows:
        a, b, c, d = above << one, above >> one, below << one, below >> one
        out.append(_two_of(a, b, c, d) | (edge & (a | b | c | d)))
    return tuple(out)


def _two_of(a, b, c, d):
    """The bits set in two or more of four words."""
    return (a & b) | (c & d) | ((a | b) & (c | d))


def hopeless(lay: bb.Layout, own: bb.Board, opponent: bb.Board) -> bb.Board:
    """Points whose neighbours are all enemy stones of chains known to have two liberties.

    To play there is suicide. Most suicides are of this kind; to sort them out by a few
    shifts saves trying them one by one. A chain counts if a stone of it has two liberties
    itself, and of that chain what is `_HOPELESS_REACH` steps from such a stone.
    """
    one = np.uint32(1)
    vacant = bb.complement(lay, bb.union(own, opponent))
    rows = zip(vacant, bb.south(lay, vacant), bb.north(lay, vacant), strict=True)
    roomy = tuple(_two_of(word << one, word >> one, above, below) for word, above, below in rows)
    safe = bb.intersection(roomy, opponent)
    for _ in range(_HOPELESS_REACH):
        safe = bb.union(safe, bb.intersection(bb.neighbours(lay, safe), opponent))
    return bb.difference(vacant, bb.neighbours(lay, bb.complement(lay, safe)))


def candidates(lay: bb.Layout, own: bb.Board, opponent: bb.Board, banned: bb.Board) -> bb.Board:
    """The points a uniform playout may try: empty, no own eye, not banned, not hopeless.

    Every point it may play is among them, and a few suicides, which a try finds out.
    """
    vacant = bb.complement(lay, bb.union(own, opponent))
    never = bb.union(eyes(lay, own, opponent), hopeless(lay, own, opponent))
    return bb.difference(bb.difference(vacant, never), banned)


# --- spots ----------------------------------------------------------------------------


def pick(lay: bb.Layout, points: bb.Board, random: jax.Array) -> jax.Array:
    """A uniformly random point as a spot, or `PASS_SPOT` if there is none.

    Rank selection, as `bb.nth_point` does it, that stops at word and bit.

    Args:
      lay: the layout.
      points: what to pick from.
      random: u32[]; uniform bits, of which the upper 23 count: a point's probability is
        out by at most 361 / 2^23 of itself.

    Returns:
      u32[], a spot.
    """
    counts = [lax.population_count(word) for word in points]
    total = sum(counts[1:], counts[0])
    rank = ((random >> np.uint32(32 - _RANDOM_BITS)) * total) >> np.uint32(_RANDOM_BITS)
    word, index, before = points[0], jnp.zeros_like(rank), counts[0]
    rank_in_word = rank
    for w in range(1, lay.num_words):
        here = rank >= before
        word = jnp.where(here, points[w], word)
        index = jnp.where(here, np.uint32(w), index)
        rank_in_word = jnp.where(here, rank - before, rank_in_word)
        before = before + counts[w]
    bit = _nth_bit(word, rank_in_word)
    return jnp.where(total > 0, bit | (index << np.uint32(5)) | POINT_SPOT, PASS_SPOT)


def _nth_bit(word: jax.Array, rank: jax.Array) -> jax.Array:
    """u32[]: where the rank-th set bit of a word is, by halving."""
    bit = jnp.zeros_like(rank)
    for half in (16, 8, 4, 2, 1):
        low = word & np.uint32((1 << half) - 1)
        below = lax.population_count(low)
        upper = rank >= below
        rank = jnp.where(upper, rank - below, rank)
        bit = jnp.where(upper, bit + np.uint32(half), bit)
        word = jnp.where(upper, word >> np.uint32(half), low)
    return bit & _FIVE_BITS


def spot_board(lay: bb.Layout, spot: jax.Array) -> bb.Board:
    """The board with the spot's point set; empty for a pass and for no spot."""
    bit = jnp.where((spot & POINT_SPOT) != 0, np.uint32(1) << (spot & _FIVE_BITS), np.uint32(0))
    index = (spot >> np.uint32(5)) & _FIVE_BITS
    return tuple(jnp.where(index == np.uint32(w), bit, np.uint32(0)) for w in range(lay.num_words))


def spot_action(lay: bb.Layout, spot: jax.Array) -> jax.Array:
    """i32[]: the action of a spot, size^2 for a pass, `bb.NO_POINT` for no spot."""
    bit = (spot & _FIVE_BITS).astype(jnp.int32)
    index = ((spot >> np.uint32(5)) & _FIVE_BITS).astype(jnp.int32)
    row = index * lay.rows_per_word + bit // lay.stride
    point = row * lay.size + bit % lay.stride
    other = jnp.where(spot == PASS_SPOT, lay.num_points, bb.NO_POINT)
    return jnp.where((spot & POINT_SPOT) != 0, point, other)


# --- is it legal? ---------------------------------------------------------------------


def grow(
    lay: bb.Layout, own: bb.Board, opponent: bb.Board, spot: jax.Array, alive: bb.Board
) -> bb.Board:
    """Stones of either colour that have a liberty once the spot's stone is on the board.

    `alive` holds those found so far (none at first). All are found when `grow` adds none.
    """
    own = bb.union(own, spot_board(lay, spot))
    stones = bb.union(own, opponent)
    beside_liberty = bb.intersection(bb.neighbours(lay, bb.complement(lay, stones)), stones)
    alive = bb.union(beside_liberty, alive)
    joined = _joined(lay, own, opponent)
    for _ in range(_SWEEPS):
        alive = _sweep(lay, alive, joined)
    return alive


def _joined(lay: bb.Layout, own: bb.Board, opponent: bb.Board) -> tuple[bb.Board, bb.Board]:
    """Stones joined to their (east, south) neighbour of the same colour."""
    own_east, own_south = bb.joints(lay, own)
    their_east, their_south = bb.joints(lay, opponent)
    return bb.union(own_east, their_east), bb.union(own_south, their_south)


def _sweep(lay: bb.Layout, x: bb.Board, joined: tuple[bb.Board, bb.Board]) -> bb.Board:
    """Grows `x` along the joints: from word to word down the board and up again.

    Each word uses what the one before it has become (Gauss-Seidel), so what runs along a
    column crosses the board in one sweep. What runs along a row gains a point or two a visit.
    """
    south, words = joined[1], list(x)
    several = lay.rows_per_word > 1
    for w in range(lay.num_words):
        if w > 0:
            down = words[w - 1] & south[w - 1]
            words[w] = words[w] | (down >> lay.last_row_shift if several else down)
        words[w] = _sweep_word(lay, w, words[w], joined)
    for w in reversed(range(lay.num_words - 1)):
        up = words[w + 1] << lay.last_row_shift if several else words[w + 1]
        words[w] = _sweep_word(lay, w, words[w] | (up & south[w]), joined)
    return tuple(words)


def _sweep_word(lay: bb.Layout, w: int, x: jax.Array, joined: tuple[bb.Board, bb.Board]):
    """u32[]: word w grown by a point each way, along its rows and then across them."""
    one, stride = np.uint32(1), np.uint32(lay.stride)
    east, south = joined[0][w], joined[1][w]
    x = x | ((x & east) << one) | ((x >> one) & east)
    if lay.rows_per_word == 1:
        return x
    return x | (((x & south) << stride) & lay.full[w]) | ((x >> stride) & south)


def judge(
    lay: bb.Layout, own: bb.Board, opponent: bb.Board, spot: jax.Array, alive: bb.Board
) -> jax.Array:
    """u32[]: the flags of a try, of which one is PLAY, REJECT or PENDING.

    All chains lived before the stone came, so once the growth has settled the stones not
    alive are the chains it took the last liberty of. Sooner than that is known:
      * the stone and all enemy chains beside it live: a legal move that captures nothing;
      * those chains live, and the stone, alone, has no liberty: suicide.
    """
    point = spot_board(lay, spot)
    joined = _joined(lay, bb.union(own, point), opponent)
    settled = ~bb.any_of(bb.difference(_sweep(lay, alive, joined), alive))
    beside = bb.neighbours(lay, point)
    not_alive = bb.difference(opponent, alive)
    capture = bb.any_of(bb.intersection(beside, not_alive))
    lives = bb.any_of(bb.intersection(point, alive))
    alone = ~bb.any_of(bb.intersection(beside, own))
    is_pass = spot == PASS_SPOT

    decided = (~capture & (lives | alone)) | settled | is_pass
    legal = lives | capture | is_pass
    walled_in = ~bb.any_of(bb.difference(beside, opponent))  # by enemy stones only
    ko = capture & walled_in & (bb.count(not_alive) == 1)
    return (
        _flag(decided & legal, PLAY)
        | _flag(decided & ~legal, REJECT)
        | _flag(~decided, PENDING)
        | _flag(capture, CAPTURE)
        | _flag(ko, KO)
    )


def _flag(condition: jax.Array, flag: np.uint32) -> jax.Array:
    return jnp.where(condition, flag, np.uint32(0))
