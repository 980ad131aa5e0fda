"""Lanes of playouts whose tries are judged in a window: the form for a row of the board a word.

Whether a try is legal, and what it captures, is decided in three places, each dearer and
rarer than the one before; a lane that is not decided waits for the next:

    window   the five rows around the point, every iteration: most tries
    board    the whole board, with two sweeps of growth, every fifth iteration
    flood    the whole board, going on until it settles, every 15th: long chains and
             large captures

The first two are `verdicts`: all that the lanes' update needs in *one* word, so that nothing
is computed twice (see `fusion`).
"""

from __future__ import annotations

import functools
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
from gozero.playouts import policies, verdicts, whole_board
from gozero.playouts.clock import Clock, Played
from gozero.playouts.first_plays import FirstPlays, Wanted, none_yet

CPU_LANES = 128  # of a squad: more do not fit a core's first cache
_TRIES_PER_BOARD = 5  # iterations between two looks at the whole board
_BOARDS_PER_FLOOD = 3
FLOOD_SWEEPS = 3  # of a flood; one that has not settled goes on at the next


class Lanes(NamedTuple):
    """B playouts as they run; a board is one array u32[W, B], a row of the board a word."""

    black: jax.Array
    white: jax.Array
    tried: jax.Array  # this turn: points tried that are suicide
    ko: jax.Array  # u32[B]: the spot of the ko point, or NO_SPOT
    alive: jax.Array  # stones known to live, of lanes that the flood left pending
    clock: Clock
    first: FirstPlays | None  # if they are wanted


def fits(lay: bb.Layout) -> bool:
    """Can this form play on the layout?"""
    return lay.rows_per_word == 1


def start(rules: go.Rules, positions: go.Position, clock: Clock, first_plays: Wanted) -> Lanes:
    """The lanes before the first iteration."""
    lay = rules.layout
    black, white = jnp.stack(positions.black), jnp.stack(positions.white)
    empty = jnp.zeros_like(black)
    return Lanes(
        black=black,
        white=white,
        tried=empty,
        ko=policies.point_spot(lay, positions.ko.astype(jnp.int32)),
        alive=empty,
        clock=clock,
        first=none_yet(first_plays, empty),
    )


def stones(lanes: Lanes) -> tuple[bb.Board, bb.Board]:
    """(black, white) of each lane."""
    return tuple(lanes.black), tuple(lanes.white)


def first_plays(lanes: Lanes) -> tuple[bb.Board, bb.Board]:
    """(Black's, White's) first plays of each lane."""
    assert lanes.first is not None
    black, white = lanes.first.by_colour
    return tuple(black), tuple(white)


# --- the iterations -------------------------------------------------------------------


def advance(rules: go.Rules, cap: int, lanes: Lanes) -> tuple[Lanes, Played]:
    """A block of iterations: (lanes, what was played, [T, B])."""

    def try_in_window(lanes, _):
        return _try_in_window(rules, cap, lanes)

    def tries_and_board(lanes, _):
        lanes, in_window = lax.scan(try_in_window, lanes, length=_TRIES_PER_BOARD)
        lanes, on_board = _judge_on_board(rules, lanes)
        return lanes, _joined(in_window, on_board)

    lanes, played = lax.scan(tries_and_board, lanes, length=_BOARDS_PER_FLOOD)
    lanes, flooded = _judge_by_flood(rules, lanes)
    return lanes, _joined(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), played), flooded)


def _joined(several: Played, last: Played) -> Played:
    """[T, B] and [B] -> [T + 1, B]."""
    return jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), several, last)


def _try_in_window(rules, cap, lanes: Lanes) -> tuple[Lanes, Played]:
    """Each lane that awaits no verdict tries a random candidate."""
    lay, clock = rules.layout, lanes.clock

    def choose(black, white, tried, ko, turn, random):
        own, opponent = verdicts.by_mover(turn, black, white)
        banned = bb.union(tuple(tried), policies.spot_board(lay, ko))
        return policies.pick(lay, policies.candidates(lay, own, opponent, banned), random)

    def judge(black, white, turn, spot, playing):
        verdict = verdicts.judge_in_window(lay, tuple(black), tuple(white), turn, spot)
        return jnp.where(playing, verdict, np.uint32(0))

    active = clocks.playing(clock, cap) & (clock.trying == policies.NO_SPOT)
    boards = (lanes.black, lanes.white)
    random = clocks.random_bits(clock)
    spot = stages.once(choose, *boards, lanes.tried, lanes.ko, clock.turn, random)
    verdict = stages.once(judge, *boards, clock.turn, spot, active)
    return _update(lanes, spot, verdict), Played((verdict & policies.PLAY) != 0, spot)


