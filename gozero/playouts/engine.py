"""Random games played to the end, many in lockstep, one game per lane.

A lane is a state machine that tries one move per iteration; its policy (`policies`) chooses the
move and determines its effect. This module holds what all policies share: the player to move, the
number of moves, the scheduling of lanes, and the results.

Lanes end at different times. They are divided into blocks that play in turn, each sized to fit a
processor's cache; when enough lanes have ended, the others move to the front, and only their blocks
play on. So almost no time is spent waiting for the last ones. The moves of a playout depend on its
position, its number and the key, not on the blocks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import indexing, mode, stages
from gozero.compile.kernels import lane_loop
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import scoring
from gozero.hashing import mix
from gozero.playouts import playable
from gozero.playouts.first_plays import FirstPlayKind

_VECTOR_LANES = 16  # lanes in the widest vector of a CPU
_ADVANCES_PER_TURN = 4  # advances that a block plays before the next block's turn
_ITERATIONS = 8  # iterations of an advance, unless a policy has its own number


class Playouts(NamedTuple):
    """How the playouts ended, one entry per playout."""

    score: jax.Array  # i32[B]: Black's area - White's area at the end, before komi
    moves: jax.Array  # i32[B]: moves played by the playout, passes included
    finished: jax.Array  # bool[B]: True if two passes ended it, False if it was cut at the cap
    first_action: jax.Array  # i32[B]: its first action; bb.NO_POINT if it played none
    ends: tuple[bb.Board, bb.Board] | None = None
    """(black, white), each W x u32[B]: the stones at the end; None without ``ends=True``."""
    first_plays: tuple[bb.Board, bb.Board] | None = None
    """(Black's, White's), each W x u32[B]; None without ``first_plays``. The points where that
    colour was the first of the two to play, or where it has played at all, without passes."""


class PlayoutPolicy(NamedTuple):
    """How lanes play. The state of B lanes is a NamedTuple of arrays whose last axis is the lanes.

    It has a `clock`, `first` (a `first_plays.FirstPlays`, or None) and ``stones()``, the (black,
    white) of each lane. Everything else in it is private to the policy.
    """

    init: Callable[..., Any]
    """(rules, positions, clock, first_plays, *more) -> the state before the first iteration."""
    advance: Callable[[go.Rules, int, Any, Any], tuple[Any, Any]]
    """(rules, cap, params, state) -> (the state some iterations later, what was played)."""
    cpu_lanes: int
    """Lanes per block on a CPU: as many as its L1 cache holds."""
    params: Any = ()
    """The policy's parameter arrays. Changing their values causes no recompilation."""
    takes_last: bool = False
    """Whether `init` also takes the last moves i32[B], as `branch.last_move` returns them."""
    in_kernel: bool = False
    """Whether a TPU or GPU can play whole playouts with `advance` in one kernel: its state is u32,
    it has no params and does no array lookups; see `kernels.by_lane.traced`."""


def repeated(step: Callable) -> Callable:
    """Makes a `PlayoutPolicy.advance` that repeats a step, which takes the same arguments."""

    def advance(rules: go.Rules, cap: int, params: Any, state: Any) -> tuple[Any, Any]:
        step_once = lambda state, _: step(rules, cap, params, state)
        return lax.scan(step_once, state, length=_ITERATIONS)

    return advance


def move_cap(rules: go.Rules) -> int:
    """The number of moves after which a playout is cut; independent of the game's move limit."""
    return 3 * rules.num_points


# --- a lane's clock -------------------------------------------------------------------


class Clock(NamedTuple):
    """The progress of B games, all u32[B]; a move is packed in a word, see `playable`."""

    turn: jax.Array  # 0 Black, 1 White
    passes: jax.Array  # passes in a row
    moves: jax.Array  # moves played so far
    first: jax.Array  # the first move, or NO_MOVE
    trying: jax.Array  # the pending move: being tried and not decided yet; or NO_MOVE
    draw: jax.Array  # the state of the lane's random sequence
    stride: jax.Array  # the sequence's step, odd


class Played(NamedTuple):
    """What one iteration added to the games."""

    played: jax.Array  # bool[B]: whether the lane made a move
    move: jax.Array  # u32[B]: the move, if so


