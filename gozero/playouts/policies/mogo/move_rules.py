"""MoGo's rules (see `playouts`): the moves of each; also nakade and filling the board (diversity).

These are functions of one game; they also apply elementwise to words of B games.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.go import stacked
from gozero.hashing import mix
from gozero.playouts import playable
from gozero.playouts.policies import atari_lanes
from gozero.playouts.policies.atari_lanes import SAVE, Situation
from gozero.playouts.policies.mogo import patterns
from gozero.runs.settings import Range, check_ranges

PATTERN, CAPTURE, ANY, NAKADE, FILL = 2, 3, 4, 5, 6
"""Rules that choose a move, besides `atari_lanes.SAVE`, which is 1."""

_RULE_SHIFT = np.uint32(12)  # a choice holds its rule above its packed move
_MOVE_BITS = np.uint32((1 << 12) - 1)
_TRY = 0x9E3779B9  # increment of the random state between two tries


@dataclasses.dataclass(frozen=True)
class MogoConfig:
    """Rules in addition to MoGo's four.

    Attributes:
      nakade: after the rule "save", try to kill: if the empty points beside the last move form a
        region of three to six in a shape with one vital point, surrounded only by the opponent's
        stones, play that point (`vital_near`).
      diversity: the number of tries, 0 to 8, before the rule "any", to play in an empty area: a
        point of the board is drawn, and played if it and its eight neighbours are empty. Chaslot et
        al. (2010), "Adding expert knowledge and exploration in Monte-Carlo tree search". Programs
        differ in which rules come before it; here all but "any" do, as in Pachi.

    Raises:
      ValueError: `diversity` is not a whole number from 0 to 8.
    """

    nakade: bool = False
    diversity: int = 0

    def __post_init__(self):
        check_ranges(self, diversity=Range(0, 8, whole=True))


PLAIN = MogoConfig()
"""MoGo's four rules only."""


def pattern_window(lay: bb.Layout, own: bb.Board, opponent: bb.Board, last: jax.Array) -> jax.Array:
    """u32[]: where patterns match around the last move, as a window."""
    ours, theirs = (patterns.window(lay, board, last) for board in (own, opponent))
    vacant = patterns.points_on_board(lay, last) & ~(ours | theirs)
    is_point = (last & playable.IS_POINT) != 0
    return jnp.where(is_point, patterns.match(ours, theirs, vacant), np.uint32(0))


def choose(
    lay: bb.Layout, config: MogoConfig, now: Situation, near: jax.Array, random: jax.Array
) -> jax.Array:
    """u32[]: one of the `moves`, uniformly at random, with its rule; see `unpacked`."""
    points, rule = moves(lay, config, now, near, random)
    return playable.pick(lay, points, random) | (rule << _RULE_SHIFT)


def moves(
    lay: bb.Layout, config: MogoConfig, now: Situation, near: jax.Array, random: jax.Array
) -> tuple[bb.Board, jax.Array]:
    """(the points of the first rule that has any, that rule u32[]); see `playouts`.

    Args:
      lay, config, now, near, random: as for `candidates`.
    """
    points, by_rule = candidates(lay, config, now, near, random)
    rule = jnp.full_like(random, ANY)
    for number, board in by_rule:
        has_move = bb.any_of(board)
        points = bb.where(has_move, board, points)
        rule = jnp.where(has_move, np.uint32(number), rule)
    return points, rule


