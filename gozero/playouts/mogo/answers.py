"""Which moves answer the last one, and by which of MoGo's rules: see `playouts`.

Functions of one game; on words of B games, elementwise, as they are.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.hashing import mix
from gozero.playouts import policies
from gozero.playouts.mogo import around, nakade, patterns

SAVE, PATTERN, CAPTURE, ANY, NAKADE, FILL = 1, 2, 3, 4, 5, 6
"""The rules a move may be of."""

_RULE_SHIFT = np.uint32(12)  # the rule of a choice, above its spot
_SPOT_BITS = np.uint32((1 << 12) - 1)
_TRY = 0x9E3779B9  # between the draws of two tries


@dataclasses.dataclass(frozen=True)
class MogoConfig:
    """What is added to MoGo's four rules.

    Attributes:
      nakade: after the rule "save", kill: where the empty points beside the last move are a
        region of three to six in a shape of one vital point, and only the opponent's stones
        surround it, play there (`nakade.vital_points`).
      diversity: tries, 0 to 8, before the rule "any" to play where all is empty: a point of the
        board is drawn, and taken if it and its eight neighbours are empty. Chaslot et al.
        (2010), "Adding expert knowledge and exploration in Monte-Carlo tree search". Programs
        differ in which rules come before it; here all do, as in Pachi.

    Raises:
      ValueError: a number of tries that is none of those.
    """

    nakade: bool = False
    diversity: int = 0

    def __post_init__(self):
        if not 0 <= self.diversity <= 8:
            raise ValueError(f"diversity: {self.diversity}; expected 0 to 8 tries")


PLAIN = MogoConfig()
"""MoGo's four rules and no more."""


def near(lay: bb.Layout, own: bb.Board, opponent: bb.Board, last: jax.Array) -> jax.Array:
    """u32[]: where patterns stand around the last move's spot, as a window."""
    ours, theirs = (around.window(lay, board, last) for board in (own, opponent))
    vacant = around.on_board(lay, last) & ~(ours | theirs)
    known = (last & policies.POINT_SPOT) != 0
    return jnp.where(known, patterns.match(ours, theirs, vacant), np.uint32(0))


def choose(
    lay: bb.Layout,
    config: MogoConfig,
    own: bb.Board,
    opponent: bb.Board,
    atari: bb.Board,
    ko: bb.Board,
    endangered: bb.Board,
    rejected: bb.Board,
    near: jax.Array,
    last: jax.Array,
    random: jax.Array,
) -> jax.Array:
    """u32[]: one of the `moves`, all alike, and of which rule it is; see `unpacked`."""
    board = (own, opponent, atari, ko)
    points, rule = moves(lay, config, *board, endangered, rejected, near, last, random)
    return policies.pick(lay, points, random) | (rule << _RULE_SHIFT)


def moves(
    lay: bb.Layout,
    config: MogoConfig,
    own: bb.Board,
    opponent: bb.Board,
    atari: bb.Board,
    ko: bb.Board,
    endangered: bb.Board,
    rejected: bb.Board,
    near: jax.Array,
    last: jax.Array,
    random: jax.Array,
) -> tuple[bb.Board, jax.Array]:
    """The points of the first rule that has any, and which rule that is, u32[]; see `playouts`.

    Of the rule "save" all captures are tried, and those that save nothing rejected: to look for
    the chains that hold the endangered ones would cost more.

    Args:
      lay: the layout.
      config: what is added to the four rules.
      own, opponent, atari: the board.
      ko: the point that may not be played.
      endangered: own stones that the last move has put in atari.
      rejected: points that are known to save none of them.
      near: where patterns stand around the last move; see `near`.
      last: u32[]; the spot of the last move.
      random: u32[]; for the tries of diversity.
    """
    vacant = bb.complement(lay, bb.union(own, opponent))
    capturable = bb.intersection(opponent, atari)
    legal = legal_points(lay, own, opponent, atari, ko)
    points = bb.difference(legal, policies.eyes(lay, own, opponent))
    captures = bb.intersection(bb.beside(lay, capturable), legal)
    shapes = bb.intersection(around.inner_board(lay, near, last), points)
    extensions = bb.intersection(bb.beside(lay, endangered), legal)
    saves = bb.difference(bb.union(extensions, captures), rejected)
    better = [(CAPTURE, captures), (PATTERN, shapes)]
    if config.diversity:
        better.insert(0, (FILL, _filling(lay, config.diversity, vacant, random)))
    if config.nakade:
        vital = nakade.vital_points(lay, own, vacant, policies.spot_board(lay, last))
        better.append((NAKADE, bb.intersection(vital, legal)))
    better.append((SAVE, bb.keep(bb.any_of(endangered), saves)))

    rule = jnp.full_like(random, ANY)
    for number, candidates in better:
        some = bb.any_of(candidates)
        points = bb.where(some, candidates, points)
        rule = jnp.where(some, np.uint32(number), rule)
    return points, rule


def legal_points(
    lay: bb.Layout, own: bb.Board, opponent: bb.Board, atari: bb.Board, ko: bb.Board
) -> bb.Board:
    """Where a stone may be played: no suicide, and not the ko."""
    vacant = bb.complement(lay, bb.union(own, opponent))
    capturable = bb.intersection(opponent, atari)
    support = bb.union_all([vacant, bb.difference(own, atari), capturable])
    return bb.difference(bb.intersection(vacant, bb.beside(lay, support)), ko)


def unpacked(choice: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(spot, rule), each u32[], of a choice."""
    return choice & _SPOT_BITS, choice >> _RULE_SHIFT


def _filling(lay: bb.Layout, tries: int, vacant: bb.Board, random: jax.Array) -> bb.Board:
    """The points in the midst of empty ones, if one of the tries hits one; else none.

    All of them are equally likely to be hit first, so a try need only say whether it does.
    """
    midst = open_points(lay, vacant)
    count = bb.count(midst).astype(jnp.uint32)
    hit = jnp.zeros_like(random, bool)
    for i in range(1, tries + 1):
        draw = mix(random + np.uint32(i * _TRY % 2**32)) >> np.uint32(10)  # times 625 fits a word
        hit = hit | ((draw * np.uint32(lay.num_points)) >> np.uint32(22) < count)
    return bb.keep(hit, midst)


def open_points(lay: bb.Layout, vacant: bb.Board) -> bb.Board:
    """The points that are empty and have no stone among their eight neighbours."""
    one = np.uint32(1)
    stones = bb.complement(lay, vacant)
    rows = tuple(x | (x << one) | (x >> one) for x in stones)
    # What was shifted over a guard bit stays on it: it is cleared before it moves up or down.
    rows = tuple(x & full for x, full in zip(rows, lay.full, strict=True))
    near = bb.union_all([rows, bb.north(lay, rows), bb.south(lay, rows)])
    return bb.difference(vacant, near)