def init_clock(positions: go.Position, key: jax.Array, ids: jax.Array) -> Clock:
    """The clocks of playouts that have not begun; (key, i) seeds the random sequence of playout i.

    Each draw of a candidate advances the sequence by one step, and nothing else does: what a
    playout plays does not depend on how tries are decided or on the other lanes.
    """
    bits = jax.random.bits(key, (2,), jnp.uint32)
    first_draw = mix(ids ^ bits[0])
    zero = jnp.zeros(ids.shape, jnp.uint32)
    return Clock(
        turn=positions.to_play.astype(jnp.uint32),
        passes=positions.passes.astype(jnp.uint32),
        moves=zero,
        first=zero,
        trying=zero,
        draw=first_draw,
        stride=mix(first_draw ^ bits[1]) | np.uint32(1),
    )


def lane_ids(count: int) -> jax.Array:
    """u32[count]: 0, 1, 2, ..."""
    return lax.iota(jnp.uint32, count)


def playing(clock: Clock, cap: int) -> jax.Array:
    """bool[B]: which games are still being played."""
    return (clock.passes < 2) & (clock.moves < np.uint32(cap))


def random_bits(clock: Clock) -> jax.Array:
    """u32[B]: each lane's current random draw."""
    return mix(clock.draw)


def after_try(clock: Clock, move: jax.Array, result: jax.Array) -> Clock:
    """The clocks after each lane has tried `move`, given the flags of the move's result.

    A lane without any flag (its game is over, or its try awaits a later stage) is unchanged; one
    whose try is PENDING only remembers the move.
    """
    played = result & playable.PLAY  # the lowest bit: 1 or 0
    decided = (result & (playable.PLAY | playable.REJECT)) != 0
    passed = jnp.where(move == playable.PASS_MOVE, clock.passes + np.uint32(1), np.uint32(0))
    pending = (result & playable.PENDING) != 0
    return clock._replace(
        turn=clock.turn ^ played,
        passes=jnp.where(played != 0, passed, clock.passes),
        moves=clock.moves + played,
        first=jnp.where((played != 0) & (clock.moves == 0), move, clock.first),
        trying=jnp.where(decided, playable.NO_MOVE, jnp.where(pending, move, clock.trying)),
        draw=jnp.where(decided, clock.draw + clock.stride, clock.draw),
    )


# --- playing --------------------------------------------------------------------------


class _Blocks(NamedTuple):
    """All lanes, in N blocks of C; every leaf is [N, ..., C]."""

    state: Any  # of the policy's lanes
    numbers: jax.Array  # i32[N, C]: the playout of each lane; beyond the last for unused lanes


def play_out(
    policy: PlayoutPolicy,
    rules: go.Rules,
    positions: go.Position,
    key: jax.Array,
    *,
    last: jax.Array | None = None,
    lanes: int | None = None,
    max_moves: int | None = None,
    ends: bool = False,
    first_plays: FirstPlayKind = False,
    ids: jax.Array | None = None,
) -> Playouts:
    """Play each position to the end with a policy.

    The blocks take turns playing some iterations until every playout has ended. When many lanes
    have ended, the others move to the front, and only the blocks there play on. Trip bound: each
    iteration of a lane plays a move, rejects a point for the turn, or advances a pending try, so a
    move takes at most size^4 iterations; 1.2 in practice. (A softmax policy draws again after each
    rejected self-atari, where nothing else is left up to 2^10 times on average.)

    Args:
      policy: how the lanes play.
      last: i32[B]; the last move in each position, for a policy that takes it, as
        `branch.last_move` returns it: `bb.NO_POINT` or a pass where there is none to answer. None
        means none anywhere. Playout i then also depends on last[i].
      rules, positions, key, lanes, max_moves, ends, first_plays, ids: as for
        `policies.uniform.uniform_playouts`.

    Raises:
      ValueError: as `uniform_playouts`; or `last` or `ids` does not have the shape of the batch.
    """
    count = _batch_size(rules, positions)
    last_moves = _last_moves(last, count) if policy.takes_last else ()
    check_positive("lanes", lanes)
    check_positive("max_moves", max_moves)
    ids = lane_ids(count) if ids is None else jnp.asarray(ids, jnp.uint32)
    if jnp.shape(ids) != (count,):
        expected = f"a number for each position, shape ({count},)"
        raise ValueError(f"ids: shape {jnp.shape(ids)}; expected {expected}")
    width, cap = _block_width(policy, lanes, count), max_moves or move_cap(rules)

    def init(positions, ids, *last_moves):
        return policy.init(
            rules, positions, init_clock(positions, key, ids), first_plays, *last_moves
        )

    games = (positions, ids, *last_moves)
    in_blocks = lambda *games: _play_in_blocks(policy, rules, cap, init, games, width, ends)
    if not policy.in_kernel or mode.plain() or mode.backend() == "cpu":
        return in_blocks(*games)
    in_kernel = functools.partial(_play_in_kernel, policy, rules, cap, init, ends)
    kernels = {platform: functools.partial(in_kernel, platform) for platform in ("tpu", "cuda")}
    return mode.by_platform(*games, default=in_blocks, **kernels)


