"""Playout lanes that decide tries on the whole board.

A playout move needs one legal point, not a list of them. So a lane *tries* a random candidate: it
places the stone, grows the set of stones that are surely alive from the liberties, and checks
whether the stone's chain and the enemy chains beside it are among them. Most tries are decided
after two sweeps; an undecided lane goes on growing in the next iteration, while the others play
on. No lane ever waits in an inner loop. One iteration of a lane is

    choose   a random candidate, unless a try is pending
    grow     the living stones, with the candidate on the board
    result   play it, reject it, or keep it pending: one word of flags
    update   the lane by the flags

`choose` is one separately compiled stage (`stages.once`), `grow` and `result` are another. For
boards with one row per word, `window` has other lanes, which play the same games.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.compile import stages
from gozero.go import bitboard as bb
from gozero.go import floods
from gozero.go import rules as go
from gozero.playouts import engine, playable
from gozero.playouts.engine import Clock, Played, PlayoutPolicy
from gozero.playouts.first_plays import FirstPlayKind, FirstPlays, none_yet

_SWEEPS = 2  # growth sweeps at a time; one more step checks whether they were enough


class BoardLanes(NamedTuple):
    """The state of B playouts; a board is W words u32[B]."""

    own: bb.Board  # stones of the player to move
    opponent: bb.Board
    banned: bb.Board  # this turn: the ko point, and points found to be suicide
    alive: bb.Board  # stones known to have a liberty with the pending try on the board
    clock: Clock
    first: FirstPlays | None  # None if they are not recorded
    places: jax.Array | None = None  # f32[2, P, B]: points' places in each player's list, if any

    def stones(self) -> tuple[bb.Board, bb.Board]:
        """(black, white) of each lane."""
        return bb.swapped(self.clock.turn != 0, self.own, self.opponent)


def init(
    rules: go.Rules, positions: go.Position, clock: Clock, first_plays: FirstPlayKind
) -> BoardLanes:
    """The lanes before the first iteration."""
    lay = rules.layout
    own, opponent = go.own_and_opponent(positions)
    empty = (jnp.zeros_like(clock.turn),) * lay.num_words
    return BoardLanes(
        own=own,
        opponent=opponent,
        banned=jax.vmap(lambda ko: bb.at(lay, ko))(positions.ko),
        alive=empty,
        clock=clock,
        first=none_yet(first_plays, empty),
    )


def step(
    choose: Callable, rules: go.Rules, cap: int, params: Any, lanes: BoardLanes
) -> tuple[BoardLanes, Played]:
    """One iteration of every lane; finished lanes are unchanged.

    Args:
      choose: (layout, params, lanes) -> u32[B], each lane's pending move or else a candidate.
      rules: the rules; only their size matters.
      cap: the number of moves that ends a playout.
      params: the policy's parameters.
      lanes: [B].
    """
    lay, clock = rules.layout, lanes.clock
    move = choose(lay, params, lanes)
    boards = (lanes.own, lanes.opponent)
    playing = engine.playing(clock, cap)
    decide = jax.vmap(functools.partial(_decide, lay))
    alive, flags = stages.once(decide, *boards, move, clock.trying, lanes.alive, playing)
    return _update(lay, lanes, move, alive, flags), Played((flags & playable.PLAY) != 0, move)


def _choose(lay: bb.Layout, params: Any, lanes: BoardLanes) -> jax.Array:
    """u32[B]: the pending move, or a random candidate."""

    def one_lane(own, opponent, banned, trying, random):
        new_move = playable.pick(lay, playable.candidates(lay, own, opponent, banned), random)
        return jnp.where(trying != playable.NO_MOVE, trying, new_move)

    boards = (lanes.own, lanes.opponent, lanes.banned)
    random = engine.random_bits(lanes.clock)
    return stages.once(jax.vmap(one_lane), *boards, lanes.clock.trying, random)


UNIFORM = PlayoutPolicy(
    init, engine.repeated(functools.partial(step, _choose)), cpu_lanes=256, in_kernel=True
)


def _decide(lay, own, opponent, move, trying, alive, playing) -> tuple[bb.Board, jax.Array]:
    """(the living stones, continued from those of a pending try; the result of the try).

    Finished lanes get no flags, so they stop. Both outputs can share a stage: the words of `alive`
    are still computed only once, and the flags from them.
    """
    alive = grow(lay, own, opponent, move, bb.keep(trying != playable.NO_MOVE, alive))
    flags = move_result(lay, own, opponent, move, alive)
    return alive, jnp.where(playing, flags, np.uint32(0))


def grow(
    lay: bb.Layout, own: bb.Board, opponent: bb.Board, move: jax.Array, alive: bb.Board
) -> bb.Board:
    """The stones of either colour found to have a liberty with the move's stone on the board.

    `alive` holds those found so far (none at first). Once `grow` adds none, all are found.
    """
    beside_liberty, joined = growth_of(lay, own, opponent, move)
    alive = bb.union(beside_liberty, alive)
    for _ in range(_SWEEPS):
        alive = floods.sweep(lay, alive, joined)
    return alive


def growth_of(
    lay: bb.Layout, own: bb.Board, opponent: bb.Board, move: jax.Array
) -> tuple[bb.Board, tuple[bb.Board, bb.Board]]:
    """(stones beside a liberty, joints along which to grow), with the move's stone on the board."""
    own = bb.union(own, playable.board_of(lay, move))
    stones = bb.union(own, opponent)
    beside_liberty = bb.intersection(bb.beside(lay, bb.complement(lay, stones)), stones)
    return beside_liberty, bb.joints_of_both(lay, own, opponent)