def candidates(
    lay: bb.Layout, config: MogoConfig, now: Situation, near: jax.Array, random: jax.Array
) -> tuple[bb.Board, list[tuple[int, bb.Board]]]:
    """(the points of the rule "any", [(rule, points) for each other rule]); the first rule is last.

    For the rule "save" all captures are tried, and those that save nothing are rejected: finding
    the chains beside the endangered ones would cost more.

    Args:
      lay: the layout.
      config: rules in addition to the four.
      now: the position, boards as words.
      near: where patterns match around the last move; see `pattern_window`.
      random: u32[]; for the tries of diversity.
    """
    vacant = bb.complement(lay, bb.union(now.own, now.opponent))
    capturable = bb.intersection(now.opponent, now.atari)
    legal = atari_lanes.legal_points(lay, now)
    points = bb.difference(legal, playable.eyes(lay, now.own, now.opponent))
    captures = bb.intersection(bb.beside(lay, capturable), legal)
    as_array = not isinstance(now.own, tuple)
    shapes = bb.intersection(patterns.board_of_window(lay, near, now.last, as_array), points)
    extensions = bb.intersection(bb.beside(lay, now.endangered), legal)
    saves = bb.difference(bb.union(extensions, captures), now.rejected)
    by_rule = [(CAPTURE, captures), (PATTERN, shapes)]
    if config.diversity:
        by_rule.insert(0, (FILL, _filling(lay, config.diversity, vacant, random)))
    if config.nakade:
        vital = vital_near(lay, now.own, vacant, now.last)
        by_rule.append((NAKADE, bb.intersection(vital, legal)))
    by_rule.append((SAVE, bb.keep(bb.any_of(now.endangered), saves)))
    return points, by_rule


