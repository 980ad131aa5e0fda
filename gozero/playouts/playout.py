"""Random games to the end, many lanes in lockstep, a lane a game.

A lane is a state machine that tries one random candidate an iteration; see `whole_board`
for how a small board does it and `window` for a large one. Both play the same games.

Lanes end at different times. They stand in squads that play in turn, each as large as a
processor's cache likes; when enough have ended, those that go on close ranks, and only their
squads play on. So next to nothing waits for the last. What a playout plays depends on its
position, its number and the key, not on the squads.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from gozero.compile import mode, stages
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import scoring
from gozero.playouts import clock as clocks
from gozero.playouts import policies, whole_board, window
from gozero.playouts.first_plays import Wanted

_VECTOR_LANES = 16  # that the widest vector of a CPU holds
_BLOCKS_PER_TURN = 4  # that a squad plays before the next one's turn


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
    playout, by either colour, was his, or those where he has played. Passes are not in them."""


class Options(NamedTuple):
    """What `Playouts` shall hold; static."""

    ends: bool = False
    first_plays: Wanted = False


class Form(Protocol):
    """How lanes play: `window`, `whole_board`, or another policy's.

    One that has arrays is a NamedTuple of them.
    """

    @property
    def CPU_LANES(self) -> int:
        """Lanes of a squad, on a CPU."""
        ...

    @property
    def start(self) -> Callable[..., Any]:
        """(rules, positions, clock, first_plays, *more) -> the lanes before the first iteration.

        They are a NamedTuple with a `clock`; the lanes are the last axis of all its arrays.
        """
        ...

    def advance(self, rules: go.Rules, cap: int, lanes: Any) -> tuple[Any, Any]:
        """(the lanes a block of iterations further, what was played)."""
        ...

    def stones(self, lanes: Any) -> tuple[bb.Board, bb.Board]:
        """(black, white) of each lane."""
        ...

    def first_plays(self, lanes: Any) -> tuple[bb.Board, bb.Board]:
        """(Black's, White's) first plays of each lane."""
        ...


def move_cap(rules: go.Rules) -> int:
    """Moves after which a playout is cut; the game's own limit plays no part in it."""
    return 3 * rules.num_points


def uniform_playouts(
    rules: go.Rules,
    positions: go.Position,
    key: jax.Array,
    *,
    lanes: int | None = None,
    max_moves: int | None = None,
    ends: bool = False,
    first_plays: Wanted = False,
    ids: jax.Array | None = None,
) -> Playouts:
    """Plays each position to the end, uniformly among the legal moves that fill no own eye.

    A player passes only if there is no such move; two passes in a row end the playout, and
    so does the cap. Simple ko and no suicide, whatever `rules` says.

    Args:
      rules: the rules; their size is what counts here.
      positions: [B]; legal positions (no chain without liberties), of any mover, ko and
        passes. One that two passes have ended is scored as it stands.
      key: a PRNG key; consumed. Playout i depends on its position, ids[i] and the key.
      lanes: how many playouts play in lockstep at a time, a squad; None for what suits the
        backend: on a CPU the size that its first cache holds, elsewhere all of them. Changes
        the speed, not the results.
      max_moves: the cap on the moves of a playout; None for 3 * size^2. A lower one makes
        truncated playouts; `outcomes` values them.
      ends: also return the stones at the end; `ownership` shows whose the points are.
      first_plays: also return who played where, for all-moves-as-first statistics: True or
        "either", who was the first of both; "same", where each has played at all.
      ids: u32[B], numbers of the random sequences; None for 0 .. B - 1. Devices that share a
        batch of playouts give each its own part of the numbers.

    Returns:
      Playouts [B].

    Raises:
      ValueError: positions without a batch axis, lanes or max_moves below 1, other first_plays.
    """
    return run(
        form(rules.layout),
        rules,
        positions,
        key,
        lanes=lanes,
        max_moves=max_moves,
        options=Options(ends, first_plays),
        ids=ids,
    )


