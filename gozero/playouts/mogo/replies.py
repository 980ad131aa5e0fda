"""Lanes of playouts that answer the last move by MoGo's rules; see `playouts` for the rules.

A lane carries, with its board, which stones are in atari, exactly. So the legal points, and all
captures, are a few shifts away, and no try fails but one of the rule "save": whether a move
saves what it is to save is seen when it is made. One iteration of a lane is

    near     where patterns stand around the last move         (`answers`)
    choose   a move, unless one is pending                      (`answers`)
    grow     the chains that it touches, some sweeps further    (`effects`)
    decide   play it, reject it, or go on: one word of flags    (`effects`)
    update   the lane by the flags

each but the last a stage behind a fusion wall. Most moves take one iteration; a lane whose
chains are long goes on growing in the next, while its neighbours play on.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import stages
from gozero.go import bitboard as bb
from gozero.go import floods, stacked
from gozero.go import rules as go
from gozero.playouts import clock as clocks
from gozero.playouts import policies
from gozero.playouts.clock import Clock
from gozero.playouts.first_plays import FirstPlays, Wanted, none_yet
from gozero.playouts.mogo import answers, effects
from gozero.playouts.mogo.answers import MogoConfig

_ITERATIONS = 8  # of a block


class Lanes(NamedTuple):
    """B playouts as they run; a board is one array u32[W, B]."""

    own: jax.Array  # stones of the player to move
    opponent: jax.Array
    atari: jax.Array  # stones of either colour whose chain has exactly one liberty
    ko: jax.Array  # the point that may not be played
    endangered: jax.Array  # own stones that the last move has put in atari
    rejected: jax.Array  # this turn: points found to save none of them
    planes: tuple[jax.Array, jax.Array]  # what has grown, if a move is pending
    changed: jax.Array  # enemy chains of its first round that it captures or puts in atari
    second_round: jax.Array  # u32[B]: 1 in the second round of a pending move
    rule: jax.Array  # u32[B]: the rule of the pending move
    last: jax.Array  # u32[B]: the spot of the last move; NO_SPOT if it is not known
    clock: Clock
    first: FirstPlays | None  # if they are wanted


class Answered(NamedTuple):
    """What one iteration added to the games."""

    played: jax.Array  # bool[B]: did the lane make a move?
    spot: jax.Array  # u32[B]: which, if so
    rule: jax.Array  # u32[B]: by which rule; a pass is by ANY


@dataclasses.dataclass(frozen=True)
class Form:
    """How lanes answer: a `playout.Form`.

    Attributes:
      config: what is added to the four rules.
      CPU_LANES: lanes of a squad, on a CPU: so many as its first cache likes.
    """

    config: MogoConfig
    CPU_LANES: int

    def start(
        self,
        rules: go.Rules,
        positions: go.Position,
        clock: Clock,
        first_plays: Wanted,
        last: jax.Array,
    ) -> Lanes:
        """The lanes before the first iteration; `last` is i32[B], the last moves."""
        now = situation(rules, positions, last)
        empty, zero = jnp.zeros_like(now.own), jnp.zeros_like(clock.turn)
        return Lanes(
            own=now.own,
            opponent=now.opponent,
            atari=now.atari,
            ko=now.ko,
            endangered=now.endangered,
            rejected=empty,
            planes=(empty, empty),
            changed=empty,
            second_round=zero,
            rule=zero,
            last=now.last,
            clock=clock,
            first=none_yet(first_plays, empty),
        )

    def advance(self, rules: go.Rules, cap: int, lanes: Lanes) -> tuple[Lanes, Answered]:
        """A block of iterations: (lanes, what was played, [T, B])."""

        def one(lanes, _):
            return step(rules, self.config, cap, lanes)

        return lax.scan(one, lanes, length=_ITERATIONS)

    def stones(self, lanes: Lanes) -> tuple[bb.Board, bb.Board]:
        """(black, white) of each lane."""
        white_moves = (lanes.clock.turn != 0)[None]
        black = jnp.where(white_moves, lanes.opponent, lanes.own)
        return tuple(black), tuple(lanes.own ^ lanes.opponent ^ black)

    def first_plays(self, lanes: Lanes) -> tuple[bb.Board, bb.Board]:
        """(Black's, White's) first plays of each lane."""
        assert lanes.first is not None
        black, white = lanes.first.by_colour
        return tuple(black), tuple(white)


def form(lay: bb.Layout, config: MogoConfig) -> Form:
    """How lanes answer on this layout."""
    return Form(config, 128 if lay.rows_per_word > 1 else 64)


class Situation(NamedTuple):
    """B positions as the player to move finds them; a board is one array u32[W, B]."""

    own: jax.Array
    opponent: jax.Array
    atari: jax.Array  # stones of either colour whose chain has exactly one liberty
    ko: jax.Array  # the point that may not be played
    endangered: jax.Array  # own stones that the last move has put in atari
    last: jax.Array  # u32[B]: the spot of the last move; NO_SPOT if it is not known


def situation(rules: go.Rules, positions: go.Position, last: jax.Array) -> Situation:
    """What there is to answer in positions [B], after last moves i32[B]."""
    lay = rules.layout
    own, opponent = map(jnp.stack, go.own_and_opponent(positions))
    atari = jnp.stack(positions.atari)
    spot = policies.point_spot(lay, last)
    stone = _boards(lay, spot) & opponent
    return Situation(
        own=own,
        opponent=opponent,
        atari=atari,
        ko=_boards(lay, policies.point_spot(lay, positions.ko.astype(jnp.int32))),
        endangered=chains_beside(lay, stone, own & atari),
        last=jnp.where(stacked.any_of(stone), spot, policies.NO_SPOT),
    )


def _boards(lay: bb.Layout, spot: jax.Array) -> jax.Array:
    """u32[B] -> u32[W, B]: the boards with the spots' points set."""
    return jnp.stack(policies.spot_board(lay, spot))


