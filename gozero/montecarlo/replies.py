"""Lanes of playouts that answer the last move by MoGo's rules; see `mogo` for the rules.

A lane carries, with its board, which stones are in atari, exactly. So the legal points, and all
captures, are a few shifts away, and no try fails but one of the first rule: whether a move
saves what it is to save is seen when it is made.

A move changes who is in atari only for the chain it joins, the enemy chains beside it, and the
own chains that it frees by a capture. They are found by growing two planes, a fixed number of
sweeps an iteration:

    plane 0   the chain that the stone joins, and the enemy chain east of it (else west)
    plane 1   the own chains freed, and the enemy chain south of it (else north)

(Two colours never meet in a plane.) Where an enemy chain remains, as seldom happens, a second
round has the two planes grow the one west and the one north. An enemy chain that shows two
liberties needs to grow no further. One iteration of a lane is

    near     where patterns stand around the last move
    choose   a move, unless one is pending
    grow     the planes, from what they held if the move was pending
    decide   play it, reject it, or go on: one word of flags
    update   the lane by the flags

each but the last a stage behind a fusion wall, written for one game; `step` maps them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero import fusion
from gozero.go import bitboard as bb
from gozero.go import floods
from gozero.go import rules as go
from gozero.montecarlo import around, patterns, policies
from gozero.montecarlo import clock as clocks
from gozero.montecarlo.clock import Clock

_ITERATIONS = 8  # of a block
_SWEEPS = 2  # of growth an iteration; one more finds out whether they were enough

SAVE, PATTERN, CAPTURE, ANY = 1, 2, 3, 4
"""Which of the rules a move is of."""

_RULE_SHIFT = np.uint32(12)  # the rule of a try, above its spot
_SPOT_BITS = np.uint32((1 << 12) - 1)

# Flags of a try, beside those of `policies`.
_NEXT, _ATARI_0, _ATARI_1, _OWN_ATARI = (np.uint32(1 << bit) for bit in range(5, 9))


class Lanes(NamedTuple):
    """B playouts as they run; a board is W words u32[B]."""

    own: bb.Board  # stones of the player to move
    opponent: bb.Board
    atari: bb.Board  # stones of either colour whose chain has exactly one liberty
    ko: bb.Board  # the point that may not be played
    endangered: bb.Board  # own stones that the last move has put in atari
    rejected: bb.Board  # this turn: points found to save none of them
    planes: tuple[bb.Board, bb.Board]  # what has grown, if a move is pending
    changed: bb.Board  # enemy chains of its first round that it captures or puts in atari
    second_round: jax.Array  # u32[B]: 1 in the second round of a pending move
    rule: jax.Array  # u32[B]: the rule of the pending move
    last: jax.Array  # u32[B]: the spot of the last move; NO_SPOT if it is not known
    clock: Clock
    taken: bb.Board | None  # points played at so far, if first plays are wanted
    by_black: bb.Board | None  # of those, where Black was the first


class Answered(NamedTuple):
    """What one iteration added to the games."""

    played: jax.Array  # bool[B]: did the lane make a move?
    spot: jax.Array  # u32[B]: which, if so
    rule: jax.Array  # u32[B]: by which rule; a pass is by ANY


@dataclasses.dataclass(frozen=True)
class Form:
    """How lanes answer; with the doors of `playout.Form`."""

    CPU_LANES = 128  # of a squad: more do not fit a core's first cache

    def start(
        self,
        rules: go.Rules,
        positions: go.Position,
        clock: Clock,
        first_plays: bool,
        last: jax.Array,
    ) -> Lanes:
        """The lanes before the first iteration; `last` is i32[B], the last moves."""
        lay = rules.layout
        own, opponent = go.own_and_opponent(positions)
        spot = policies.point_spot(lay, last)
        stone = bb.intersection(policies.spot_board(lay, spot), opponent)
        empty = (jnp.zeros_like(clock.turn),) * lay.num_words
        return Lanes(
            own=own,
            opponent=opponent,
            atari=positions.atari,
            ko=jax.vmap(lambda ko: bb.at(lay, ko))(positions.ko),
            endangered=_chains_beside(lay, stone, bb.intersection(own, positions.atari)),
            rejected=empty,
            planes=(empty, empty),
            changed=empty,
            second_round=jnp.zeros_like(clock.turn),
            rule=jnp.zeros_like(clock.turn),
            last=jnp.where(bb.any_of(stone), spot, policies.NO_SPOT),
            clock=clock,
            taken=empty if first_plays else None,
            by_black=empty if first_plays else None,
        )

    def advance(
        self, rules: go.Rules, cap: int, lanes: Lanes, always: jax.Array
    ) -> tuple[Lanes, Answered]:
        """A block of iterations: (lanes, what was played, [T, B])."""

        def one(lanes, _):
            return step(rules, cap, lanes, always)

        return lax.scan(one, lanes, length=_ITERATIONS)

    def stones(self, lanes: Lanes) -> tuple[bb.Board, bb.Board]:
        """(black, white) of each lane."""
        white_moves = lanes.clock.turn != 0
        return (
            bb.where(white_moves, lanes.opponent, lanes.own),
            bb.where(white_moves, lanes.own, lanes.opponent),
        )

    def first_plays(self, lanes: Lanes) -> tuple[bb.Board, bb.Board]:
        """(Black's, White's) first plays of each lane."""
        assert lanes.taken is not None
        assert lanes.by_black is not None
        return lanes.by_black, bb.difference(lanes.taken, lanes.by_black)


def _chains_beside(lay: bb.Layout, points: bb.Board, stones: bb.Board) -> bb.Board:
    """Of B boards: the chains of `stones` next to the points."""

    def one_game(points, stones):
        seeds = bb.intersection(bb.beside(lay, points), stones)
        return floods.flood(lay, [seeds], bb.joints(lay, stones))[0]

    return jax.vmap(one_game)(points, stones)


# --- an iteration ---------------------------------------------------------------------


def step(rules: go.Rules, cap: int, lanes: Lanes, always: jax.Array) -> tuple[Lanes, Answered]:
    """One iteration of every lane; one that has finished stays as it is.

    Args:
      rules: the rules; their size is what counts.
      cap: the number of moves that ends a playout.
      lanes: [B].
      always: bool[]; True, see `fusion.wall`.
    """
    lay, clock = rules.layout, lanes.clock
    boards = (lanes.own, lanes.opponent, lanes.atari)

    def stage(function: Callable, *args) -> Any:
        mapped = jax.vmap(lambda *one_game: function(lay, *one_game))
        return fusion.wall(mapped, always, *args)

    near = stage(_near, lanes.own, lanes.opponent, lanes.last)
    turn = (lanes.ko, lanes.endangered, lanes.rejected, near, lanes.last)
    chosen = stage(_choose, *boards, *turn, clocks.random_bits(clock))
    pending = clock.trying != policies.NO_SPOT
    spot = jnp.where(pending, clock.trying, chosen & _SPOT_BITS)
    rule = jnp.where(pending, lanes.rule, chosen >> _RULE_SHIFT)
    grown = (spot, pending, lanes.second_round)
    planes = stage(_grow, *boards, lanes.planes, lanes.changed, *grown)
    playing = clocks.playing(clock, cap)
    given = (lanes.endangered, planes, lanes.changed, spot, rule, lanes.second_round, playing)
    flags = stage(_decide, *boards, *given)
    played = (flags & policies.PLAY) != 0
    return _update(lay, lanes, spot, rule, planes, flags), Answered(played, spot, rule)


def _near(lay, own, opponent, last) -> jax.Array:
    """u32[]: where patterns stand around the last move, as a window."""
    ours, theirs = (around.window(lay, board, last) for board in (own, opponent))
    vacant = around.on_board(lay, last) & ~(ours | theirs)
    known = (last & policies.POINT_SPOT) != 0
    return jnp.where(known, patterns.match(ours, theirs, vacant), np.uint32(0))


def _choose(lay, own, opponent, atari, ko, endangered, rejected, near, last, random) -> jax.Array:
    """u32[]: a move of the first rule that has one, and which rule that is.

    Of the first rule all captures are tried, and those that save nothing rejected: to look for
    the chains that hold the endangered ones would cost more.
    """
    vacant = bb.complement(lay, bb.union(own, opponent))
    capturable = bb.intersection(opponent, atari)
    support = bb.union_all([vacant, bb.difference(own, atari), capturable])
    legal = bb.difference(bb.intersection(vacant, bb.beside(lay, support)), ko)
    sensible = bb.difference(legal, policies.eyes(lay, own, opponent))
    captures = bb.intersection(bb.beside(lay, capturable), legal)
    shapes = bb.intersection(around.inner_board(lay, near, last), sensible)
    extensions = bb.intersection(bb.beside(lay, endangered), legal)
    saves = bb.difference(bb.union(extensions, captures), rejected)
    saves = bb.keep(bb.any_of(endangered), saves)

    points, rule = sensible, jnp.full_like(random, ANY)
    for better, number in ((captures, CAPTURE), (shapes, PATTERN), (saves, SAVE)):
        some = bb.any_of(better)
        points = bb.where(some, better, points)
        rule = jnp.where(some, np.uint32(number), rule)
    return policies.pick(lay, points, random) | (rule << _RULE_SHIFT)


def _grow(
    lay, own, opponent, atari, planes, changed, spot, pending, second_round
) -> tuple[bb.Board, bb.Board]:
    """The planes of the move, some sweeps further."""
    point = policies.spot_board(lay, spot)
    joined = policies.joints_of_both(lay, bb.union(own, point), opponent)
    planes = tuple(bb.keep(pending, plane) for plane in planes)
    dying = bb.intersection(bb.union_all([*planes, changed]), bb.intersection(opponent, atari))
    freed = bb.intersection(bb.beside(lay, dying), bb.intersection(own, atari))
    freed = bb.keep(pending, freed)
    sides = _enemies_beside(lay, point, opponent)
    out = []
    for plane, own_part, (first, second) in zip(planes, (point, freed), sides, strict=True):
        instead = (second_round != 0) | ~bb.any_of(first)
        seeds = bb.union_all([plane, own_part, bb.where(instead, second, first)])
        for _ in range(_SWEEPS):
            seeds = policies.sweep(lay, seeds, joined)
        out.append(seeds)
    return tuple(out)


def _enemies_beside(lay, point, opponent):
    """((east, west), (south, north)) of the point: enemy stones."""
    one = np.uint32(1)
    sides = (
        (tuple(word << one for word in point), tuple(word >> one for word in point)),
        (bb.south(lay, point), bb.north(lay, point)),
    )
    return [[bb.intersection(side, opponent) for side in pair] for pair in sides]


def _decide(
    lay,
    own,
    opponent,
    atari,
    endangered,
    planes,
    changed,
    spot,
    rule,
    second_round,
    playing,
) -> jax.Array:
    """u32[]: the flags of a try, of which one is PLAY, REJECT or PENDING (none: game over)."""
    point = policies.spot_board(lay, spot)
    own_after = bb.union(own, point)
    vacant = bb.complement(lay, bb.union(own_after, opponent))
    joined = policies.joints_of_both(lay, own_after, opponent)
    frontiers = [floods.frontier(lay, plane, joined) for plane in planes]
    beside = bb.beside(lay, point)

    def settled(frontier, stones):
        return ~bb.any_of(bb.intersection(frontier, stones))

    # The enemy chains.
    clear, in_atari = True, []
    for plane, frontier in zip(planes, frontiers, strict=True):
        liberties = _liberties(lay, bb.intersection(plane, opponent), vacant)
        clear = clear & (settled(frontier, opponent) | (liberties >= 2))
        in_atari.append(liberties == 1)
    grown = bb.union(*planes)
    untouched = bb.difference(bb.intersection(beside, opponent), grown)
    one_more = (second_round == 0) & bb.any_of(untouched)

    # What they make of the own ones.
    captured = bb.intersection(bb.union(grown, changed), bb.intersection(opponent, atari))
    beside_captured = bb.beside(lay, captured)
    own_chain = bb.intersection(planes[0], own_after)
    own_liberties = _liberties(lay, own_chain, bb.union(vacant, captured))
    joins = bb.intersection(beside, own)
    joins_atari = bb.any_of(bb.intersection(joins, atari))
    own_clear = settled(frontiers[0], own_after) | ((own_liberties >= 2) & ~joins_atari)
    freed = bb.intersection(beside_captured, bb.intersection(own, atari))
    all_freed = ~bb.any_of(bb.difference(freed, planes[1])) & settled(frontiers[1], own)

    rescues = bb.any_of(bb.intersection(point, bb.beside(lay, endangered))) & (own_liberties >= 2)
    rescues = rescues | bb.any_of(bb.intersection(beside_captured, endangered))
    sound = (rule != SAVE) | rescues
    lone = ~bb.any_of(joins)
    decided = clear & ~one_more & own_clear & all_freed
    flags = policies.flags(
        (decided & sound, policies.PLAY),
        (decided & ~sound, policies.REJECT),
        (~decided, policies.PENDING),
        (clear & one_more, _NEXT),
        (in_atari[0], _ATARI_0),
        (in_atari[1], _ATARI_1),
        (own_liberties == 1, _OWN_ATARI),
        (lone & (own_liberties == 1) & (bb.count(captured) == 1), policies.KO),
    )
    return jnp.where(playing, flags, np.uint32(0))


def _liberties(lay, chain: bb.Board, vacant: bb.Board) -> jax.Array:
    return bb.count(bb.intersection(bb.beside(lay, chain), vacant))


def _update(lay, lanes: Lanes, spot, rule, planes, flags) -> Lanes:
    """The lanes after their tries: elementwise, so written for all lanes at once."""

    def has(flag):
        return (flags & flag) != 0

    played, following = has(policies.PLAY), has(_NEXT)
    pending = has(policies.PENDING)
    point = policies.spot_board(lay, spot)
    own_after = bb.union(lanes.own, point)
    changed = lanes.changed
    for plane, flag in zip(planes, (_ATARI_0, _ATARI_1), strict=True):
        changing = bb.where(has(flag), lanes.opponent, bb.intersection(lanes.opponent, lanes.atari))
        changed = bb.union(changed, bb.intersection(plane, changing))
    captured = bb.intersection(changed, lanes.atari)
    endangered = bb.difference(changed, lanes.atari)
    own_chain = bb.intersection(planes[0], own_after)
    freed = bb.intersection(planes[1], lanes.own)
    relieved = bb.union_all([captured, own_chain, freed])
    now_in_atari = bb.union(endangered, bb.keep(has(_OWN_ATARI), own_chain))
    atari = bb.union(bb.difference(lanes.atari, relieved), now_in_atari)
    rejected = bb.union(lanes.rejected, bb.keep(has(policies.REJECT), point))
    taken, by_black = lanes.taken, lanes.by_black
    if taken is not None and by_black is not None:
        placed = bb.keep(played, point)
        fresh = bb.keep(lanes.clock.turn == 0, bb.difference(placed, taken))
        taken, by_black = bb.union(taken, placed), bb.union(by_black, fresh)
    to_forget = bb.keep(following, lanes.opponent)
    return Lanes(
        own=bb.where(played, bb.difference(lanes.opponent, captured), lanes.own),
        opponent=bb.where(played, own_after, lanes.opponent),
        atari=bb.where(played, atari, lanes.atari),
        ko=bb.where(played, bb.keep(has(policies.KO), captured), lanes.ko),
        endangered=bb.where(played, endangered, lanes.endangered),
        rejected=bb.keep(~played, rejected),
        planes=(bb.difference(planes[0], to_forget), bb.difference(planes[1], to_forget)),
        changed=bb.where(following, changed, bb.keep(pending, lanes.changed)),
        second_round=jnp.where(following, np.uint32(1), jnp.where(pending, lanes.second_round, 0)),
        rule=rule,
        last=jnp.where(played, spot, lanes.last),
        clock=clocks.after(lanes.clock, spot, flags),
        taken=taken,
        by_black=by_black,
    )