def run(
    play: Form,
    rules: go.Rules,
    positions: go.Position,
    key: jax.Array,
    *more: jax.Array,
    lanes: int | None,
    max_moves: int | None,
    options: Options,
    ids: jax.Array | None,
) -> Playouts:
    """Plays each position to the end as a form does; arguments as `uniform_playouts` has them.

    Args:
      play: how the lanes play.
      more: [B, ...]; what `play.start` takes beside the positions.

    Raises:
      ValueError: as `uniform_playouts`.
    """
    (count,) = _batch(positions)
    _check_positive("lanes", lanes)
    _check_positive("max_moves", max_moves)
    if ids is None:
        ids = clocks.lane_ids(count)
    games = (positions, *more)
    width, cap = _width(play, lanes, count), max_moves or move_cap(rules)
    return _run(play, rules, games, key, ids, width, cap, options)


def _batch(positions: go.Position) -> tuple[int, ...]:
    shape = jnp.shape(positions.to_play)
    if len(shape) != 1 or shape[0] < 1:
        raise ValueError(f"positions: shape {shape}; expected a batch of positions, shape (B,)")
    return shape


def _check_positive(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{name}: {value}; expected at least 1, or None")


def form(lay: bb.Layout) -> Form:
    """How uniform lanes play here: `window` or `whole_board`, modules with the same doors.

    Both have start, advance, stones and first_plays; both play the same games.
    """
    return window if window.fits(lay) else whole_board


def _width(play: Form, lanes: int | None, count: int) -> int:
    """How many lanes a squad has: so many that the squads are about equally large."""
    default = play.CPU_LANES if mode.backend() == "cpu" else count
    most = default if lanes is None else lanes
    if count <= most:
        return count
    vectors = math.ceil(count / math.ceil(count / most) / _VECTOR_LANES)
    return min(most, vectors * _VECTOR_LANES)


# --- squads ---------------------------------------------------------------------------


class Ranks(NamedTuple):
    """All lanes, in N squads of C; every leaf is [N, ..., C]."""

    lanes: Any  # of the form
    numbers: jax.Array  # i32[N, C]: which playout each lane plays; those beyond the last are none


def _run(play: Form, rules, games, key, ids, width, cap, options) -> Playouts:
    """Squad after squad plays some blocks of iterations, until every playout has ended.

    When many lanes have ended, the others close ranks to the front, and only the squads there
    go on. Trip bound: an iteration of a lane plays, rejects a point for the turn, or brings the
    verdict on a pending try nearer, so a move takes at most size^4 of them; 1.2 in practice.
    """
    count = ids.shape[0]
    num_squads = math.ceil(count / width)

    def going(ranks):
        return clocks.playing(ranks.lanes.clock, cap)

    def advance(n, ranks):
        """Squad n, some blocks further."""

        def some_blocks(play, lanes):
            one = lambda _, lanes: play.advance(rules, cap, lanes)[0]
            return lax.fori_loop(0, _BLOCKS_PER_TURN, one, lanes)

        lanes = jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, n, 0, False), ranks.lanes)
        now = stages.not_constant(play, ranks.numbers) if isinstance(play, tuple) else play
        lanes = stages.one_kernel(functools.partial(some_blocks, now), lanes)
        put = functools.partial(lax.dynamic_update_index_in_dim, index=n, axis=0)
        return ranks._replace(lanes=jax.tree.map(put, ranks.lanes, lanes))

    def turn(carry):
        ranks, active = carry
        ranks = lax.fori_loop(0, active, advance, ranks)
        needed = -(-jnp.sum(going(ranks), dtype=jnp.int32) // width)
        fewer = 4 * needed <= 3 * active
        if num_squads > 1:
            ranks = lax.cond(
                fewer & (needed > 0),
                lambda ranks: _close_ranks(ranks, going(ranks), active),
                lambda ranks: ranks,
                ranks,
            )
        return ranks, jnp.where(fewer, needed, active)

    ranks = _form_up(play, rules, games, key, ids, num_squads, width, options)
    carry = (ranks, jnp.int32(num_squads))
    ranks = lax.while_loop(lambda carry: carry[1] > 0, turn, carry)[0]
    return _results(play, rules, ranks, count, options)


def _form_up(play: Form, rules, games, key, ids, num_squads, width, options) -> Ranks:
    """Every playout in a lane of its own; lanes beyond the last have ended."""
    missing = num_squads * width - ids.shape[0]
    pad = functools.partial(jnp.pad, pad_width=(0, missing), mode="edge")
    (positions, *more), ids = jax.tree.map(pad, (games, ids))
    numbers = lax.iota(jnp.int32, num_squads * width)
    absent = numbers >= numbers.size - missing
    positions = positions.replace(
        passes=jnp.where(absent, positions.passes.dtype.type(2), positions.passes)
    )
    clock = clocks.start(positions, key, ids)
    lanes = play.start(rules, positions, clock, options.first_plays, *more)

    def in_squads(x):
        return jnp.moveaxis(x.reshape(*x.shape[:-1], num_squads, width), -2, 0)

    return jax.tree.map(in_squads, Ranks(lanes, numbers))


def _close_ranks(ranks: Ranks, going: jax.Array, active: jax.Array) -> Ranks:
    """The lanes of the first `active` squads, those that go on before those that have ended."""
    num_squads, width = going.shape
    lane = lax.iota(jnp.int32, num_squads * width)
    # One array to sort, of distinct numbers: several times as fast as a sort of pairs.
    order = jnp.sort(jnp.where(going.reshape(-1), lane, lane + lane.size)) % lane.size
    order = order.reshape(num_squads, width)

    def squad(n, x, out):
        """Squad n of `out`, from the lanes of x that come to stand there."""
        rows = math.prod(x.shape[1:-1])
        first = (order[n] // width) * (rows * width) + order[n] % width
        at = first[None] + width * lax.iota(jnp.int32, rows)[:, None]
        came = x.reshape(-1).at[at].get(mode="promise_in_bounds").reshape(x.shape[1:])
        return lax.dynamic_update_index_in_dim(out, came, n, 0)

    return lax.fori_loop(
        0, active, lambda n, out: jax.tree.map(functools.partial(squad, n), ranks, out), ranks
    )


# --- results --------------------------------------------------------------------------


def _results(play: Form, rules, ranks: Ranks, count: int, options: Options) -> Playouts:
    """What the lanes have come to, in the order of the playouts."""

    def in_a_row(x):
        x = jnp.moveaxis(x, 0, -2)
        return x.reshape(*x.shape[:-2], -1)

    ranks = jax.tree.map(in_a_row, ranks)
    lanes, clock = ranks.lanes, ranks.lanes.clock
    black, white = play.stones(lanes)
    results = Playouts(
        score=_scores(rules, black, white, ranks.numbers < count),
        moves=clock.moves.astype(jnp.int32),
        finished=clock.passes >= 2,
        first_action=policies.spot_action(rules.layout, clock.first),
        ends=(black, white) if options.ends else None,
        first_plays=play.first_plays(lanes) if options.first_plays else None,
    )
    lane_of = jnp.argsort(ranks.numbers)[:count]
    return jax.tree.map(lambda x: x.at[lane_of].get(mode="promise_in_bounds"), results)


def _scores(rules: go.Rules, black: bb.Board, white: bb.Board, which: jax.Array) -> jax.Array:
    """i32[B]: Black's area - White's area, of the boards in `which`.

    Where a playout has ended by itself no two empty points are neighbours (to play at one of
    them would be legal and fill no eye), so a point's owner shows in its neighbours; only
    boards that have some, cut ones, are flooded.
    """
    lay = rules.layout
    vacant = bb.complement(lay, bb.union(black, white))
    wide = bb.any_of(bb.intersection(bb.neighbours(lay, vacant), vacant))

    def at_a_glance(black, white):
        beside_black, beside_white = bb.neighbours(lay, black), bb.neighbours(lay, white)
        only_black = bb.intersection(vacant, bb.difference(beside_black, beside_white))
        only_white = bb.intersection(vacant, bb.difference(beside_white, beside_black))
        ours, theirs = bb.union(black, only_black), bb.union(white, only_white)
        return bb.count(ours) - bb.count(theirs)

    def by_flood(black, white):
        def one_game(black, white):
            ours, theirs = scoring.territory(rules, black, white)
            return bb.count(ours) - bb.count(theirs)

        return jax.vmap(one_game)(black, white)

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
