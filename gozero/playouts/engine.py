"""Random games to the end, many lanes in lockstep, a lane a game.

A lane is a state machine that tries one move an iteration; its policy (`policies`) chooses the move
and finds out what it does. Here is what all policies share: the player to move, the number of
moves, the order of play, and the results.

Lanes end at different times. They stand in blocks that play in turn, each of a size that fits a
processor's cache; when enough have ended, those that go on move to the front, and only their blocks
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
from gozero.playouts.first_plays import Wanted

_VECTOR_LANES = 16  # that the widest vector of a CPU holds
_ADVANCES_PER_TURN = 4  # that a block plays before the next one's turn
_ITERATIONS = 8  # of an advance, unless a policy has its own


class Playouts(NamedTuple):
    """How the playouts ended. One entry a playout."""

    score: jax.Array  # i32[B]: Black's area - White's area at the end, before komi
    moves: jax.Array  # i32[B]: moves played by the playout, passes included
    finished: jax.Array  # bool[B]: two passes ended it; False: cut at the cap
    first_action: jax.Array  # i32[B]: its first action; bb.NO_POINT where it played none
    ends: tuple[bb.Board, bb.Board] | None = None
    """(black, white), each W x u32[B]: the stones at the end, if asked for."""
    first_plays: tuple[bb.Board, bb.Board] | None = None
    """(Black's, White's), each W x u32[B], if asked for: the points where the first play of the
    playout, by either colour, was theirs, or those where they have played; no passes."""


class PlayoutPolicy(NamedTuple):
    """How lanes play. The state of B lanes is a NamedTuple of arrays whose last axis is the lanes.

    It has a `clock`, `first` (the `first_plays.FirstPlays`, or None) and ``stones()``, the (black,
    white) of each lane. All else in it is the policy's own.
    """

    init: Callable[..., Any]
    """(rules, positions, clock, first_plays, *more) -> the state before the first iteration."""
    advance: Callable[[go.Rules, int, Any, Any], tuple[Any, Any]]
    """(rules, cap, params, state) -> (the state some iterations further, what was played)."""
    cpu_lanes: int
    """Lanes of a block, on a CPU: so many as its first cache holds."""
    params: Any = ()
    """Arrays of which the policy is made. Others compile nothing anew."""
    takes_last: bool = False
    """Whether `init` takes the last moves i32[B] too, as `branch.last_move` finds them."""
    in_kernel: bool = False
    """Whether `advance` is such that a TPU or a GPU can play whole playouts in one kernel: its
    state u32, no params, nothing looked up in an array; see `kernels.by_lane.traced`."""


def repeated(step: Callable) -> Callable:
    """A `PlayoutPolicy.advance` of several iterations, of a step with the same arguments."""

    def advance(rules: go.Rules, cap: int, params: Any, state: Any) -> tuple[Any, Any]:
        one = lambda state, _: step(rules, cap, params, state)
        return lax.scan(one, state, length=_ITERATIONS)

    return advance


def move_cap(rules: go.Rules) -> int:
    """Moves after which a playout is cut; the game's own limit plays no part in it."""
    return 3 * rules.num_points


# --- a lane's clock -------------------------------------------------------------------


class Clock(NamedTuple):
    """How far B games have come, all u32[B]; a move is packed in a word, see `playable`."""

    turn: jax.Array  # 0 Black, 1 White
    passes: jax.Array  # passes in a row
    moves: jax.Array  # moves played so far
    first: jax.Array  # the first move, or NO_MOVE
    trying: jax.Array  # the move that is being tried and not decided yet, or NO_MOVE
    draw: jax.Array  # where the lane's random sequence stands, and
    stride: jax.Array  # its step, odd


class Played(NamedTuple):
    """What one iteration added to the games."""

    played: jax.Array  # bool[B]: did the lane make a move?
    move: jax.Array  # u32[B]: which, if so


