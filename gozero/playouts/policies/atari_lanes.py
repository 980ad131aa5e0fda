"""Playout lanes that know which stones are in atari.

Along with its board, a lane keeps exactly which stones are in atari. So the legal points and all
captures take only a few shifts, and no try is suicide. A policy chooses the move; one iteration of
a lane is

    choose   a move, unless one is pending                      (the policy)
    grow     the chains that it touches, some sweeps further    (`chains`)
    result   play it, reject it, or go on: one word of flags    (`chains`)
    reject   what else the policy rejects, if it does           (the policy)
    update   the lane by the flags

where `grow` and `result` are separately compiled stages (`stages.once`), and policies choose in
stages of their own. Most moves take one iteration; a lane with long chains goes on growing in the
next, while the others play on. (MoGo's playouts in lanes that find the chains as
`gozero.go.placement` does, in a loop that runs until the last has finished, play the same games and
take 2.3 times as long on 9x9, 2.7 times on 19x19.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import stages
from gozero.go import bitboard as bb
from gozero.go import floods, stacked
from gozero.go import rules as go
from gozero.go.placement import placeable
from gozero.playouts import engine, playable
from gozero.playouts.engine import Clock
from gozero.playouts.first_plays import FirstPlayKind, FirstPlays, none_yet
from gozero.playouts.policies import chains

SAVE = 1
"""The rule whose moves are rejected if they save no chain that the last move put in atari."""


class Situation(NamedTuple):
    """Positions from the side of the player to move.

    A board is W words in functions of one game, and one array u32[W, B] in lanes.
    """

    own: Any
    opponent: Any
    atari: Any  # stones of either colour whose chain has exactly one liberty
    ko: Any  # board: the point that simple ko bans
    endangered: Any  # own stones that the last move put in atari
    rejected: Any  # points rejected this turn; read by MoGo's rule "save" only
    last: jax.Array  # u32[...]: the last move; NO_MOVE if unknown


class AtariLanes(NamedTuple):
    """The state of B playouts; a board is one array u32[W, B]."""

    now: Situation
    planes: tuple[jax.Array, jax.Array]  # the two planes grown so far, if a move is pending
    changed: jax.Array  # enemy chains of its first round that are captured or put in atari
    second_round: jax.Array  # u32[B]: 1 if the pending move is in its second round
    rule: jax.Array  # u32[B]: the rule that chose the pending move
    clock: Clock
    first: FirstPlays | None  # None if they are not recorded

    def stones(self) -> tuple[bb.Board, bb.Board]:
        """(black, white) of each lane."""
        return bb.swapped(self.clock.turn != 0, tuple(self.now.own), tuple(self.now.opponent))


class PlayedByRule(NamedTuple):
    """What one iteration added to the games."""

    played: jax.Array  # bool[B]: whether the lane made a move
    move: jax.Array  # u32[B]: the move, if so
    rule: jax.Array  # u32[B]: the rule that chose it


def init(
    rules: go.Rules,
    positions: go.Position,
    clock: Clock,
    first_plays: FirstPlayKind,
    last: jax.Array,
) -> AtariLanes:
    """The lanes before the first iteration; `last` is i32[B], the last moves.

    The positions' `atari` must be exact.
    """
    now = situation(rules, positions, last)
    empty, zero = jnp.zeros_like(now.own), jnp.zeros_like(clock.turn)
    return AtariLanes(
        now=now,
        planes=(empty, empty),
        changed=empty,
        second_round=zero,
        rule=zero,
        clock=clock,
        first=none_yet(first_plays, empty),
    )


def situation(rules: go.Rules, positions: go.Position, last: jax.Array) -> Situation:
    """The `Situation` of positions [B] after last moves i32[B].

    The positions' `atari` must be exact, as in all that `go.rules` or `go.setup` makes.
    """
    lay = rules.layout
    own, opponent = map(jnp.stack, go.own_and_opponent(positions))
    atari = jnp.stack(positions.atari)
    move = playable.packed_point(lay, last)
    stone = _boards(lay, move) & opponent
    return Situation(
        own=own,
        opponent=opponent,
        atari=atari,
        ko=_boards(lay, playable.packed_point(lay, positions.ko.astype(jnp.int32))),
        endangered=chains_beside(lay, stone, own & atari),
        rejected=jnp.zeros_like(own),
        last=jnp.where(stacked.any_of(stone), move, playable.NO_MOVE),
    )


def _boards(lay: bb.Layout, move: jax.Array) -> jax.Array:
    """u32[B] -> u32[W, B]: the boards with only the moves' points set."""
    return jnp.stack(playable.board_of(lay, move))


def chains_beside(lay: bb.Layout, points: jax.Array, stones: jax.Array) -> jax.Array:
    """u32[W, B]: the chains of `stones` next to the points."""
    seeds = stacked.neighbours(lay, points) & stones
    east, south = stacked.joints(lay, stones)
    return floods.grow_stacked(lay, seeds[None], east[None], south[None])[0]