def chains_beside(lay: bb.Layout, points: jax.Array, stones: jax.Array) -> jax.Array:
    """u32[W, B]: the chains of `stones` next to the points."""
    seeds = stacked.neighbours(lay, points) & stones
    east, south = stacked.joints(lay, stones)
    return floods.grow_stacked(lay, seeds[None], east[None], south[None])[0]


def step(rules: go.Rules, config: MogoConfig, cap: int, lanes: Lanes) -> tuple[Lanes, Answered]:
    """One iteration of every lane; one that has finished stays as it is.

    Args:
      rules: the rules; their size is what counts.
      config: what is added to the four rules.
      cap: the number of moves that ends a playout.
      lanes: [B].
    """
    lay, clock = rules.layout, lanes.clock

    def stage(function, *args):
        """On words: every board a tuple of them."""

        def on_words(*args):
            return function(lay, *jax.tree.map(lambda x: tuple(x) if x.ndim > 1 else x, args))

        return stages.once(on_words, *args)

    def choose(lay, *args):
        return answers.choose(lay, config, *args)

    def decide(lay, *args):
        *args, playing = args
        return jnp.where(playing, effects.decide(lay, *args), np.uint32(0))

    near = stage(answers.near, lanes.own, lanes.opponent, lanes.last)
    boards: Any = lanes  # arrays, which the stages see as words
    board = effects.Board(boards.own, boards.opponent, boards.atari)
    turn = (lanes.ko, lanes.endangered, lanes.rejected, near, lanes.last)
    chosen = stage(choose, *board, *turn, clocks.random_bits(clock))
    pending = clock.trying != policies.NO_SPOT
    spot, rule = answers.unpacked(chosen)
    spot = jnp.where(pending, clock.trying, spot)
    rule = jnp.where(pending, lanes.rule, rule)
    tried = effects.Try(spot, pending, lanes.second_round, boards.changed)
    planes = stages.once(functools.partial(_grow, lay), board, lanes.planes, tried)
    planes = (jnp.stack(planes[0]), jnp.stack(planes[1]))
    playing = clocks.playing(clock, cap)
    flags = stage(decide, board, lanes.endangered, planes, tried, rule, playing)
    played = (flags & policies.PLAY) != 0
    return _update(lanes, spot, rule, planes, flags), Answered(played, spot, rule)


def _grow(lay: bb.Layout, board, planes, tried) -> tuple[jax.Array, jax.Array]:
    """u32[W, B] twice: the planes of the tries, some sweeps further."""
    board, planes, tried = jax.tree.map(
        lambda x: tuple(x) if x.ndim > 1 else x, (board, planes, tried)
    )
    seeds = effects.seeds(lay, board, planes, tried)
    joints = effects.joined(lay, board, tried.spot)
    grown = []
    for plane in seeds:
        for _ in range(effects.SWEEPS):
            plane = policies.sweep(lay, plane, joints)
        grown.append(plane)
    return grown[0], grown[1]


def _update(lanes: Lanes, spot, rule, planes, flags) -> Lanes:
    """The lanes after their tries; elementwise, every array where it lies."""
    none = np.uint32(0)
    own, opponent, atari = lanes.own, lanes.opponent, lanes.atari
    row = lax.iota(jnp.uint32, own.shape[0])[:, None]

    def has(flag):
        return ((flags & flag) != 0)[None]

    def keep(condition, x):
        return jnp.where(condition, x, none)

    played, following, pending = has(policies.PLAY), has(effects.NEXT), has(policies.PENDING)
    bit = jnp.where((spot & policies.POINT_SPOT) != 0, np.uint32(1) << (spot & 31), none)
    point = keep(row == policies.word_of(spot)[None], bit[None])
    changed = lanes.changed
    for plane, flag in zip(planes, (effects.ATARI_0, effects.ATARI_1), strict=True):
        changed = changed | (plane & opponent & (atari | keep(has(flag), ~atari)))
    captured, endangered = changed & atari, changed & ~atari
    own_chain, freed = planes[0] & (own | point), planes[1] & own
    atari_after = (atari & ~(captured | own_chain | freed)) | endangered
    atari_after = atari_after | keep(has(effects.OWN_ATARI), own_chain)
    tried = lanes.rejected | keep(has(policies.REJECT), point)
    first = lanes.first
    if first is not None:
        first = first.and_then(keep(played, point), (lanes.clock.turn == 0)[None])
    forgotten = keep(following, opponent)
    second_round = jnp.where(pending[0], lanes.second_round, none)
    return Lanes(
        own=jnp.where(played, opponent & ~captured, own),
        opponent=jnp.where(played, own | point, opponent),
        atari=jnp.where(played, atari_after, atari),
        ko=jnp.where(played, keep(has(policies.KO), captured), lanes.ko),
        endangered=jnp.where(played, endangered, lanes.endangered),
        rejected=keep(~played, tried),
        planes=(planes[0] & ~forgotten, planes[1] & ~forgotten),
        changed=jnp.where(following, changed, keep(pending, lanes.changed)),
        second_round=jnp.where(following[0], np.uint32(1), second_round),
        rule=rule,
        last=jnp.where(played[0], spot, lanes.last),
        clock=clocks.after(lanes.clock, spot, flags),
        first=first,
    )