def init_clock(positions: go.Position, key: jax.Array, ids: jax.Array) -> Clock:
    """Clocks of playouts that have not begun; the random sequence of playout i is (key, i)'s.

    Every draw of a candidate takes one step of the sequence and nothing else does: how the
    tries are decided, and what the other lanes do, has no part in what a playout plays.
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
    """bool[B]: which games go on."""
    return (clock.passes < 2) & (clock.moves < np.uint32(cap))


def random_bits(clock: Clock) -> jax.Array:
    """u32[B]: the draw at which each lane stands."""
    return mix(clock.draw)


def after_try(clock: Clock, move: jax.Array, result: jax.Array) -> Clock:
    """The clocks after each lane has tried `move`, by the flags of the move's result.

    A lane with no flag at all (its game is over, or its try is not decided) stays as it is.
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

    state: Any  # of the policy
    numbers: jax.Array  # i32[N, C]: which playout each lane plays; those beyond the last are none


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
    first_plays: Wanted = False,
    ids: jax.Array | None = None,
) -> Playouts:
    """Plays each position to the end by a policy.

    Block after block plays some iterations, until every playout has ended. When many lanes have
    ended, the others move to the front, and only the blocks there go on. Trip bound: an iteration
    of a lane plays, rejects a point for the turn, or brings the result of a pending try nearer, so
    a move takes at most size^4 of them; 1.2 in practice.

    Args:
      policy: how the lanes play.
      last: i32[B]; the last move in each position, for a policy that takes it, as
        `branch.last_move` finds it: `bb.NO_POINT` or a pass where there is none to answer; None:
        nowhere. Playout i then depends on last[i] too.
      rules, positions, key, lanes, max_moves, ends, first_plays, ids: as of
        `policies.uniform.uniform_playouts`.

    Raises:
      ValueError: as `uniform_playouts`; or last moves that are not a batch like the positions.
    """
    count = _batch_size(positions)
    more = _last_moves(last, count) if policy.takes_last else ()
    _check_positive("lanes", lanes)
    _check_positive("max_moves", max_moves)
    ids = lane_ids(count) if ids is None else ids
    width, cap = _block_width(policy, lanes, count), max_moves or move_cap(rules)

    def init(positions, ids, *more):
        return policy.init(rules, positions, init_clock(positions, key, ids), first_plays, *more)

    games = (positions, ids, *more)
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
    """Blocks of so many lanes, as arrays that XLA's programs pass over."""
    count = games[1].shape[0]
    num_blocks = math.ceil(count / width)

    def going(blocks):
        return playing(blocks.state.clock, cap)

    def advance(params, n, blocks):
        """Block n, some iterations further."""

        def some(params, state):
            one = lambda _, state: policy.advance(rules, cap, params, state)[0]
            return lax.fori_loop(0, _ADVANCES_PER_TURN, one, state)

        if num_blocks == 1:  # nothing to look for, nor to put back
            state = stages.one_kernel(some, params, jax.tree.map(lambda x: x[0], blocks.state))
            return blocks._replace(state=jax.tree.map(lambda x: x[None], state))
        state = jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, n, 0, False), blocks.state)
        state = stages.one_kernel(some, params, state)
        put = functools.partial(lax.dynamic_update_index_in_dim, index=n, axis=0)
        return blocks._replace(state=jax.tree.map(put, blocks.state, state))

    def turn(carry):
        blocks, active = carry
        params = stages.not_constant(policy.params, blocks.numbers)
        blocks = lax.fori_loop(0, active, functools.partial(advance, params), blocks)
        needed = -(-jnp.sum(going(blocks), dtype=jnp.int32) // width)
        fewer = 4 * needed <= 3 * active
        if num_blocks > 1:
            blocks = lax.cond(
                fewer & (needed > 0),
                lambda blocks: _compact(blocks, going(blocks), active),
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
    """The state of a single block, every leaf [1, ..., C], played to the end in one kernel.

    Its longest playouts last two or three times as long as most: when a quarter of many lanes is
    left, those go on by themselves.
    """

    def until(params, few, state):
        goes_on = lambda state: jnp.sum(playing(state.clock, cap), dtype=jnp.int32) > few
        return lax.while_loop(goes_on, lambda s: policy.advance(rules, cap, params, s)[0], state)

    def play(params, state):
        width = state.clock.turn.shape[-1]
        few = width // 4 // _VECTOR_LANES * _VECTOR_LANES
        if few == 0:
            return until(params, 0, state)
        state = until(params, few, state)
        going = playing(state.clock, cap)
        place = jnp.cumsum(going, dtype=jnp.int32) - 1
        # (A place that stays empty plays lane 0 once more, and nobody asks how.)
        lanes = jnp.zeros(few, jnp.int32)
        at = jnp.where(going, place, few)
        lanes = indexing.write_in_turn(lanes, (at,), lax.iota(jnp.int32, width))
        rest = until(params, 0, jax.tree.map(lambda x: x[..., lanes], state))
        at = jnp.clip(place, 0, few - 1)
        return jax.tree.map(lambda x, new: jnp.where(going, new[..., at], x), state, rest)

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
    """Whole playouts in one kernel: the same games.

    Under `jax.jit` with arguments that are divided among devices XLA cannot divide a kernel: use
    `jax.shard_map`.
    """
    state = lane_loop.run(
        lambda state: playing(state.clock, cap),
        lambda state: policy.advance(rules, cap, policy.params, state)[0],
        init(*games),
        platform,
    )
    return _results(rules, state, None, ends)


def _batch_size(positions: go.Position) -> int:
    shape = jnp.shape(positions.to_play)
    if len(shape) != 1 or shape[0] < 1:
        raise ValueError(f"positions: shape {shape}; expected a batch of positions, shape (B,)")
    return shape[0]


def _last_moves(last: jax.Array | None, count: int) -> tuple[jax.Array]:
    last = jnp.full(count, bb.NO_POINT) if last is None else last
    if jnp.shape(last) != (count,):
        expected = f"a last move for each position, shape ({count},)"
        raise ValueError(f"last: shape {jnp.shape(last)}; expected {expected}")
    return (jnp.asarray(last, jnp.int32),)


def _check_positive(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{name}: {value}; expected at least 1, or None")


def _block_width(policy: PlayoutPolicy, lanes: int | None, count: int) -> int:
    """How many lanes a block has: so many that the blocks are about equally large."""
    default = policy.cpu_lanes if mode.backend() == "cpu" else count
    most = default if lanes is None else lanes
    if count <= most:
        return count
    vectors = math.ceil(count / math.ceil(count / most) / _VECTOR_LANES)
    return min(most, vectors * _VECTOR_LANES)


def _in_blocks(init: Callable, games: tuple, num_blocks: int, width: int) -> _Blocks:
    """Every playout in a lane of its own; lanes beyond the last have ended."""
    count = games[1].shape[0]
    missing = num_blocks * width - count
    pad = functools.partial(jnp.pad, pad_width=(0, missing), mode="edge")
    positions, *more = jax.tree.map(pad, games)
    numbers = lax.iota(jnp.int32, num_blocks * width)
    passes = jnp.where(numbers >= count, positions.passes.dtype.type(2), positions.passes)
    state = init(positions.replace(passes=passes), *more)

    def split(x):
        return jnp.moveaxis(x.reshape(*x.shape[:-1], num_blocks, width), -2, 0)

    return jax.tree.map(split, _Blocks(state, numbers))


def _compact(blocks: _Blocks, going: jax.Array, active: jax.Array) -> _Blocks:
    """The lanes of the first `active` blocks, those that go on before those that have ended."""
    num_blocks, width = going.shape
    lane = lax.iota(jnp.int32, num_blocks * width)
    # One array to sort, of distinct numbers: several times as fast as a sort of pairs.
    order = jnp.sort(jnp.where(going.reshape(-1), lane, lane + lane.size)) % lane.size
    order = order.reshape(num_blocks, width)

    def block(n, x, out):
        """Block n of `out`, from the lanes of x that come to stand there."""
        rows = math.prod(x.shape[1:-1])
        first = (order[n] // width) * (rows * width) + order[n] % width
        at = first[None] + width * lax.iota(jnp.int32, rows)[:, None]
        came = x.reshape(-1).at[at].get(mode="promise_in_bounds").reshape(x.shape[1:])
        return lax.dynamic_update_index_in_dim(out, came, n, 0)

    return lax.fori_loop(
        0, active, lambda n, out: jax.tree.map(functools.partial(block, n), blocks, out), blocks
    )


# --- results --------------------------------------------------------------------------


def _results(rules: go.Rules, state: Any, which: jax.Array | None, ends: bool) -> Playouts:
    """What lanes have come to; `which` as of `_scores`."""
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
    """What the lanes have come to, in the order of the playouts."""

    def in_a_row(x):
        x = jnp.moveaxis(x, 0, -2)
        return x.reshape(*x.shape[:-2], -1)

    state, numbers = jax.tree.map(in_a_row, blocks)
    results = _results(rules, state, numbers < count, ends)
    if blocks.numbers.shape[0] == 1:  # nothing was moved
        return jax.tree.map(lambda x: x[:count], results)
    lane_of = jnp.argsort(numbers)[:count]
    return jax.tree.map(lambda x: x.at[lane_of].get(mode="promise_in_bounds"), results)


def _scores(
    rules: go.Rules, black: bb.Board, white: bb.Board, which: jax.Array | None
) -> jax.Array:
    """i32[B]: Black's area - White's area, of the boards in `which` bool[B].

    Where a playout has ended by itself no two empty points are neighbours (to play at one of
    them would be legal and fill no eye), so a point's owner shows in its neighbours; only
    boards that have some, cut ones, are flooded. None: all are, in one kernel, without a look
    first, for which the host of a GPU would wait.
    """
    by_flood = jax.vmap(scoring.difference(rules))
    if which is None:
        return by_flood(black, white)
    lay = rules.layout
    vacant = bb.complement(lay, bb.union(black, white))
    wide = bb.any_of(bb.intersection(bb.neighbours(lay, vacant), vacant))

    def at_a_glance(black, white):
        beside_black, beside_white = bb.neighbours(lay, black), bb.neighbours(lay, white)
        only_black = bb.intersection(vacant, bb.difference(beside_black, beside_white))
        only_white = bb.intersection(vacant, bb.difference(beside_white, beside_black))
        ours, theirs = bb.union(black, only_black), bb.union(white, only_white)
        return bb.count(ours) - bb.count(theirs)

    return lax.cond(jnp.any(wide & which), by_flood, at_a_glance, black, white)


def ownership(rules: go.Rules, playouts: Playouts) -> jax.Array:
    """i8[B, size, size]: +1 Black's area at the end, -1 White's, 0 neither.

    Args:
      rules: the rules.
      playouts: of ``uniform_playouts(..., ends=True)``.

    Raises:
      ValueError: playouts without ends.
    """
    if playouts.ends is None:
        raise ValueError("playouts: they have no ends; ask for them with ends=True")
    owners = jax.vmap(lambda black, white: scoring.owners(rules, black, white))
    return owners(*playouts.ends)


def outcomes(
    playouts: Playouts,
    komi: jax.Array,
    value_at_cut: Callable | None = None,
    reward: Callable[[jax.Array], jax.Array] = jnp.sign,
) -> jax.Array:
    """f32[B] in [-1, 1]: the results as Black sees them: 1 won, -1 lost, 0 drawn.

    Args:
      playouts: [B].
      komi: f32[B] or f32[].
      value_at_cut: what a playout is worth that was cut: (playouts, komi) -> f32[B] in
        [-1, 1], for Black. None: by the area as it stands.
      reward: what a score f32[B], komi counted, is worth; `scoring.by_margin` makes another.
    """
    by_area = reward(playouts.score.astype(jnp.float32) - komi)
    if value_at_cut is None:
        return by_area
    return jnp.where(playouts.finished, by_area, value_at_cut(playouts, komi))
