"""Nakade: where one stone kills an eye space, for one game.

An eye space of three to six points dies if the enemy takes its vital point and lives if its
owner does, in these shapes: three in a row or bent, the pyramid of four, the cross and the
bulky five, the rabbity six. In all of them the vital point, v, is next to all the others but at
most one, and that one makes a square with v and two neighbours of v:

    deg(v) = 2, 3 or 4 and no square; or deg(v) = 3 or 4 and one square

(A square alone, deg(v) = 2, is dead as it stands.) All points v are looked at together.
"""

from __future__ import annotations

import numpy as np

from gozero.go import bitboard as bb

_ONE = np.uint32(1)


def vital_points(lay: bb.Layout, own: bb.Board, vacant: bb.Board, last: bb.Board) -> bb.Board:
    """The vital points of eye spaces beside the last move that hold no stone and touch no own.

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
    wrong, touches = [beside_own], [beside_last]
    for way, side in sides.items():
        wrong.append(bb.intersection(side, toward(way, sides[way])))  # a point two away
        wrong.append(toward(way, beside_own))
        touches.append(toward(way, beside_last))
    squares = []
    for corner in ("NE", "ES", "SW", "WN"):
        a, b = (sides[way] for way in corner)
        diagonal = toward(corner, vacant)
        square = bb.intersection(diagonal, bb.intersection(a, b))
        squares.append(square)
        wrong.append(bb.difference(bb.intersection(diagonal, bb.union(a, b)), square))
        further = bb.union_all([beside_own, *(sides[way] for way in corner)])
        # `further` at the diagonal point: an empty point beyond it, or an own stone beside it.
        wrong.append(bb.intersection(square, toward(corner, further)))
        touches.append(bb.intersection(square, toward(corner, beside_last)))
    two, three = _at_least(list(sides.values()), 3)[1:]
    one_square, two_squares = _at_least(squares, 2)
    shape = bb.difference(bb.difference(two, two_squares), bb.difference(one_square, three))
    touching = bb.union_all(touches)
    return bb.intersection(
        bb.intersection(vacant, touching), bb.difference(shape, bb.union_all(wrong))
    )


def _points_whose_neighbour(lay: bb.Layout, way: str, board: bb.Board) -> bb.Board:
    """The points of the board whose neighbour to the N, E, S or W is in `board`."""
    moved = {
        "N": lambda: bb.south(lay, board),
        "S": lambda: bb.north(lay, board),
        "E": lambda: tuple(word >> _ONE for word in board),
        "W": lambda: tuple(word << _ONE for word in board),
    }[way]()
    return tuple(full & word for full, word in zip(lay.full, moved, strict=True))


def _at_least(boards: list[bb.Board], most: int) -> list[bb.Board]:
    """The points in at least 1, 2, ... `most` of the boards."""
    none: bb.Board = tuple(x & ~x for x in boards[0])
    seen = [none] * most
    for board in boards:
        for k in reversed(range(1, most)):
            seen[k] = bb.union(seen[k], bb.intersection(seen[k - 1], board))
        seen[0] = bb.union(seen[0], board)
    return seen
