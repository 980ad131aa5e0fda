"""The inputs of KataGo's networks: planes and global inputs, versions 3 to 7.

The numbering is that of KataGo's public source (``cpp/neuralnet/nninputs.cpp``). Planes of version
7 (the same in 6, 4 and 3, with fewer global inputs; 5 has no liberties, ladders or areas):

     0  the board (all ones)             9-13  the last five moves, latest first
   1-2  own stones, the opponent's      14-16  laddered stones, now, one and two plies ago
   3-5  chains with 1, 2, 3 liberties      17  moves that capture chains of 2 liberties in a ladder
     6  points that ko or superko bans  18-19  own area and the opponent's, as the rules score
   7-8  zero: bans of the encore        20-21  zero: stones at the start of the encore

     0-4  whether each of the last five moves was a pass
       5  points that komi gives the player to move, / 20 (in versions 3 to 5 / 15)
     6-7  superko; 1/2 if positional, -1/2 if situational
       8  suicide is allowed
    9-11  territory scoring; a tax on sekis; a tax on all groups
   12-13  zero: the encore
      14  a pass would end the game
   15-18  zero, zero, the button is still there, how much half a point of komi matters

Functions are for one game. The inputs of gozero's own networks are in `gozero.nets.features`, which
this module uses. The encore of territory scoring, and the extra turns of a game that goes on after
its end, are not played here.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.compile import batching
from gozero.go import bitboard as bb
from gozero.go import floods, ladders, liberties, pass_alive, stacked
from gozero.go.rules import WHITE, GameState, Position, Rules
from gozero.limits import KATAGO_MAX_SIZE
from gozero.nets.features import NUM_LAST_MOVES, FeatureSet, Inputs, PositionData, unpack_planes
from gozero.nets.katago.network import KataGoConfig
from gozero.search.game import Ancestors

_EXTRA_KOMI = {3: 1.0, 4: 1.0, 5: 1.0, 6: 1.0, 7: 20.0}
"""By version of the inputs: by how much |komi| may exceed the number of points of the board."""


def check_fits(rules: Rules, config: KataGoConfig) -> None:
    """Refuses rules that the network does not support, or that keep too little history for it.

    Raises:
      ValueError: says which.
    """
    if rules.size > KATAGO_MAX_SIZE:
        raise ValueError(
            f"size: {rules.size}; KataGo's networks support boards up to "
            f"{KATAGO_MAX_SIZE}x{KATAGO_MAX_SIZE}"
        )
    if not rules.keeps_past:
        raise ValueError(
            f"ko: KataGo's networks need past moves, but games under {rules.ko} ko keep none; "
            f"use dataclasses.replace(rules, remember=True), or another ko rule"
        )
    if config.version <= 6 and (rules.ko == "simple" or config.scoring != "area"):
        raise ValueError(
            f"ko: a network of version {config.version} supports only superko and area scoring"
        )


_HISTORY = FeatureSet((), (), NUM_LAST_MOVES, bans=True, compute=lambda rules, data: data.past)


def observe(
    config: KataGoConfig,
    rules: Rules,
    state: GameState,
    position: Position,
    ancestors: Ancestors | None = None,
) -> Inputs:
    """The inputs for a position in a game, or in a search tree of that game.

    Args:
      config: the network.
      rules: the rules; they must pass `check_fits`.
      state: the game up to the root of the search.
      position: ``state.position`` or one below it.
      ancestors: those of the position in the tree; None for the root.

    Returns:
      Planes f32[size, size, C], global inputs f32[G], and optimism f32[] if the network has an
      optimistic policy.
    """
    data = _HISTORY.extract(rules, state, position, ancestors)
    bonus, button = _bonus(config, rules, state, position, ancestors)
    passes = position.passes - (0 if button is None else button.in_row)
    past = _hide(config, rules, _moves(rules, data), position, passes)
    ends = (passes > 0) & ~_suppresses(config, passes)
    if config.inputs_version < 6:
        ends &= ~_is_over(rules, position)
    numbers = _global_inputs(config, rules, data, past, bonus, button, ends)
    boards = _boards(config, rules, data, past)
    return Inputs(unpack_planes(rules.layout, boards), numbers, _optimism(config, ancestors))


def _optimism(config: KataGoConfig, ancestors: Ancestors | None) -> jax.Array | None:
    if not config.is_optimistic:
        return None
    if ancestors is None:
        return jnp.float32(config.root_optimism)
    return jnp.where(ancestors.length == 0, config.root_optimism, config.optimism).astype(
        jnp.float32
    )


# --- the last moves -------------------------------------------------------------------------


class _Moves(NamedTuple):
    """The last moves, latest first; those from index `known` on are unknown or hidden."""

    points: jax.Array  # u32[5, W]: for each move a board with its point; empty for a pass
    passed: jax.Array  # bool[5]
    known: jax.Array  # i32[]


def _moves(rules: Rules, data: PositionData) -> _Moves:
    """Turns are assumed to alternate: the known moves end where a player moved twice in a row."""
    position = data.position
    current = jnp.stack([stacked.stack(position.black), stacked.stack(position.white)])
    boards = jnp.concatenate([current[None], data.past])
    by_mover = jnp.where(position.to_play == WHITE, boards, boards[:, ::-1])
    points, passed, valid = [], [], jnp.bool_(True)
    known = jnp.int32(0)
    for k, (after, before) in enumerate(itertools.pairwise(by_mover)):
        mover = k % 2  # 0 is the opponent of the player to move
        added = after[mover] & ~before[mover]
        is_unchanged = (after == before).all()
        if rules.suicide:
            removed = before[mover] & ~after[mover]
            suicide_point = _around(rules.layout, removed) & ~(before[0] | before[1])
            is_suicide = (after[1 - mover] == before[1 - mover]).all() & ~(added != 0).any()
            added = jnp.where(is_suicide, suicide_point, added)
        valid = valid & (k < data.known) & (is_unchanged | (added != 0).any())
        known = known + valid
        points.append(jnp.where(valid, added, np.uint32(0)))
        passed.append(valid & is_unchanged)
    return _Moves(jnp.stack(points), jnp.stack(passed), known)


def _around(lay: bb.Layout, board: jax.Array) -> jax.Array:
    return stacked.stack(bb.neighbours(lay, stacked.unstack(board)))


def _hide(
    config: KataGoConfig, rules: Rules, moves: _Moves, position: Position, passes: jax.Array
) -> _Moves:
    """The moves that the network is shown: none after a pass if passes are hidden (`_suppresses`),
    and once the game is over only the last one (before version 6, none). `passes`, i8[], are the
    latest consecutive ones without that which took the button."""
    last = int(config.inputs_version >= 6)
    max_moves = jnp.where(_is_over(rules, position), last, NUM_LAST_MOVES)
    max_moves = jnp.where(_suppresses(config, passes), 0, max_moves)
    is_shown = jnp.arange(NUM_LAST_MOVES) < max_moves
    points = jnp.where(is_shown[:, None], moves.points, np.uint32(0))
    return _Moves(points, moves.passed & is_shown, jnp.minimum(moves.known, max_moves))


def _is_over(rules: Rules, position: Position) -> jax.Array:
    return (position.passes >= 2) | (position.ply >= rules.move_limit)


def _suppresses(config: KataGoConfig, passes: jax.Array) -> jax.Array:
    """bool[]: whether the inputs hide that another pass would end the game."""
    return (passes == 1) & (config.friendly_pass and config.scoring == "area")


# --- planes -------------------------------------------------------------------------------


def _boards(config: KataGoConfig, rules: Rules, data: PositionData, moves: _Moves) -> jax.Array:
    """u32[C, W]."""
    position, lay = data.position, rules.layout
    white_moves = position.to_play == WHITE
    current = jnp.stack([stacked.stack(position.black), stacked.stack(position.white)])
    own, opponent = jnp.where(white_moves, current[::-1], current)
    everywhere, none = jnp.asarray(lay.full, jnp.uint32), jnp.zeros_like(own)
    stones, bans = [everywhere, own, opponent], [stacked.stack(data.banned), none, none]
    encore = [none, none]
    if config.inputs_version == 5:
        return jnp.stack([*stones, *bans, *moves.points, *encore])
    counts = liberties.liberty_counts(lay, position.black, position.white)
    counts = [stacked.stack(board) for board in (counts.one, counts.two, counts.three)]
    area = jnp.stack([stacked.stack(board) for board in _area(config, rules, position)])
    area = jnp.where(white_moves, area[::-1], area)
    ladder_boards = _ladders(rules, data, moves.known)
    return jnp.stack([*stones, *counts, *bans, *moves.points, *ladder_boards, *area, *encore])


def _ladders(rules: Rules, data: PositionData, known: jax.Array) -> list[jax.Array]:
    """Four u32[W]. An unknown or hidden board is replaced by the one after it."""
    position, size = data.position, rules.size
    white_moves = position.to_play == WHITE
    current = (position.black, position.white, position.ko)
    boards = [current]
    for k in range(2):
        black, white = (stacked.unstack(data.past[k, colour]) for colour in range(2))
        ko = _ko_after(rules, data.past[k + 1], data.past[k], white_moves != (k == 1))
        ko = jnp.where(data.known > k + 1, ko, jnp.int16(bb.NO_POINT))
        before = (black, white, ko)
        boards.append(jax.tree.map(functools.partial(jnp.where, known > k), before, boards[-1]))
    turns = white_moves != jnp.array([False, True, False])
    black, white, kos = jax.tree.map(lambda *x: jnp.stack(x), *boards)  # read in lockstep
    laddered, captures = ladders.read_boards(size, black, white, turns, kos, ladders.KATAGO)
    return [*stacked.stack(laddered).T, stacked.stack(captures)[:, 0]]


def _ko_after(rules: Rules, before: jax.Array, after: jax.Array, white_moved: jax.Array):
    """i16[]: the point of simple ko on the board `after`, u32[2, W]: where the move from `before`
    captured a single stone by a lone stone with one liberty; NO_POINT if there is none."""
    lay = rules.layout
    before_by_mover, after_by_mover = (
        jnp.where(white_moved, board[::-1], board) for board in (before, after)
    )
    placed = stacked.unstack(after_by_mover[0] & ~before_by_mover[0])
    captured = stacked.unstack(before_by_mover[1] & ~after_by_mover[1])
    around = bb.neighbours(lay, placed)
    own, vacant = stacked.unstack(after_by_mover[0]), stacked.unstack(~(after[0] | after[1]))
    lone = ~bb.any_of(bb.intersection(around, own)) & bb.any_of(placed)
    ko = lone & (bb.count(captured) == 1) & (bb.count(bb.intersection(around, vacant)) == 1)
    return jnp.where(ko, bb.point_of(lay, captured), bb.NO_POINT).astype(jnp.int16)


def _area(config: KataGoConfig, rules: Rules, position: Position) -> tuple[bb.Board, bb.Board]:
    """Black's area and White's, under the config's scoring rules."""
    version, of_area = config.inputs_version, config.scoring == "area"
    if version >= 6 and not of_area:  # an input only in the encore
        return bb.empty(rules.layout), bb.empty(rules.layout)
    suicide = rules.suicide or config.pass_alive_by_suicide
    kind = "settled" if version == 4 else config.tax
    boards = [position.black, position.white] + [position.atari] * (kind in _SEKIS)
    return _areas(rules.layout, suicide, kind)(*boards)