def unpacked(choice: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(move, rule) of a choice, each u32[]."""
    return choice & _MOVE_BITS, choice >> _RULE_SHIFT


def _filling(lay: bb.Layout, tries: int, vacant: bb.Board, random: jax.Array) -> bb.Board:
    """The `open_points` if one of the tries hits one of them, else none.

    Each is equally likely to be hit first, so a try need only determine whether it hits any.
    """
    centres = open_points(lay, vacant)
    count = bb.count(centres).astype(jnp.uint32)
    hit = jnp.zeros_like(random, bool)
    for i in range(1, tries + 1):
        draw = mix(random + np.uint32(i * _TRY % 2**32)) >> np.uint32(10)  # times 625 fits a word
        hit = hit | ((draw * np.uint32(lay.num_points)) >> np.uint32(22) < count)
    return bb.keep(hit, centres)


def open_points(lay: bb.Layout, vacant: bb.Board) -> bb.Board:
    """The empty points without a stone among their eight neighbours."""
    one = np.uint32(1)
    stones = bb.complement(lay, vacant)
    rows = bb.each_word(lambda x: x | (x << one) | (x >> one), stones)
    # Bits shifted onto guard bits must be cleared before they are moved up or down.
    rows = bb.masked(lay.full, rows)
    near = bb.union_all([rows, bb.north(lay, rows), bb.south(lay, rows)])
    return bb.difference(vacant, near)


# --- nakade: where one stone kills an eye space of three to six points -------------------


def vital_near(lay: bb.Layout, own: Any, vacant: Any, last: jax.Array) -> Any:
    """`vital_points` of the last move u32[]; a large board is cut to the 9x9 points around it.

    A vital point is at most two lines from the last move and depends on points up to two further.
    """
    as_array = not isinstance(own, tuple)
    small = bb.layout(9)
    if lay.num_words <= small.num_words:
        return vital_points(lay, own, vacant, playable.board_of(lay, last, as_array))
    around = functools.partial(_words_near, lay, small)
    centre = tuple(jnp.full_like(last, word) for word in _CENTRE)
    is_point = (last & playable.IS_POINT) != 0
    centre = bb.keep(is_point, centre)
    vital = vital_points(small, around(own, last), around(vacant, last), centre)
    window = jnp.zeros_like(last)
    for i in range(patterns.WINDOW):
        word, row = divmod(i + 2, small.rows_per_word)
        bits = (vital[word] >> np.uint32(row * small.stride + 2)) & np.uint32(31)
        window = window | (bits << np.uint32(patterns.WINDOW * i))
    return patterns.board_of_window(lay, window, last, as_array, reach=2)


_CENTRE = (np.uint32(0), np.uint32(1 << 14), np.uint32(0))
"""The centre of 9x9, as a board."""


def _words_near(lay: bb.Layout, small: bb.Layout, board: Any, last: jax.Array) -> bb.Board:
    """The 9x9 points around a move as a 9x9 board; points beyond the edge are not set."""
    rows = patterns.rows_near(lay, board, last, 4)
    words = []
    for first in range(0, 9, small.rows_per_word):
        of_word = enumerate(rows[first : first + small.rows_per_word])
        moved = [row << np.uint32(i * small.stride) for i, row in of_word]
        words.append(functools.reduce(lambda a, b: a | b, moved))
    return tuple(words)


def vital_points(lay: bb.Layout, own: bb.Board, vacant: bb.Board, last: bb.Board) -> bb.Board:
    """The vital points of empty eye spaces beside the last move that touch no own stone.

    A region dies if the enemy takes its vital point and lives if its owner does, in these shapes:
    three in a row or bent, the pyramid of four, the cross and the bulky five, the rabbity six. In
    all of them the vital point, v, is adjacent to all the others but at most one, and that one
    makes a square with v and two neighbours of v:

        deg(v) = 2, 3 or 4 and no square; or deg(v) = 3 or 4 and one square

    (A square alone, deg(v) = 2, is dead as it stands.) All points v are examined at once.

    Args:
      lay: the layout.
      own: the stones of the player who would kill.
      vacant: the empty points.
      last: the last move, one point or none.
    """

    def toward(direction: str, board: bb.Board) -> bb.Board:
        """The points whose neighbour in that direction is in `board`."""
        for way in direction:
            board = _points_whose_neighbour(lay, way, board)
        return board

    beside_own = bb.intersection(vacant, bb.beside(lay, own))
    beside_last = bb.intersection(vacant, bb.beside(lay, last))
    sides = {way: toward(way, vacant) for way in "NESW"}
    excluded, touches = [beside_own], [beside_last]
    for way, side in sides.items():
        excluded.append(bb.intersection(side, toward(way, sides[way])))  # a point two away
        excluded.append(toward(way, beside_own))
        touches.append(toward(way, beside_last))
    squares = []
    for corner in ("NE", "ES", "SW", "WN"):
        a, b = (sides[way] for way in corner)
        diagonal = toward(corner, vacant)
        square = bb.intersection(diagonal, bb.intersection(a, b))
        squares.append(square)
        excluded.append(bb.difference(bb.intersection(diagonal, bb.union(a, b)), square))
        further = bb.union_all([beside_own, *(sides[way] for way in corner)])
        # In `further` at the diagonal point: an empty point beyond it, or an own stone beside it.
        excluded.append(bb.intersection(square, toward(corner, further)))
        touches.append(bb.intersection(square, toward(corner, beside_last)))
    _, two, three = _at_least(list(sides.values()), 3)
    one_square, two_squares = _at_least(squares, 2)
    shape = bb.difference(bb.difference(two, two_squares), bb.difference(one_square, three))
    touching = bb.union_all(touches)
    return bb.intersection(
        bb.intersection(vacant, touching), bb.difference(shape, bb.union_all(excluded))
    )


def _points_whose_neighbour(lay: bb.Layout, way: str, board: bb.Board) -> bb.Board:
    """The points whose neighbour to the N, E, S or W is in `board`."""
    moved = {
        "N": lambda: bb.south(lay, board),
        "S": lambda: bb.north(lay, board),
        "E": lambda: bb.west(board),
        "W": lambda: bb.east(board),
    }[way]()
    return bb.masked(lay.full, moved)


def _at_least(boards: list[Any], max_count: int) -> list[Any]:
    """The points in at least 1, 2, ... `max_count` of the boards."""
    if not isinstance(boards[0], tuple):
        return stacked.at_least(boards, max_count)
    by_word = (stacked.at_least(words, max_count) for words in zip(*boards, strict=True))
    return list(zip(*by_word, strict=True))
