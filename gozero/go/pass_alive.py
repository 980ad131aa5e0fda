"""Unconditional life (Benson 1976): chains that cannot be captured even if their owner passes.

For one colour X. A region is a connected set of points that hold no stone of X. It is *vital*
to a chain of X if every empty point of the region is a liberty of the chain. The living chains
are the largest set in which every chain has two vital regions that border only chains of the set.

In bitboards, for both colours at once:

  * only a region whose every empty point touches X can be vital: these are the candidates;
  * a candidate is identified by its lowest empty point, its *seat*. It can be vital only to the
    chains that touch the seat, at most four;
  * each candidate of several empty points is examined alone, one per game and colour at a time:
    it is vital to the chain on the seat's west, east, north or south if all its empty points are
    liberties of that chain;
  * then chains with fewer than two vital seats, and the candidates that border them, are dropped
    until nothing changes.

Whether a chain has two seats is found by flooding too: every point has a codeword of `k` of `K`
planes, and the union of two different codewords has more than `k`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import batching
from gozero.go import bitboard as bb
from gozero.go import floods, stacked


class PassAlive(NamedTuple):
    """The result for each colour: (Black's, White's)."""

    stones: tuple[bb.Board, bb.Board]  # chains that cannot be captured
    territory: tuple[bb.Board, bb.Board]  # points they enclose, including enemy stones there


class _Board(NamedTuple):
    """Axis 0 is the colour X, Black then White; the last axis is the games."""

    stones: jax.Array  # u32[2, W, B]: the stones of X
    vacant: jax.Array  # u32[1, W, B]
    chain_joints: tuple[jax.Array, jax.Array]  # two of u32[1, W, B]; of both colours at once
    region_joints: tuple[jax.Array, jax.Array]  # two of u32[2, W, B]


class _Candidates(NamedTuple):
    """What may still be alive."""

    chains: jax.Array  # u32[2, W, B]: stones of X
    regions: jax.Array  # u32[2, W, B]: all points of the candidates
    seats: jax.Array  # u32[2, W, B]: one point of each candidate
    vital: jax.Array  # u32[4, 2, W, B]: seats vital to the chain on their west, east, ...


def pass_alive(lay: bb.Layout, black: bb.Board, white: bb.Board) -> PassAlive:
    """Benson's unconditionally alive chains of both colours and what they enclose. For one game.

    Territory is every candidate region that borders only living chains: all its empty points touch
    them, so the other colour cannot live there.

    Args:
      lay: the layout.
      black, white: the board. Every chain must have a liberty.
    """
    (black_stones, white_stones), (black_area, white_area) = _pass_alive(lay)(black, white)
    return PassAlive((black_stones, white_stones), (black_area, white_area))


@functools.cache
def _pass_alive(lay: bb.Layout) -> Callable:
    def find(black, white):
        stones = jnp.stack([stacked.stack(black), stacked.stack(white)])
        candidates = _benson(lay, _board(lay, stones))
        return tuple(
            tuple(stacked.unstack(a[colour]) for colour in range(2))
            for a in (candidates.chains, candidates.regions)
        )

    return batching.over_games(find, in_cache=True)


def area_stage(lay: bb.Layout, stones: jax.Array) -> jax.Array:
    """Living stones and their territory, whose owner is certain; the last axis is the games.

    u32[2, W, B] -> u32[2, W, B].
    """
    candidates = _benson(lay, _board(lay, stones))
    return candidates.chains | candidates.regions


def settled_stage(lay: bb.Layout, stones: jax.Array, suicide: bool = False) -> jax.Array:
    """KataGo's pass-alive area, including its "safe big territories"; the last axis is the games.

    These are the living stones of a colour X and every region that borders no other stones of X
    and holds either no stone of the opponent, or at most one point that does not touch X, so that
    nobody can live there.

    Args:
      lay: the layout.
      stones: u32[2, W, B].
      suicide: whether suicide is allowed. If so, every point of a vital region must be adjacent to
        the chain, including those that the opponent occupies.

    Returns:
      u32[2, W, B].
    """
    board = _board(lay, stones)
    alive = _benson(lay, board, suicide).chains
    regions = stacked.full(lay, 3) & ~stones
    grow = lambda seeds: floods.grow_stacked(lay, seeds & regions, *board.region_joints)
    disputed = grow(stacked.neighbours(lay, stones & ~alive))
    inside = regions & ~stacked.neighbours(lay, stones)
    invaded = grow(stones[::-1]) & _with_two_of(lay, board, inside)
    has_stones = stacked.any_of(stones)[:, None]
    return alive | jnp.where(has_stones, regions & ~disputed & ~invaded, np.uint32(0))


def _with_two_of(lay: bb.Layout, board: _Board, points: jax.Array) -> jax.Array:
    """u32[2, W, B]: the regions that hold at least two of the points."""
    weight, masks = _codewords(lay)
    by_colour = []
    for colour in range(2):
        joints = (joint[colour : colour + 1] for joint in board.region_joints)
        planes = floods.grow_stacked(lay, points[colour][None] & masks, *joints)
        by_colour.append(stacked.in_at_least(weight + 1, planes))
    return jnp.stack(by_colour)


def _board(lay: bb.Layout, stones: jax.Array) -> _Board:
    everywhere = stacked.full(lay, 3)
    east, south = stacked.joints(lay, stones)
    return _Board(
        stones=stones,
        vacant=everywhere & ~(stones[:1] | stones[1:]),
        chain_joints=(east[:1] | east[1:], south[:1] | south[1:]),
        region_joints=stacked.joints(lay, everywhere & ~stones),
    )


def _benson(lay: bb.Layout, board: _Board, suicide: bool = False) -> _Candidates:
    """Benson's algorithm on the empty points of regions, or on all their points with suicide."""
    return _drop_unsupported(
        lay, board, _check_vital(lay, board, _candidates(lay, board, suicide), suicide)
    )