_SEKIS = ("seki", "all")
"""Taxes under which territory in a seki belongs to nobody."""


@functools.cache
def _areas(lay: bb.Layout, suicide: bool, kind: str) -> Callable:
    """The function (black, white) -> (Black's area, White's); `kind` is "settled" or the tax. With
    a tax in `_SEKIS` it takes the stones in atari as a third argument."""

    def find(black, white, *atari):
        stones = jnp.stack([stacked.stack(black), stacked.stack(white)])
        area = pass_alive.settled_stage(lay, stones, suicide)
        if kind != "settled":
            area = area | ((stones | _enclosed_regions(lay, stones)) & ~area[::-1])
        if kind in _SEKIS:
            area = (area & ~_in_seki(lay, stones, area, stacked.stack(atari[0]))) | (area & stones)
        return stacked.unstack(area[0]), stacked.unstack(area[1])

    return batching.over_games(find, in_cache=True)


def _enclosed_regions(lay: bb.Layout, stones: jax.Array) -> jax.Array:
    """u32[2, W, B]: empty regions that border stones of only that colour."""
    vacant = stacked.full(lay, 3) & ~(stones[:1] | stones[1:])
    near = floods.grow_stacked(
        lay, stacked.neighbours(lay, stones) & vacant, *stacked.joints(lay, vacant)
    )
    return near & ~near[::-1]