def legal_points(lay: bb.Layout, now: Situation) -> bb.Board:
    """The points where a stone may be played: no suicide, and not the ko point."""
    return bb.difference(placeable(lay, now.own, now.opponent, now.atari), now.ko)


def step(
    choose: Callable,
    reject: Callable | None,
    rules: go.Rules,
    cap: int,
    params: Any,
    lanes: AtariLanes,
) -> tuple[AtariLanes, PlayedByRule]:
    """One iteration of every lane; finished lanes are unchanged.

    Args:
      choose: (layout, params, lanes) -> (packed moves u32[B], the rules that chose them u32[B]),
        for lanes without a pending move. A move by the rule SAVE is rejected if it saves nothing;
        other numbers, such as 0 for no rule, are only passed on.
      reject: (params, clock, flags u32[B]) -> flags, in which it may turn PLAY into REJECT; None:
        it rejects no move.
      rules: the rules; only their size matters.
      cap: the number of moves that ends a playout.
      params: the policy's parameters.
      lanes: [B].
    """
    lay, clock = rules.layout, lanes.clock

    def decide(*args):
        *args, playing = stacked.words(args)
        return jnp.where(playing, chains.move_result(lay, *args), np.uint32(0))

    now = lanes.now
    move, rule = choose(lay, params, lanes)
    board = chains.MoverBoard(now.own, now.opponent, now.atari)
    pending = clock.trying != playable.NO_MOVE
    move = jnp.where(pending, clock.trying, move)
    rule = jnp.where(pending, lanes.rule, rule)
    tried = chains.Tried(move, pending, lanes.second_round, lanes.changed)
    planes = stages.once(functools.partial(_grow, lay), board, lanes.planes, tried)
    planes = (stacked.stack(planes[0]), stacked.stack(planes[1]))
    playing = engine.playing(clock, cap)
    flags = stages.once(decide, board, now.endangered, planes, tried, rule == SAVE, playing)
    if reject is not None:
        flags = reject(params, clock, flags)
    played = (flags & playable.PLAY) != 0
    return _update(lanes, move, rule, planes, flags), PlayedByRule(played, move, rule)


def _grow(lay: bb.Layout, board, planes, tried) -> tuple[jax.Array, jax.Array]:
    """Two of u32[W, B]: the planes of the tries, some sweeps further."""
    board, planes, tried = stacked.words((board, planes, tried))
    seeds = chains.seeds(lay, board, planes, tried)
    joints = chains.joined(lay, board, tried.move)
    grown = []
    for plane in seeds:
        for _ in range(chains.SWEEPS):
            plane = floods.sweep(lay, plane, joints)
        grown.append(plane)
    return grown[0], grown[1]


def _update(lanes: AtariLanes, move, rule, planes, flags) -> AtariLanes:
    """The lanes after their tries; elementwise, every array updated in place."""
    none = np.uint32(0)
    now = lanes.now
    own, opponent, atari = now.own, now.opponent, now.atari
    row = lax.iota(jnp.uint32, own.shape[0])[:, None]

    def has(flag):
        return ((flags & flag) != 0)[None]

    def keep(condition, x):
        return jnp.where(condition, x, none)

    played, following, pending = has(playable.PLAY), has(chains.NEXT), has(playable.PENDING)
    bit = jnp.where((move & playable.IS_POINT) != 0, np.uint32(1) << (move & 31), none)
    point = keep(row == playable.word_of(move)[None], bit[None])
    changed = lanes.changed
    for plane, flag in zip(planes, (chains.ATARI_0, chains.ATARI_1), strict=True):
        changed = changed | (plane & opponent & (atari | keep(has(flag), ~atari)))
    captured, endangered = changed & atari, changed & ~atari
    own_chain, freed = planes[0] & (own | point), planes[1] & own
    atari_after = (atari & ~(captured | own_chain | freed)) | endangered
    atari_after = atari_after | keep(has(chains.OWN_ATARI), own_chain)
    tried = now.rejected | keep(has(playable.REJECT), point)
    first = lanes.first
    if first is not None:
        first = first.and_then(keep(played, point), (lanes.clock.turn == 0)[None])
    dropped = keep(following, opponent)
    second_round = jnp.where(pending[0], lanes.second_round, none)
    now = Situation(
        own=jnp.where(played, opponent & ~captured, own),
        opponent=jnp.where(played, own | point, opponent),
        atari=jnp.where(played, atari_after, atari),
        ko=jnp.where(played, keep(has(playable.KO), captured), now.ko),
        endangered=jnp.where(played, endangered, now.endangered),
        rejected=keep(~played, tried),
        last=jnp.where(played[0], move, now.last),
    )
    return AtariLanes(
        now=now,
        planes=(planes[0] & ~dropped, planes[1] & ~dropped),
        changed=jnp.where(following, changed, keep(pending, lanes.changed)),
        second_round=jnp.where(following[0], np.uint32(1), second_round),
        rule=rule,
        clock=engine.after_try(lanes.clock, move, flags),
        first=first,
    )