def _judge_on_board(rules, lanes: Lanes) -> tuple[Lanes, Played]:
    """Each lane that awaits a verdict has its try judged on the whole board."""
    lay, spot = rules.layout, lanes.clock.trying

    def judge(black, white, turn, spot):
        own, opponent = verdicts.by_mover(turn, black, white)
        verdict = verdicts.judge_on_board(lay, own, opponent, spot)
        return jnp.where(spot != policies.NO_SPOT, verdict, np.uint32(0))

    def nothing(black, white, turn, spot):
        return jnp.zeros_like(spot)

    someone = jnp.any(spot != policies.NO_SPOT)
    boards = (lanes.black, lanes.white, lanes.clock.turn)
    verdict = lax.cond(someone, judge, nothing, *boards, spot)
    return _update(lanes, spot, verdict), Played((verdict & policies.PLAY) != 0, spot)


def _judge_by_flood(rules, lanes: Lanes) -> tuple[Lanes, Played]:
    """Each lane that still awaits a verdict has its living stones grow on, until they settle."""
    lay, spot = rules.layout, lanes.clock.trying

    def judge(black, white, turn, spot, alive):
        settled = stages.once(functools.partial(_flood, lay), black, white, turn, spot, alive)
        verdict = stages.once(
            functools.partial(_judge_settled, lay), black, white, turn, spot, settled
        )
        pending = (verdict & policies.PENDING) != 0
        not_alive = jnp.where(turn[None] != 0, black, white) & ~settled
        captures = (verdict & policies.CAPTURE) != 0
        return (
            verdict,
            jnp.where(captures[None], not_alive, np.uint32(0)),
            jnp.where(pending[None], settled, np.uint32(0)),
        )

    def nothing(black, white, turn, spot, alive):
        return jnp.zeros_like(spot), jnp.zeros_like(black), alive

    someone = jnp.any(spot != policies.NO_SPOT)
    boards = (lanes.black, lanes.white, lanes.clock.turn)
    verdict, captured, alive = lax.cond(someone, judge, nothing, *boards, spot, lanes.alive)
    lanes = _update(lanes, spot, verdict, captured)._replace(alive=alive)
    return lanes, Played((verdict & policies.PLAY) != 0, spot)


def _flood(lay, black, white, turn, spot, alive):
    """u32[W, B]: the living stones of lanes that await a verdict, some sweeps further."""
    own, opponent = verdicts.by_mover(turn, black, white)
    own = bb.union(own, policies.spot_board(lay, spot))
    stones = bb.union(own, opponent)
    beside_liberty = bb.intersection(bb.beside(lay, bb.complement(lay, stones)), stones)
    seeds = bb.keep(spot != policies.NO_SPOT, bb.union(beside_liberty, tuple(alive)))
    east, south = policies.joints_of_both(lay, own, opponent)
    stacked = (jnp.stack(board)[None] for board in (seeds, east, south))
    return floods.grow_some(lay, *stacked, FLOOD_SWEEPS)[0]


def _judge_settled(lay, black, white, turn, spot, alive):
    """u32[B]: the verdict by the living stones; with the pattern, if only for a ko."""
    own, opponent = verdicts.by_mover(turn, black, white)
    alive = tuple(alive)
    verdict = whole_board.judge(lay, own, opponent, spot, alive)
    captured = bb.keep((verdict & policies.CAPTURE) != 0, bb.difference(opponent, alive))
    around = verdicts.rows_around(list(captured), policies.word_of(spot), verdicts.PATTERN_REACH)
    verdict = verdict | verdicts.pattern(spot, around)
    return jnp.where(spot != policies.NO_SPOT, verdict, np.uint32(0))


def _update(lanes: Lanes, spot, verdict, captured=None) -> Lanes:
    """The lanes after their verdicts.

    Every array is updated where it lies; the captured stones are those of the pattern unless
    they are given. `tried` also forgets when a try is decided by a move.
    """
    nothing = np.uint32(0)
    row = lax.iota(jnp.uint32, lanes.black.shape[0])[:, None]
    at, said, turn = spot[None], verdict[None], lanes.clock.turn[None]  # [1, B], beside [W, B]
    black_moves, white_moves = turn == 0, turn != 0
    played, rejected = (said & policies.PLAY) != 0, (said & policies.REJECT) != 0
    point = jnp.where(row == policies.word_of(at), verdicts.point_bit(at), nothing)
    if captured is None:
        from_black = verdicts.pattern_rows(row, at, jnp.where(white_moves, said, nothing))
        from_white = verdicts.pattern_rows(row, at, jnp.where(black_moves, said, nothing))
    else:
        from_black = jnp.where(white_moves, captured, nothing)
        from_white = jnp.where(black_moves, captured, nothing)
    first = lanes.first
    if first is not None:
        first = first.and_then(jnp.where(played, point, nothing), black_moves)
    ko = jnp.where(
        (verdict & policies.KO) != 0, verdicts.pattern_spot(spot, verdict), policies.NO_SPOT
    )
    tried = lanes.tried | jnp.where(rejected, point, nothing)
    return lanes._replace(
        black=(lanes.black | jnp.where(played & black_moves, point, nothing)) & ~from_black,
        white=(lanes.white | jnp.where(played & white_moves, point, nothing)) & ~from_white,
        tried=jnp.where(played, nothing, tried),
        ko=jnp.where((verdict & policies.PLAY) != 0, ko, lanes.ko),
        clock=clocks.after(lanes.clock, spot, verdict),
        first=first,
    )