def _in_seki(lay: bb.Layout, stones: jax.Array, area: jax.Array, atari: jax.Array) -> jax.Array:
    """u32[2, W, B]: areas that touch neutral points, or contain a stone of their owner in atari."""
    neutral = stacked.full(lay, 3) & ~(stones[:1] | stones[1:] | area[:1] | area[1:])
    seeds = area & (stacked.neighbours(lay, neutral) | (stones & atari[None]))
    return floods.grow_stacked(lay, seeds, *stacked.joints(lay, area))


# --- global inputs ------------------------------------------------------------------------


def _global_inputs(
    config: KataGoConfig, rules: Rules, data: PositionData, moves: _Moves, bonus, button, ends
) -> jax.Array:
    """f32[G]."""
    version, position = config.inputs_version, data.position
    komi = jnp.where(position.to_play == WHITE, 1.0, -1.0) * (data.komi + bonus)
    max_komi = rules.num_points + _EXTRA_KOMI[version]
    komi = jnp.clip(komi, -max_komi, max_komi)
    superko = {"positional": 0.5, "situational": -0.5}.get(rules.ko, 0.0)
    values = [*moves.passed, komi / (20.0 if version >= 6 else 15.0)]
    values += [float(rules.has_superko), superko, float(rules.suicide)]
    values += [float(config.scoring == "territory")]
    if version >= 6:
        values += [float(config.tax != "none"), float(config.tax == "all")]
    values += [0.0, 0.0]
    if version != 5:
        values += [ends]
        if version == 7:
            values += [0.0, 0.0, 0.0 if button is None else button.available]
        values += [_wave(rules, komi) if config.scoring == "area" else 0.0]
    return jnp.stack([jnp.asarray(value, jnp.float32) for value in values])


