"""Lanes of playouts whose tries are judged on the whole board: the form for small boards.

A playout move needs one legal point, not the list of them. So a lane *tries* a random
candidate: it puts the stone, grows the set of stones that are surely alive from the
liberties, and sees whether the stone's chain and the enemy chains beside it are among them.
Most tries are decided after two sweeps; a lane whose try is not, goes on growing in the
next iteration, while its neighbours play on. No lane ever waits in an inner loop. One
iteration of a lane is

    choose   a random candidate, unless a try is pending
    grow     the living stones, with the candidate on the board
    judge    play it, reject it, or keep it pending: one word of flags
    update   the lane by the flags

To choose is a stage behind a fusion wall, to grow and judge another; both are written for one
game, and `step` maps them over the lanes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import stages
from gozero.go import bitboard as bb
from gozero.go import floods
from gozero.go import rules as go
from gozero.playouts import clock as clocks
from gozero.playouts import policies
from gozero.playouts.clock import Clock, Played
from gozero.playouts.first_plays import FirstPlays, Wanted, none_yet

CPU_LANES = 256  # of a squad: more do not fit a core's first cache
_ITERATIONS = 8  # of a block
_SWEEPS = 2  # of growth at a time; one more finds out whether they were enough


class Lanes(NamedTuple):
    """B playouts as they run; a board is W words u32[B]."""

    own: bb.Board  # stones of the player to move
    opponent: bb.Board
    banned: bb.Board  # this turn: the ko point, and what was tried and is suicide
    alive: bb.Board  # stones known to have a liberty once the pending try is on the board
    clock: Clock
    first: FirstPlays | None  # if they are wanted


def start(rules: go.Rules, positions: go.Position, clock: Clock, first_plays: Wanted) -> Lanes:
    """The lanes before the first iteration."""
    lay = rules.layout
    own, opponent = go.own_and_opponent(positions)
    empty = (jnp.zeros_like(clock.turn),) * lay.num_words
    return Lanes(
        own=own,
        opponent=opponent,
        banned=jax.vmap(lambda ko: bb.at(lay, ko))(positions.ko),
        alive=empty,
        clock=clock,
        first=none_yet(first_plays, empty),
    )


def stones(lanes: Lanes) -> tuple[bb.Board, bb.Board]:
    """(black, white) of each lane."""
    white_moves = lanes.clock.turn != 0
    return (
        bb.where(white_moves, lanes.opponent, lanes.own),
        bb.where(white_moves, lanes.own, lanes.opponent),
    )


def first_plays(lanes: Lanes) -> tuple[bb.Board, bb.Board]:
    """(Black's, White's) first plays of each lane."""
    assert lanes.first is not None
    return lanes.first.by_colour


def advance(rules: go.Rules, cap: int, lanes: Lanes) -> tuple[Lanes, Played]:
    """A block of iterations: (lanes, what was played, [T, B])."""

    def one(lanes, _):
        return step(rules, cap, lanes)

    return lax.scan(one, lanes, length=_ITERATIONS)


def step(rules: go.Rules, cap: int, lanes: Lanes) -> tuple[Lanes, Played]:
    """One iteration of every lane; one that has finished stays as it is.

    Args:
      rules: the rules; their size is what counts.
      cap: the number of moves that ends a playout.
      lanes: [B].
    """
    lay = rules.layout
    own, opponent, clock = lanes.own, lanes.opponent, lanes.clock

    def stage(function: Callable, *args):
        mapped = jax.vmap(lambda *one_game: function(lay, *one_game))
        return stages.once(mapped, *args)

    random = clocks.random_bits(clock)
    spot = stage(_choose, own, opponent, lanes.banned, clock.trying, random)
    return settle(rules, cap, lanes, spot)


def settle(rules: go.Rules, cap: int, lanes: Lanes, spot: jax.Array) -> tuple[Lanes, Played]:
    """The rest of an iteration, once each lane has chosen: each spot tried, u32[B]."""
    lay, clock = rules.layout, lanes.clock

    def judge(*args):
        return jax.vmap(functools.partial(_judge, lay))(*args)

    playing = clocks.playing(clock, cap)
    boards = (lanes.own, lanes.opponent)
    alive, flags = stages.once(judge, *boards, spot, clock.trying, lanes.alive, playing)
    return _update(lay, lanes, spot, alive, flags), Played((flags & policies.PLAY) != 0, spot)


def _choose(lay, own, opponent, banned, trying, random) -> jax.Array:
    """u32[]: the pending spot, or a random candidate."""
    fresh = policies.pick(lay, policies.candidates(lay, own, opponent, banned), random)
    return jnp.where(trying != policies.NO_SPOT, trying, fresh)


def _judge(lay, own, opponent, spot, trying, alive, playing) -> tuple[bb.Board, jax.Array]:
    """What is alive, going on from what a pending try had found, and the flags of the try.

    A lane that has finished has none, which stops it. Two outputs in one stage: the words of
    `alive` are computed once all the same, and the flags from them.
    """
    alive = grow(lay, own, opponent, spot, bb.keep(trying != policies.NO_SPOT, alive))
    flags = judge(lay, own, opponent, spot, alive)
    return alive, jnp.where(playing, flags, np.uint32(0))


def grow(
    lay: bb.Layout, own: bb.Board, opponent: bb.Board, spot: jax.Array, alive: bb.Board
) -> bb.Board:
    """Stones of either colour that have a liberty once the spot's stone is on the board.

    `alive` holds those found so far (none at first). All are found when `grow` adds none.
    """
    own = bb.union(own, policies.spot_board(lay, spot))
    stones = bb.union(own, opponent)
    beside_liberty = bb.intersection(bb.beside(lay, bb.complement(lay, stones)), stones)
    alive = bb.union(beside_liberty, alive)
    joined = policies.joints_of_both(lay, own, opponent)
    for _ in range(_SWEEPS):
        alive = policies.sweep(lay, alive, joined)
    return alive


def judge(
    lay: bb.Layout, own: bb.Board, opponent: bb.Board, spot: jax.Array, alive: bb.Board
) -> jax.Array:
    """u32[]: the flags of a try, of which one is PLAY, REJECT or PENDING.

    CAPTURE means that all enemy stones not alive are captured; no pending try has it.

    All chains lived before the stone came, so once the growth has settled the stones not
    alive are the chains it took the last liberty of. Sooner than that is known:
      * the stone and all enemy chains beside it live: a legal move that captures nothing;
      * those chains live, and the stone, alone, has no liberty: suicide.
    """
    point = policies.spot_board(lay, spot)
    joined = policies.joints_of_both(lay, bb.union(own, point), opponent)
    settled = ~bb.any_of(floods.frontier(lay, alive, joined))
    beside = bb.neighbours(lay, point)
    not_alive = bb.difference(opponent, alive)
    doubtful = bb.any_of(bb.intersection(beside, not_alive))
    lives = bb.any_of(bb.intersection(point, alive))
    alone = ~bb.any_of(bb.intersection(beside, own))
    is_pass = spot == policies.PASS_SPOT

    decided = (~doubtful & (lives | alone)) | settled | is_pass
    capture = doubtful & settled
    legal = lives | capture | is_pass
    walled_in = ~bb.any_of(bb.difference(beside, opponent))  # by enemy stones only
    ko = capture & walled_in & (bb.count(not_alive) == 1)
    return policies.flags(
        (decided & legal, policies.PLAY),
        (decided & ~legal, policies.REJECT),
        (~decided, policies.PENDING),
        (capture, policies.CAPTURE),
        (ko, policies.KO),
    )


def _update(lay, lanes: Lanes, spot, alive, flags) -> Lanes:
    """The lanes after their tries: elementwise, so written for all lanes at once."""
    played, rejected, _, capture, ko = ((flags & f) != 0 for f in policies.FLAGS)
    point = policies.spot_board(lay, spot)
    captured = bb.keep(capture, bb.difference(lanes.opponent, alive))
    tried = bb.union(lanes.banned, bb.keep(rejected, point))
    first = lanes.first
    if first is not None:
        first = first.and_then(bb.keep(played, point), lanes.clock.turn == 0)
    return Lanes(
        own=bb.where(played, bb.difference(lanes.opponent, captured), lanes.own),
        opponent=bb.where(played, bb.union(lanes.own, point), lanes.opponent),
        banned=bb.where(played, bb.keep(ko, captured), tried),
        alive=alive,
        clock=clocks.after(lanes.clock, spot, flags),
        first=first,
    )