def _play_in_blocks(
    policy: PlayoutPolicy,
    rules: go.Rules,
    cap: int,
    init: Callable,
    games: tuple,
    width: int,
    ends: bool,
) -> Playouts:
    """Play in blocks of `width` lanes, as arrays in programs compiled by XLA."""
    count = games[1].shape[0]
    num_blocks = math.ceil(count / width)

    def still_playing(blocks):
        return playing(blocks.state.clock, cap)

    def advance(params, n, blocks):
        """The blocks, with block n some iterations further."""

        def advance_some(params, state):
            advance_once = lambda _, state: policy.advance(rules, cap, params, state)[0]
            return lax.fori_loop(0, _ADVANCES_PER_TURN, advance_once, state)

        if num_blocks == 1:  # no block to select, nor to write back
            state = stages.one_kernel(
                advance_some, params, jax.tree.map(lambda x: x[0], blocks.state)
            )
            return blocks._replace(state=jax.tree.map(lambda x: x[None], state))
        state = jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, n, 0, False), blocks.state)
        state = stages.one_kernel(advance_some, params, state)
        write = functools.partial(lax.dynamic_update_index_in_dim, index=n, axis=0)
        return blocks._replace(state=jax.tree.map(write, blocks.state, state))

    def turn(carry):
        blocks, active = carry
        params = stages.not_constant(policy.params, blocks.numbers)
        blocks = lax.fori_loop(0, active, functools.partial(advance, params), blocks)
        needed = -(-jnp.sum(still_playing(blocks), dtype=jnp.int32) // width)
        fewer = 4 * needed <= 3 * active
        if num_blocks > 1:
            blocks = lax.cond(
                fewer & (needed > 0),
                lambda blocks: _compact(blocks, still_playing(blocks), active),
                lambda blocks: blocks,
                blocks,
            )
        return blocks, jnp.where(fewer, needed, active)

    blocks = _in_blocks(init, games, num_blocks, width)
    if num_blocks == 1 and mode.backend() == "cpu":
        blocks = blocks._replace(state=_play_block(policy, rules, cap, blocks.state))
        return _results_of_blocks(rules, blocks, count, ends)
    carry = (blocks, jnp.int32(num_blocks))
    blocks = lax.while_loop(lambda carry: carry[1] > 0, turn, carry)[0]
    return _results_of_blocks(rules, blocks, count, ends)


def _play_block(policy: PlayoutPolicy, rules: go.Rules, cap: int, state: Any) -> Any:
    """Play a single block, every leaf [1, ..., C], to the end in one kernel; returns its state.

    The longest playouts take two or three times as long as most, so in a wide block the last
    quarter of the lanes plays on in a narrower one.
    """

    def until(params, narrow_width, state):
        continues = lambda state: jnp.sum(playing(state.clock, cap), dtype=jnp.int32) > narrow_width
        return lax.while_loop(continues, lambda s: policy.advance(rules, cap, params, s)[0], state)

    def play(params, state):
        width = state.clock.turn.shape[-1]
        narrow_width = width // 4 // _VECTOR_LANES * _VECTOR_LANES
        if narrow_width == 0:
            return until(params, 0, state)
        state = until(params, narrow_width, state)
        is_playing = playing(state.clock, cap)
        place = jnp.cumsum(is_playing, dtype=jnp.int32) - 1
        # (An unused place replays lane 0; its result is ignored.)
        lanes = jnp.zeros(narrow_width, jnp.int32)
        at = jnp.where(is_playing, place, narrow_width)
        lanes = indexing.write_sequentially(lanes, (at,), lax.iota(jnp.int32, width))
        rest = until(params, 0, jax.tree.map(lambda x: x[..., lanes], state))
        at = jnp.clip(place, 0, narrow_width - 1)
        return jax.tree.map(lambda x, new: jnp.where(is_playing, new[..., at], x), state, rest)

    state = jax.tree.map(lambda x: x[0], state)
    params = stages.not_constant(policy.params, state.clock.draw)
    return jax.tree.map(lambda x: x[None], stages.one_kernel(play, params, state))


def _play_in_kernel(
    policy: PlayoutPolicy,
    rules: go.Rules,
    cap: int,
    init: Callable,
    ends: bool,
    platform: str,
    *games: Any,
) -> Playouts:
    """Whole playouts in one kernel; they play the same games.

    XLA cannot partition a kernel: under `jax.jit` with arguments sharded over devices, use
    `jax.shard_map`.
    """
    state = lane_loop.run(
        lambda state: playing(state.clock, cap),
        lambda state: policy.advance(rules, cap, policy.params, state)[0],
        init(*games),
        platform,
    )
    return _results(rules, state, None, ends)


def _batch_size(rules: go.Rules, positions: go.Position) -> int:
    if not isinstance(positions, go.Position):
        kind = type(positions).__name__
        raise ValueError(f"positions: a {kind}, not a Position; of states, pass state.position")
    shape = jnp.shape(positions.to_play)
    if len(shape) != 1 or shape[0] < 1:
        raise ValueError(f"positions: shape {shape}; expected a batch of positions, shape (B,)")
    words, found = rules.layout.num_words, len(positions.black)
    if words != found:
        raise ValueError(
            f"positions: their boards have {found} words, those of {rules.size}x{rules.size} "
            f"{words}; give the rules of the positions' size"
        )
    return shape[0]


def _last_moves(last: jax.Array | None, count: int) -> tuple[jax.Array]:
    last = jnp.full(count, bb.NO_POINT) if last is None else last
    if jnp.shape(last) != (count,):
        expected = f"a last move for each position, shape ({count},)"
        raise ValueError(f"last: shape {jnp.shape(last)}; expected {expected}")
    return (jnp.asarray(last, jnp.int32),)


def check_positive(name: str, value: int | None) -> None:
    """Raises:
    ValueError: a number below 1.
    """
    if value is not None and value < 1:
        raise ValueError(f"{name}: {value}; expected at least 1, or None")


def _block_width(policy: PlayoutPolicy, lanes: int | None, count: int) -> int:
    """The number of lanes per block, chosen so that the blocks are about equally full.

    On a CPU a single block is padded to whole vectors, if that adds at most a third of its lanes:
    the lanes of a part of a vector take longer than a whole one.
    """
    on_cpu = mode.backend() == "cpu"
    default = policy.cpu_lanes if on_cpu else count
    max_width = default if lanes is None else lanes
    num_blocks = math.ceil(count / max_width)
    width = math.ceil(count / num_blocks / _VECTOR_LANES) * _VECTOR_LANES
    if num_blocks == 1 and not (on_cpu and 3 * width <= 4 * count):
        return count
    return min(max_width, width)


def _in_blocks(init: Callable, games: tuple, num_blocks: int, width: int) -> _Blocks:
    """Each playout in a lane of its own; unused lanes beyond the last count as ended."""
    count = games[1].shape[0]
    num_unused = num_blocks * width - count  # lanes without a playout
    pad = functools.partial(jnp.pad, pad_width=(0, num_unused), mode="edge")
    positions, *more = jax.tree.map(pad, games)
    numbers = lax.iota(jnp.int32, num_blocks * width)
    passes = jnp.where(numbers >= count, positions.passes.dtype.type(2), positions.passes)
    state = init(positions.replace(passes=passes), *more)

    def split(x):
        return jnp.moveaxis(x.reshape(*x.shape[:-1], num_blocks, width), -2, 0)

    return jax.tree.map(split, _Blocks(state, numbers))


def _compact(blocks: _Blocks, is_playing: jax.Array, active: jax.Array) -> _Blocks:
    """Reorder the lanes of the first `active` blocks: those still playing before those ended."""
    num_blocks, width = is_playing.shape
    lane = lax.iota(jnp.int32, num_blocks * width)
    # Sorting one array of distinct numbers is several times as fast as sorting pairs.
    order = jnp.sort(jnp.where(is_playing.reshape(-1), lane, lane + lane.size)) % lane.size
    order = order.reshape(num_blocks, width)

    def block(n, x, out):
        """`out` with block n filled from the lanes of x that move there."""
        rows = math.prod(x.shape[1:-1])
        first = (order[n] // width) * (rows * width) + order[n] % width
        at = first[None] + width * lax.iota(jnp.int32, rows)[:, None]
        moved = x.reshape(-1).at[at].get(mode="promise_in_bounds").reshape(x.shape[1:])
        return lax.dynamic_update_index_in_dim(out, moved, n, 0)

    return lax.fori_loop(
        0, active, lambda n, out: jax.tree.map(functools.partial(block, n), blocks, out), blocks
    )


# --- results --------------------------------------------------------------------------


def _results(rules: go.Rules, state: Any, which: jax.Array | None, ends: bool) -> Playouts:
    """The results of the lanes; `which` as for `_scores`."""
    black, white = state.stones()
    return Playouts(
        score=_scores(rules, black, white, which),
        moves=state.clock.moves.astype(jnp.int32),
        finished=state.clock.passes >= 2,
        first_action=playable.action_of(rules.layout, state.clock.first),
        ends=(black, white) if ends else None,
        first_plays=None if state.first is None else state.first.by_colour(),
    )


def _results_of_blocks(rules: go.Rules, blocks: _Blocks, count: int, ends: bool) -> Playouts:
    """The results of the lanes, in the order of the playouts."""

    def flatten(x):
        x = jnp.moveaxis(x, 0, -2)
        return x.reshape(*x.shape[:-2], -1)

    state, numbers = jax.tree.map(flatten, blocks)
    results = _results(rules, state, numbers < count, ends)
    if blocks.numbers.shape[0] == 1:  # no lane was moved
        return jax.tree.map(lambda x: x[:count], results)
    lane_of = jnp.argsort(numbers)[:count]
    return jax.tree.map(lambda x: x.at[lane_of].get(mode="promise_in_bounds"), results)


def _scores(
    rules: go.Rules, black: bb.Board, white: bb.Board, which: jax.Array | None
) -> jax.Array:
    """i32[B]: Black's area - White's area; undefined for boards not in `which`, bool[B].

    When a playout has ended by itself, no two empty points are adjacent (a play at one of them
    would be legal and fill no eye), so its neighbours show the owner of an empty point. All boards
    are flooded only if one in `which` has adjacent empty points, as cut playouts do. If `which` is
    None, they are always flooded, in one kernel: on a GPU that check would wait for the host.
    """
    by_flood = jax.vmap(scoring.difference(rules))
    if which is None:
        return by_flood(black, white)
    lay = rules.layout
    vacant = bb.complement(lay, bb.union(black, white))
    has_region = bb.any_of(bb.intersection(bb.neighbours(lay, vacant), vacant))

    def by_neighbours(black, white):
        beside_black, beside_white = bb.neighbours(lay, black), bb.neighbours(lay, white)
        only_black = bb.intersection(vacant, bb.difference(beside_black, beside_white))
        only_white = bb.intersection(vacant, bb.difference(beside_white, beside_black))
        ours, theirs = bb.union(black, only_black), bb.union(white, only_white)
        return bb.count(ours) - bb.count(theirs)

    return lax.cond(jnp.any(has_region & which), by_flood, by_neighbours, black, white)


def ownership(rules: go.Rules, playouts: Playouts) -> jax.Array:
    """i8[B, size, size]: +1 Black's area at the end, -1 White's, 0 neither.

    Args:
      rules: the rules.
      playouts: from ``uniform_playouts(..., ends=True)``.

    Raises:
      ValueError: the playouts do not include the final stones.
    """
    if playouts.ends is None:
        raise ValueError("playouts: they do not include the final stones; play with ends=True")
    owners = jax.vmap(lambda black, white: scoring.owners(rules, black, white))
    return owners(*playouts.ends)


def outcomes(
    playouts: Playouts,
    komi: jax.Array,
    value_at_cut: Callable | None = None,
) -> jax.Array:
    """f32[B] in [-1, 1]: the results for Black: 1 won, -1 lost, 0 drawn.

    Args:
      playouts: [B].
      komi: f32[B] or f32[].
      value_at_cut: the value of playouts that were cut: (playouts, komi) -> f32[B] in [-1, 1],
        for Black. None scores the area as it stands.
    """
    by_area = jnp.sign(playouts.score.astype(jnp.float32) - komi)
    if value_at_cut is None:
        return by_area
    return jnp.where(playouts.finished, by_area, value_at_cut(playouts, komi))