def _wave(rules: Rules, komi: jax.Array) -> jax.Array:
    """f32[]: how much the next half point of komi matters, given the parity of the board: a
    triangle wave that rises around the komis at which a draw is possible."""
    odd = rules.num_points % 2
    above = komi - (jnp.floor((komi - odd) / 2.0) * 2.0 + odd)
    return jnp.where(above < 0.5, above, jnp.where(above < 1.5, 1.0 - above, above - 2.0))


class _Button(NamedTuple):
    available: jax.Array  # bool[]: no one has passed yet
    in_row: jax.Array  # i32[]: 1 if the pass that took it is among the latest consecutive passes


def _bonus(
    config: KataGoConfig,
    rules: Rules,
    state: GameState,
    position: Position,
    ancestors: Ancestors | None,
) -> tuple[jax.Array | float, _Button | None]:
    """(points for White besides komi, the button). In KataGo's territory scoring each stone that a
    player plays or sets up costs a point; with the button the first pass gains half a point."""
    if config.scoring == "area" and not config.button:
        return 0.0, None
    passed, whites, length = _all_passes(rules, state, position, ancestors)
    by_white = (passed & whites).sum()
    by_black = passed.sum() - by_white
    if config.scoring == "territory":
        start = state.past.boards[0] if state.past is not None else None
        assert start is not None  # `check_fits`
        set_up = jax.lax.population_count(start).astype(jnp.int32).sum(axis=-1)
        white_turns = (whites & (jnp.arange(whites.shape[0]) < length)).sum()
        played = (length - white_turns - by_black) - (white_turns - by_white)
        return (played + set_up[0] - set_up[1]).astype(jnp.float32), None
    available = ~passed.any()
    first_by_white = whites[jnp.argmax(passed)]
    half = jnp.where(available, 0.0, jnp.where(first_by_white, 0.5, -0.5))
    in_row = (passed.sum() == position.passes) & ~available
    return half, _Button(available, in_row.astype(jnp.int32))


def _all_passes(
    rules: Rules, state: GameState, position: Position, ancestors: Ancestors | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(bool[T]: which moves so far were passes, bool[T]: which were White's if turns alternated,
    i32[]: the number of moves so far)."""
    assert state.past is not None  # `check_fits`
    boards, ply = state.past.boards, state.position.ply.astype(jnp.int32)
    is_pass = (boards[1:] == boards[:-1]).all(axis=(1, 2)) & (jnp.arange(len(boards) - 1) < ply)
    depth = jnp.int32(0)
    if ancestors is not None:
        depth = ancestors.length
        passes = jnp.concatenate([ancestors.positions.passes[1:], jnp.zeros(1, jnp.int8)])
        last = jnp.arange(len(passes)) == depth - 1
        in_tree = jnp.where(last, position.passes, passes) > 0
        in_tree = in_tree & (jnp.arange(len(passes)) < depth)
        is_pass = jnp.concatenate([is_pass, jnp.zeros(len(passes), bool)])
        is_pass = jax.lax.dynamic_update_slice(
            is_pass, in_tree | jax.lax.dynamic_slice(is_pass, (ply,), (len(passes),)), (ply,)
        )
    length = ply + depth
    whites = (position.to_play == WHITE) != ((length - jnp.arange(len(is_pass))) % 2 == 1)
    return is_pass, whites, length
