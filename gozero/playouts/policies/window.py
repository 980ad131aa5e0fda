"""Playout lanes that decide tries in a window around the point; a row of the board is a word.

Whether a try is legal, and what it captures, is decided in two stages; a lane that the first leaves
undecided waits for the second, which is more expensive and runs less often:

    window   the five rows around the point, every iteration: decides most tries
    flood    the whole board, every tenth iteration, continued until it converges: long chains and
             large captures

The first returns a **move result** in one word, which holds all that the update of a lane needs, so
that nothing is computed twice (see `gozero.compile.stages`). It holds the flags of `playable` and,
above them, the captured stones: five rows by five columns around the point. A capture that does not
fit there is left pending, as is a try that the rows in the window do not decide.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import mode, stages
from gozero.go import bitboard as bb
from gozero.go import floods
from gozero.go import rules as go
from gozero.playouts import engine, playable
from gozero.playouts.engine import Clock, Played, PlayoutPolicy
from gozero.playouts.first_plays import FirstPlayKind, FirstPlays, none_yet
from gozero.playouts.policies import whole_board

_TRIES_PER_FLOOD = 10  # iterations between two floods of the whole board
FLOOD_SWEEPS = 4  # sweeps of a flood; if it has not converged it continues at the next

_REACH = 2  # rows and columns on each side of the point that a window has and a result shows
_CAPTURE_SHIFT = 7  # captures are bits 7 to 31 of a result, row by row
_STEPS = 2  # how far a chain grows west along a row at each visit

_ONE, _FIVE = np.uint32(1), np.uint32(5)
_FIVE_BITS = np.uint32(31)


class WindowLanes(NamedTuple):
    """The state of B playouts; a board is one array u32[W, B], each word a row of the board."""

    black: jax.Array
    white: jax.Array
    tried: jax.Array  # points found to be suicide this turn
    ko: jax.Array  # u32[B]: the ko point as a packed move, or NO_MOVE
    alive: jax.Array  # stones known to be alive, in lanes that the flood left pending
    clock: Clock
    first: FirstPlays | None  # None if they are not recorded

    def stones(self) -> tuple[bb.Board, bb.Board]:
        """(black, white) of each lane."""
        return tuple(self.black), tuple(self.white)


def fits(lay: bb.Layout) -> bool:
    """Whether such lanes can play on the layout."""
    return lay.rows_per_word == 1


def init(
    rules: go.Rules, positions: go.Position, clock: Clock, first_plays: FirstPlayKind
) -> WindowLanes:
    """The lanes before the first iteration."""
    lay = rules.layout
    black, white = jnp.stack(positions.black), jnp.stack(positions.white)
    empty = jnp.zeros_like(black)
    return WindowLanes(
        black=black,
        white=white,
        tried=empty,
        ko=playable.packed_point(lay, positions.ko.astype(jnp.int32)),
        alive=empty,
        clock=clock,
        first=none_yet(first_plays, empty),
    )


# --- the iterations -------------------------------------------------------------------


def advance(
    rules: go.Rules, cap: int, params: Any, lanes: WindowLanes
) -> tuple[WindowLanes, Played]:
    """Some iterations and a flood: (lanes, what was played [T, B])."""
    del params
    try_once = lambda lanes, _: try_in_window(rules, cap, lanes)
    lanes, played = lax.scan(try_once, lanes, length=_TRIES_PER_FLOOD)
    lanes, flooded = _decide_by_flood(rules, lanes)
    return lanes, jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), played, flooded)


UNIFORM = PlayoutPolicy(init, advance, cpu_lanes=128, in_kernel=True)


def try_in_window(rules: go.Rules, cap: int, lanes: WindowLanes) -> tuple[WindowLanes, Played]:
    """Each lane without a pending try tries a random candidate."""
    lay, clock = rules.layout, lanes.clock

    def choose(black, white, tried, ko, turn, random):
        own, opponent = _by_mover(turn, black, white)
        banned = bb.union(tuple(tried), playable.board_of(lay, ko))
        return playable.pick(lay, playable.candidates(lay, own, opponent, banned), random)

    def decide(black, white, turn, move, playing):
        result = result_in_window(lay, tuple(black), tuple(white), turn, move)
        return jnp.where(playing, result, np.uint32(0))

    active = engine.playing(clock, cap) & (clock.trying == playable.NO_MOVE)
    boards = (lanes.black, lanes.white)
    random = engine.random_bits(clock)
    move = stages.once(choose, *boards, lanes.tried, lanes.ko, clock.turn, random)
    result = stages.once(decide, *boards, clock.turn, move, active)
    captured = _captured_rows(lay, move, result)
    return _update(lanes, move, result, captured, _captured_point(move, result))


def _decide_by_flood(rules: go.Rules, lanes: WindowLanes) -> tuple[WindowLanes, Played]:
    """Each lane with a pending try grows its living stones further, then decides if it can."""
    lay, move = rules.layout, lanes.clock.trying

    def decide(black, white, turn, move, alive):
        settled = stages.once(functools.partial(_flood, lay), black, white, turn, move, alive)
        flags = stages.once(functools.partial(_flags, lay), black, white, turn, move, settled)
        pending = (flags & playable.PENDING) != 0
        not_alive = jnp.where(turn[None] != 0, black, white) & ~settled
        captured = jnp.where(((flags & playable.CAPTURE) != 0)[None], not_alive, np.uint32(0))
        ko = playable.nth(lay, tuple(captured), jnp.zeros_like(move))
        return flags, captured, ko, jnp.where(pending[None], settled, np.uint32(0))

    def nothing(black, white, turn, move, alive):
        return jnp.zeros_like(move), jnp.zeros_like(black), jnp.zeros_like(move), alive

    any_pending = jnp.any(move != playable.NO_MOVE)
    args = (lanes.black, lanes.white, lanes.clock.turn, move, lanes.alive)
    flags, captured, ko, alive = lax.cond(any_pending, decide, nothing, *args)
    return _update(lanes._replace(alive=alive), move, flags, captured, ko)


def _flood(lay, black, white, turn, move, alive) -> jax.Array:
    """u32[W, B]: the living stones of lanes with a pending try, some sweeps further."""
    own, opponent = _by_mover(turn, black, white)
    beside_liberty, (east, south) = whole_board.growth_of(lay, own, opponent, move)
    seeds = bb.keep(move != playable.NO_MOVE, bb.union(beside_liberty, tuple(alive)))
    seeds, east, south = (jnp.stack(board)[None] for board in (seeds, east, south))
    return floods.grow_some(lay, seeds, east, south, FLOOD_SWEEPS)[0]


def _flags(lay, black, white, turn, move, alive) -> jax.Array:
    """u32[B]: the flags of the try, given the living stones."""
    own, opponent = _by_mover(turn, black, white)
    flags = whole_board.move_result(lay, own, opponent, move, tuple(alive))
    return jnp.where(move != playable.NO_MOVE, flags, np.uint32(0))


def _update(lanes: WindowLanes, move, result, captured, ko) -> tuple[WindowLanes, Played]:
    """The lanes after their tries, every array updated in place; and what was played.

    Args:
      move, result: u32[B]; what was tried, and the flags of its result.
      captured: u32[W, B]; the stones that it captures.
      ko: u32[B]; if it makes a ko, the move banned next.
    """
    nothing = np.uint32(0)
    row = lax.iota(jnp.uint32, lanes.black.shape[0])[:, None]
    at, flags, turn = move[None], result[None], lanes.clock.turn[None]  # [1, B], beside [W, B]
    black_moves, white_moves = turn == 0, turn != 0
    played, rejected = (flags & playable.PLAY) != 0, (flags & playable.REJECT) != 0
    point = jnp.where(row == playable.word_of(at), _point_bit(at), nothing)
    from_black = jnp.where(white_moves, captured, nothing)
    from_white = jnp.where(black_moves, captured, nothing)
    first = lanes.first
    if first is not None:
        first = first.and_then(jnp.where(played, point, nothing), black_moves)
    ko = jnp.where((result & playable.KO) != 0, ko, playable.NO_MOVE)
    tried = lanes.tried | jnp.where(rejected, point, nothing)
    lanes = lanes._replace(
        black=(lanes.black | jnp.where(played & black_moves, point, nothing)) & ~from_black,
        white=(lanes.white | jnp.where(played & white_moves, point, nothing)) & ~from_white,
        tried=jnp.where(played, nothing, tried),  # cleared at the end of the turn
        ko=jnp.where(played[0], ko, lanes.ko),
        clock=engine.after_try(lanes.clock, move, result),
        first=first,
    )
    return lanes, Played(played[0], move)


# --- a window -------------------------------------------------------------------------


def _by_mover(turn: jax.Array, black, white) -> tuple[bb.Board, bb.Board]:
    """(own, opponent): the rows of the player to move, and those of the opponent."""
    return bb.swapped(turn != 0, tuple(black), tuple(white))


def result_in_window(
    lay: bb.Layout, black: bb.Board, white: bb.Board, turn: jax.Array, move: jax.Array
) -> jax.Array:
    """u32[]: the result of a try, from the rows around its point."""
    reach, word, column = _REACH + 1, playable.word_of(move), move & _FIVE_BITS
    around = [playable.rows_around(list(board), word, reach) for board in (black, white)]
    own_rows, opponent_rows = map(list, _by_mover(turn, *around))
    bit = _point_bit(move)
    own_rows[reach] = own_rows[reach] | bit
    vacant = []
    for i, (x, y) in enumerate(zip(own_rows, opponent_rows, strict=True)):
        above = reach - i  # rows from here down to the point's
        on_board = word >= np.uint32(above) if above > 0 else word < np.uint32(lay.size + above)
        vacant.append(jnp.where(on_board, lay.full[0] & ~(x | y), np.uint32(0)))
    point = [jnp.zeros_like(bit)] * (2 * reach + 1)
    point[reach] = bit
    flags, captured = _examine(own_rows, opponent_rows, vacant, point)

    count = lambda rows: functools.reduce(lambda x, y: x + y, map(lax.population_count, rows))
    columns = (_FIVE_BITS << column) >> np.uint32(_REACH)
    num_captured, num_shown = count(captured), count([row & columns for row in captured])
    single = jnp.where(num_captured == 1, np.uint32(0xFFFFFFFF), ~playable.KO)
    flags = flags & single
    for i, row in enumerate(captured):
        near = ((row << np.uint32(_REACH)) >> column) & _FIVE_BITS
        flags = flags | (near << np.uint32(_CAPTURE_SHIFT + 5 * i))
    result = jnp.where(num_captured == num_shown, flags, playable.PENDING)
    return jnp.where(move == playable.PASS_MOVE, playable.PLAY, result)


def _examine(own, opponent, vacant, point) -> tuple[jax.Array, list[jax.Array]]:
    """Examine a stone just placed, given some rows of the board around it.

    The stones beside a liberty grow along their chains, down and up again; what they reach is
    alive. If an enemy chain beside the point is not found alive, that chain is grown from there;
    otherwise, if the point's own chain is not, that one is. If the growth ends within the rows and
    meets nothing alive, it has found whole chains without liberties: a capture, or a suicide.

    Args:
      own, opponent, vacant, point: n + 2 rows each; own includes the placed stone. The first and
        last rows are read, but nothing grows there: a chain that reaches them is undecided. Rows
        beyond the edge are empty in all four.

    Returns:
      The flags of the try as u32[] (KO is valid only if a single stone is captured), and the
      captured stones as n rows.
    """
    inner = range(1, len(own) - 1)
    stones = [x | y for x, y in zip(own, opponent, strict=True)]
    east = [(x & (x >> _ONE)) | (y & (y >> _ONE)) for x, y in zip(own, opponent, strict=True)]
    south = [(own[i] & own[i + 1]) | (opponent[i] & opponent[i + 1]) for i in range(len(own) - 1)]

    grown = functools.partial(_grown_rows, east, south)

    def beside(x, i):
        return (x[i] << _ONE) | (x[i] >> _ONE) | x[i - 1] | x[i + 1]

    none = jnp.zeros_like(own[0])
    outer = [none]  # a row that nothing grows in
    alive = grown(outer + [beside(vacant, i) & stones[i] for i in inner] + outer)
    touched = [beside(point, i) for i in inner]
    rows = list(zip(inner, touched, strict=True))
    doubtful = [near & opponent[i] & ~alive[i] for i, near in rows]
    in_doubt = _anything(doubtful)
    lives = _anything(point[i] & alive[i] for i in inner)

    seeds = [jnp.where(in_doubt, x, point[i]) for i, x in zip(inner, doubtful, strict=True)]
    chain = grown([*outer, *seeds, *outer])
    is_complete = ~_anything(_further(east, south, chain))
    has_liberty = _anything(chain[i] & alive[i] for i in inner)
    dies = is_complete & ~has_liberty

    capture = in_doubt & dies
    play = capture | (~in_doubt & (lives | has_liberty))
    reject = ~in_doubt & ~lives & dies
    enclosed = ~_anything(near & (own[i] | vacant[i]) for i, near in rows)
    flags = playable.flags(
        (play, playable.PLAY),
        (reject, playable.REJECT),
        (~play & ~reject, playable.PENDING),
        (capture, playable.CAPTURE),
        (capture & enclosed, playable.KO),
    )
    return flags, [jnp.where(capture, chain[i], np.uint32(0)) for i in inner]


def _grown_rows(east, south, x: list[jax.Array]) -> list[jax.Array]:
    """The rows grown along the joints, except the first and the last; see `_examine`."""
    x, inner = list(x), range(1, len(x) - 1)

    def along(i, row):
        row = row | (((row & east[i]) + east[i]) ^ east[i])
        for _ in range(_STEPS):
            row = row | ((row >> _ONE) & east[i])
        return row

    for i in inner:
        x[i] = along(i, x[i] | (x[i - 1] & south[i - 1]) if i > 1 else x[i])
    for i in reversed(inner[:-1]):
        x[i] = along(i, x[i] | (x[i + 1] & south[i]))
    return x


def _further(east, south, chain: list[jax.Array]) -> list[jax.Array]:
    """Rows of the stones joined to the chain but not in it, including those in the outer rows."""
    last = len(chain) - 2
    joined = [chain[1] & south[0], chain[last] & south[last]]
    for i in range(1, last + 1):
        further = ((chain[i] & east[i]) << _ONE) | ((chain[i] >> _ONE) & east[i])
        if i > 1:
            further = further | (chain[i - 1] & south[i - 1])
        if i < last:
            further = further | (chain[i + 1] & south[i])
        joined.append(further & ~chain[i])
    return joined


def _anything(rows) -> jax.Array:
    """bool[]: whether any point is set in the rows."""
    return functools.reduce(lambda x, y: x | y, rows) != 0


def _point_bit(move: jax.Array) -> jax.Array:
    """u32[]: the bit of a move's point in its word; 0 for a pass and for no move."""
    is_point = (move & playable.IS_POINT) != 0
    return jnp.where(is_point, _ONE << (move & _FIVE_BITS), np.uint32(0))


