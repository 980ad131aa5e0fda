"""The effect of a move: the chains that it captures, puts in atari, or takes out of atari.

With all chains in atari known beforehand, a move changes which are in atari only for the chain it
joins, the enemy chains beside it, and the own chains that it frees by a capture. These are found
by growing two planes, a fixed number of sweeps at a time:

    plane 0   the chain that the stone joins, and the enemy chain east of it (else west)
    plane 1   the own chains freed, and the enemy chain south of it (else north)

(The joints keep the two colours of a plane apart.) If an enemy chain remains, which is rare, the
planes grow the ones west and north in a second round. A chain already found to have two liberties
needs to grow no further, unless part of it was in atari.

These are functions of one game; they also apply elementwise to words of B games.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from gozero.go import bitboard as bb
from gozero.go import floods
from gozero.playouts import playable

SWEEPS = 2  # growth sweeps at a time; one more step checks whether they were enough

NEXT, ATARI_0, ATARI_1, OWN_ATARI = (np.uint32(1 << bit) for bit in range(5, 9))
"""Flags of a move result besides those of `playable`: a second round follows; the enemy chain of
plane 0, or 1, has one liberty left; the chain that the stone joins has one liberty."""

Planes = tuple[bb.Board, bb.Board]


class MoverBoard(NamedTuple):
    """The board before the move, from the mover's side."""

    own: bb.Board
    opponent: bb.Board
    atari: bb.Board  # stones of either colour whose chain has exactly one liberty


class Tried(NamedTuple):
    """A move that is being tried."""

    move: jax.Array  # u32[]
    pending: jax.Array  # bool[]: whether it is from an earlier iteration: its planes go on growing
    second_round: jax.Array  # u32[]: 1 in its second round
    changed: Any  # board: enemy chains of its first round that are captured or put in atari


def seeds(lay: bb.Layout, board: MoverBoard, planes: Planes, tried: Tried) -> Planes:
    """The seeds from which the planes of a move grow."""
    point = playable.board_of(lay, tried.move, as_array=not isinstance(board.own, tuple))
    planes = (bb.keep(tried.pending, planes[0]), bb.keep(tried.pending, planes[1]))
    capturable = bb.intersection(board.opponent, board.atari)
    dying = bb.intersection(bb.union_all([*planes, tried.changed]), capturable)
    freed = bb.intersection(bb.beside(lay, dying), bb.intersection(board.own, board.atari))
    freed = bb.keep(tried.pending, freed)
    first, second = (
        bb.union_all([plane, own_part, _enemies(board, pair, tried.second_round)])
        for plane, own_part, pair in zip(planes, (point, freed), _sides(lay, point), strict=True)
    )
    return first, second


def _sides(lay: bb.Layout, point: bb.Board) -> list[tuple[bb.Board, bb.Board]]:
    """[(east, west), (south, north)] of a point."""
    return [(bb.east(point), bb.west(point)), (bb.south(lay, point), bb.north(lay, point))]


def _enemies(board: MoverBoard, pair: tuple[bb.Board, bb.Board], second_round) -> bb.Board:
    """The enemy stone on the first side, else (and always in the second round) on the second."""
    first, second = (bb.intersection(side, board.opponent) for side in pair)
    return bb.where((second_round != 0) | ~bb.any_of(first), second, first)


def joined(lay: bb.Layout, board: MoverBoard, move: jax.Array) -> tuple[bb.Board, bb.Board]:
    """Stones joined to their (east, south) neighbour with the move's stone on the board."""
    point = playable.board_of(lay, move, as_array=not isinstance(board.own, tuple))
    own = bb.union(board.own, point)
    return bb.joints_of_both(lay, own, board.opponent)


def move_result(
    lay: bb.Layout,
    board: MoverBoard,
    endangered: bb.Board,
    planes: Planes,
    tried: Tried,
    must_save: jax.Array,
) -> jax.Array:
    """u32[]: the flags of a try, exactly one of which is PLAY, REJECT or PENDING.

    A move that `must_save`, bool[], is rejected if it saves no endangered chain.
    """
    own, opponent, atari = board
    point = playable.board_of(lay, tried.move, as_array=not isinstance(own, tuple))
    own_after = bb.union(own, point)
    vacant = bb.complement(lay, bb.union(own_after, opponent))
    joints = bb.joints_of_both(lay, own_after, opponent)
    frontiers = [floods.frontier(lay, plane, joints) for plane in planes]
    beside = bb.beside(lay, point)

    def settled(frontier, stones):
        return ~bb.any_of(bb.intersection(frontier, stones))

    # The enemy chains.
    enemies_decided, in_atari = True, []
    for plane, frontier in zip(planes, frontiers, strict=True):
        liberties = _liberties(lay, bb.intersection(plane, opponent), vacant)
        enemies_decided = enemies_decided & (settled(frontier, opponent) | (liberties >= 2))
        in_atari.append(liberties == 1)
    grown = bb.union(*planes)
    untouched = bb.difference(bb.intersection(beside, opponent), grown)
    needs_second_round = (tried.second_round == 0) & bb.any_of(untouched)

    # The own chains.
    capturable = bb.intersection(opponent, atari)
    captured = bb.intersection(bb.union(grown, tried.changed), capturable)
    beside_captured = bb.beside(lay, captured)
    own_chain = bb.intersection(planes[0], own_after)
    own_liberties = _liberties(lay, own_chain, bb.union(vacant, captured))
    joins = bb.intersection(beside, own)
    joins_atari = bb.any_of(bb.intersection(joins, atari))
    own_clear = settled(frontiers[0], own_after) | ((own_liberties >= 2) & ~joins_atari)
    freed = bb.intersection(beside_captured, bb.intersection(own, atari))
    all_freed = ~bb.any_of(bb.difference(freed, planes[1])) & settled(frontiers[1], own)

    rescued = bb.any_of(bb.intersection(point, bb.beside(lay, endangered))) & (own_liberties >= 2)
    rescued = rescued | bb.any_of(bb.intersection(beside_captured, endangered))
    is_allowed = ~must_save | rescued
    ko = (own_liberties == 1) & ~bb.any_of(joins) & (bb.count(captured) == 1)
    decided = enemies_decided & ~needs_second_round & own_clear & all_freed
    return playable.flags(
        (decided & is_allowed, playable.PLAY),
        (decided & ~is_allowed, playable.REJECT),
        (~decided, playable.PENDING),
        (enemies_decided & needs_second_round, NEXT),
        (in_atari[0], ATARI_0),
        (in_atari[1], ATARI_1),
        (own_liberties == 1, OWN_ATARI),
        (ko, playable.KO),
    )


def _liberties(lay: bb.Layout, chain: bb.Board, vacant: bb.Board) -> jax.Array:
    return bb.count(bb.intersection(bb.beside(lay, chain), vacant))
