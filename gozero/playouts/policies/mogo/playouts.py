"""MoGo's playouts: random games in which each move responds to the last one.

Gelly, Wang, Munos & Teytaud (2006), INRIA report 6062, section 3.2; as in Gelly & Silver
(2011), section 3.3. The player to move takes the first of these rules that has a move, and plays
one of that rule's moves at random:

    save      if the last move put own chains in atari: a play at the liberty of one that leaves
              the chain with at least two liberties, or the capture of a chain beside one
    pattern   a play on one of the eight points around the last move where a pattern matches
              (`patterns`)
    capture   a play that captures, anywhere
    any       a play, anywhere

No own eye is filled, except to save a chain that surrounds it, and a player passes only if no rule
has a move. Simple ko, no suicide. `MogoConfig` adds rules.

Along with its board, a lane keeps exactly which stones are in atari. So the legal points and all
captures take only a few shifts, and only tries of the rule "save" can fail: whether a move saves
an endangered chain is known only once it is tried. One iteration of a lane is

    near     where patterns match around the last move         (`patterns`)
    choose   a move, unless one is pending                      (`move_rules`)
    grow     the chains that it touches, some sweeps further    (`chains`)
    result   play it, reject it, or go on: one word of flags    (`chains`)
    update   the lane by the flags

where each but the last is a separately compiled stage (`stages.once`). Most moves take one
iteration; a lane with long chains goes on growing in the next, while the others play on. (Lanes
that find the chains as `gozero.go.placement` does, in a loop that runs until the last has finished,
play the same games and take 2.3 times as long on 9x9, 2.7 times on 19x19.)
"""

from __future__ import annotations

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
from gozero.playouts import engine, playable
from gozero.playouts.engine import Clock, PlayoutPolicy, Playouts
from gozero.playouts.first_plays import FirstPlayKind, FirstPlays, none_yet
from gozero.playouts.policies.mogo import chains, move_rules
from gozero.playouts.policies.mogo.move_rules import PLAIN, MogoConfig, Situation

__all__ = ["PLAIN", "MogoConfig", "mogo_playouts"]


def mogo_playouts(
    rules: go.Rules,
    positions: go.Position,
    key: jax.Array,
    config: MogoConfig = PLAIN,
    **options: Any,
) -> Playouts:
    """Play each position to the end by MoGo's rules.

    Args:
      rules, key: as for `uniform_playouts`.
      positions: [B]; legal positions whose `atari` is exact (as in all positions made by `go.rules`
        or `go.setup`).
      config: rules in addition to the four.
      options: those of `engine.play_out`: `last`, the move that a playout's first move responds to,
        `lanes`, `max_moves`, `ends`, `first_plays`, `ids`.

    Raises:
      ValueError: as `engine.play_out`.
    """
    return engine.play_out(policy(rules.layout, config), rules, positions, key, **options)


class MogoLanes(NamedTuple):
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
    rule: jax.Array  # u32[B]: the rule that chose it; ANY for a pass


def policy(lay: bb.Layout, config: MogoConfig = PLAIN) -> PlayoutPolicy:
    """The playout policy of MoGo's rules for this layout."""
    advance = engine.repeated(functools.partial(step, config))
    cpu_lanes = 128 if lay.rows_per_word > 1 else 64
    return PlayoutPolicy(init, advance, cpu_lanes, takes_last=True, in_kernel=True)


def init(
    rules: go.Rules,
    positions: go.Position,
    clock: Clock,
    first_plays: FirstPlayKind,
    last: jax.Array,
) -> MogoLanes:
    """The lanes before the first iteration; `last` is i32[B], the last moves."""
    now = situation(rules, positions, last)
    empty, zero = jnp.zeros_like(now.own), jnp.zeros_like(clock.turn)
    return MogoLanes(
        now=now,
        planes=(empty, empty),
        changed=empty,
        second_round=zero,
        rule=zero,
        clock=clock,
        first=none_yet(first_plays, empty),
    )


def situation(rules: go.Rules, positions: go.Position, last: jax.Array) -> Situation:
    """The `Situation` of positions [B] after last moves i32[B]."""
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


def step(
    config: MogoConfig, rules: go.Rules, cap: int, params: Any, lanes: MogoLanes
) -> tuple[MogoLanes, PlayedByRule]:
    """One iteration of every lane; finished lanes are unchanged.

    Args:
      config: rules in addition to the four.
      rules: the rules; only their size matters.
      cap: the number of moves that ends a playout.
      params: unused.
      lanes: [B].
    """
    del params
    lay, clock = rules.layout, lanes.clock

    def stage(function, *args):
        """Runs a function as a stage, with every board as a tuple of words."""

        def on_words(*args):
            return function(lay, *stacked.words(args))

        return stages.once(on_words, *args)

    def choose(lay, *args):
        return move_rules.choose(lay, config, *args)

    def decide(lay, *args):
        *args, playing = args
        return jnp.where(playing, chains.move_result(lay, *args), np.uint32(0))

    now = lanes.now
    near = stage(move_rules.pattern_window, now.own, now.opponent, now.last)
    chosen = stage(choose, now, near, engine.random_bits(clock))
    board = chains.MoverBoard(now.own, now.opponent, now.atari)
    pending = clock.trying != playable.NO_MOVE
    move, rule = move_rules.unpacked(chosen)
    move = jnp.where(pending, clock.trying, move)
    rule = jnp.where(pending, lanes.rule, rule)
    tried = chains.Tried(move, pending, lanes.second_round, lanes.changed)
    planes = stages.once(functools.partial(_grow, lay), board, lanes.planes, tried)
    planes = (stacked.stack(planes[0]), stacked.stack(planes[1]))
    playing = engine.playing(clock, cap)
    flags = stage(decide, board, now.endangered, planes, tried, rule, playing)
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


def _update(lanes: MogoLanes, move, rule, planes, flags) -> MogoLanes:
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
    return MogoLanes(
        now=now,
        planes=(planes[0] & ~dropped, planes[1] & ~dropped),
        changed=jnp.where(following, changed, keep(pending, lanes.changed)),
        second_round=jnp.where(following[0], np.uint32(1), second_round),
        rule=rule,
        clock=engine.after_try(lanes.clock, move, flags),
        first=first,
    )