def move_result(
    lay: bb.Layout, own: bb.Board, opponent: bb.Board, move: jax.Array, alive: bb.Board
) -> jax.Array:
    """u32[]: the flags of a try, exactly one of which is PLAY, REJECT or PENDING.

    CAPTURE means that all enemy stones not in `alive` are captured; no pending try has it.

    Every chain had a liberty before the stone was placed, so once the growth has converged, the
    stones not alive are the chains whose last liberty it took. Two cases are decided earlier:
      * the stone and all enemy chains beside it are alive: a legal move that captures nothing;
      * those chains are alive and the stone is alone without a liberty: suicide.
    """
    point = playable.board_of(lay, move)
    joined = bb.joints_of_both(lay, bb.union(own, point), opponent)
    settled = ~bb.any_of(floods.frontier(lay, alive, joined))
    beside = bb.neighbours(lay, point)
    not_alive = bb.difference(opponent, alive)
    doubtful = bb.any_of(bb.intersection(beside, not_alive))
    lives = bb.any_of(bb.intersection(point, alive))
    alone = ~bb.any_of(bb.intersection(beside, own))
    is_pass = move == playable.PASS_MOVE

    decided = (~doubtful & (lives | alone)) | settled | is_pass
    capture = doubtful & settled
    legal = lives | capture | is_pass
    enclosed = ~bb.any_of(bb.difference(beside, opponent))  # by enemy stones only
    ko = capture & enclosed & (bb.count(not_alive) == 1)
    return playable.flags(
        (decided & legal, playable.PLAY),
        (decided & ~legal, playable.REJECT),
        (~decided, playable.PENDING),
        (capture, playable.CAPTURE),
        (ko, playable.KO),
    )


def _update(lay, lanes: BoardLanes, move, alive, flags) -> BoardLanes:
    """The lanes after their tries; elementwise, so written for all lanes at once."""
    played, rejected, _, capture, ko = ((flags & f) != 0 for f in playable.FLAGS)
    point = playable.board_of(lay, move)
    captured = bb.keep(capture, bb.difference(lanes.opponent, alive))
    tried = bb.union(lanes.banned, bb.keep(rejected, point))
    first = lanes.first
    if first is not None:
        first = first.and_then(bb.keep(played, point), lanes.clock.turn == 0)
    return BoardLanes(
        own=bb.where(played, bb.difference(lanes.opponent, captured), lanes.own),
        opponent=bb.where(played, bb.union(lanes.own, point), lanes.opponent),
        banned=bb.where(played, bb.keep(ko, captured), tried),
        alive=alive,
        clock=engine.after_try(lanes.clock, move, flags),
        first=first,
        places=lanes.places,
    )