def _captured_rows(lay: bb.Layout, move: jax.Array, result: jax.Array) -> jax.Array:
    """u32[W, B]: the captured stones in the results u32[B] of moves u32[B]."""
    row = lax.iota(jnp.uint32, lay.num_words)[:, None]
    # A shift by 32 or more gives 0, also for the wrapped differences of other rows.
    shift = _FIVE * row - (_FIVE * playable.word_of(move) - np.uint32(5 * _REACH))[None]
    near = ((result >> np.uint32(_CAPTURE_SHIFT))[None] >> shift) & _FIVE_BITS
    if mode.inside_kernel():  # where such a shift is not defined
        near = jnp.where(shift < 32, near, np.uint32(0))
    return (near << (move & _FIVE_BITS)[None]) >> np.uint32(_REACH)


def _captured_point(move: jax.Array, result: jax.Array) -> jax.Array:
    """u32[]: the single captured stone in a result, as a packed move."""
    bit = np.uint32(31) - lax.clz(result >> np.uint32(_CAPTURE_SHIFT))
    row = (bit * np.uint32(13)) >> np.uint32(6)  # bit // 5, for bits 0 to 24
    column = (move & _FIVE_BITS) + bit - _FIVE * row - np.uint32(_REACH)
    word = playable.word_of(move) + row - np.uint32(_REACH)
    return (column & _FIVE_BITS) | (word << np.uint32(5)) | playable.IS_POINT