def _candidates(lay: bb.Layout, board: _Board, suicide: bool) -> _Candidates:
    """Regions whose every empty point touches X, taken as vital to every chain at their seat."""
    regions = stacked.full(lay, 3) & ~board.stones
    points = regions if suicide else board.vacant
    untouched = points & ~stacked.neighbours(lay, board.stones)
    regions = regions & ~floods.grow_stacked(lay, untouched, *board.region_joints)
    seats = _seats(lay, board, regions)
    vital = jnp.stack(stacked.on_sides(lay, board.stones)) & seats[None]
    return _Candidates(board.stones, regions, seats, vital)


def _seats(lay: bb.Layout, board: _Board, regions: jax.Array) -> jax.Array:
    """u32[2, W, B]: the lowest empty point of each region, found bit by bit of its number."""
    bits = jnp.asarray(_number_bits(lay))

    def keep_low(i, seats):
        high = bits[i][None]
        low_seats = seats & ~high
        has_low = floods.grow_stacked(lay, low_seats, *board.region_joints)
        return low_seats | (seats & ~has_low)

    return lax.fori_loop(0, len(bits), keep_low, board.vacant & regions)


def _drop_unsupported(lay: bb.Layout, board: _Board, candidates: _Candidates) -> _Candidates:
    """Drop chains with fewer than two seats and regions that border them, until nothing changes.

    Trip bound: the number of regions; a few in practice.
    """

    def step(carry):
        candidates, _ = carry
        chains = _with_two_seats(lay, board, candidates)
        unsupported = candidates.regions & stacked.neighbours(lay, board.stones & ~chains)
        dropped = floods.grow_stacked(lay, unsupported, *board.region_joints)
        remaining = _Candidates(
            chains=chains,
            regions=candidates.regions & ~dropped,
            seats=candidates.seats & ~dropped,
            vital=candidates.vital & ~dropped[None],
        )
        return remaining, stacked.any_at_all(unsupported)

    return lax.while_loop(lambda carry: carry[1], step, (candidates, jnp.bool_(True)))[0]


def _with_two_seats(lay: bb.Layout, board: _Board, candidates: _Candidates) -> jax.Array:
    """u32[2, W, B]: the chains with at least two vital regions."""
    weight, masks = _codewords(lay)
    sides = []
    for side, opposite in enumerate((1, 0, 3, 2)):  # a stone east of a seat has it on its west
        reached = stacked.on_sides(lay, candidates.vital[opposite])[side] & board.stones
        sides.append(reached[0] | reached[1])
    planes = floods.grow_stacked(lay, stacked.in_masks(lay, sides, masks), *board.chain_joints)
    return stacked.in_at_least(weight + 1, planes)[None] & board.stones


def _check_vital(
    lay: bb.Layout, board: _Board, candidates: _Candidates, suicide: bool
) -> _Candidates:
    """Test whether regions of several empty points are vital, one region per colour at a time.

    Trip bound: the number of regions in a game, which is small.
    """
    other_points = candidates.regions & ~candidates.seats
    other_points = other_points if suicide else other_points & board.vacant
    several = candidates.seats & floods.grow_stacked(lay, other_points, *board.region_joints)

    def step(carry):
        several, vital = carry
        seat = stacked.lowest_point(several)
        region = floods.grow_stacked(lay, seat, *board.region_joints)
        region = region if suicide else region & board.vacant
        sides = jnp.stack([stacked.on_sides(lay, seat)[d] for d in (1, 0, 3, 2)])
        touching = sides & board.stones[None]
        chains = floods.grow_stacked(lay, touching[:, 0] | touching[:, 1], *board.chain_joints)
        liberties = stacked.neighbours(lay, chains[:, None] & board.stones[None])
        not_vital = stacked.any_of(region[None] & ~liberties)[:, :, None]  # [4, 2, 1, B]
        return several & ~seat, vital & ~jnp.where(not_vital, seat[None], np.uint32(0))

    def has_regions(carry):
        return stacked.any_at_all(carry[0])

    carry = lax.while_loop(has_regions, step, (several, candidates.vital))
    return candidates._replace(vital=carry[1])


@functools.cache
def _number_bits(lay: bb.Layout) -> np.ndarray:
    """u32[bits, W, 1]: the points whose number has each bit set, the highest bit first."""
    count = max(1, (lay.num_points - 1).bit_length())
    numbers = [
        stacked.line_masks(lay, lambda row, col, b=b: (row * lay.size + col) >> b & 1, 2)[1]
        for b in reversed(range(count))
    ]
    return np.stack(numbers)


@functools.cache
def _codewords(lay: bb.Layout) -> tuple[int, np.ndarray]:
    """(k, u32[K, W, 1]): the points of each plane of a code; each point is in k of the K planes."""
    planes = next(n for n in itertools.count(2) if math.comb(n, n // 2) >= lay.num_points)
    weight = planes // 2
    words = list(itertools.islice(itertools.combinations(range(planes), weight), lay.num_points))
    member = lambda plane: lambda row, col: int(plane in words[row * lay.size + col])
    return weight, np.stack([stacked.line_masks(lay, member(p), 2)[1] for p in range(planes)])
