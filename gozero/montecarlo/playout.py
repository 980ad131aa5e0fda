"""Random games to the end, many lanes in lockstep, each lane one game after another.

A lane is a state machine that tries one random candidate an iteration; see `whole_board`
for how a small board does it and `window` for a large one. Both play the same games.

Lanes end at different times. With as many lanes as playouts those that have ended wait for
the last; with fewer, a lane that has ended takes up its next position (it is *refilled*),
and next to nothing waits. What a playout plays depends on its position, its number and the
key, not on the lanes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import scoring
from gozero.montecarlo import clock as clocks
from gozero.montecarlo import policies, whole_board, window

_NEVER = np.uint32(0xFFFFFFFF)  # a number of blocks that no run reaches
_BLOCKS_PER_REFILL = 2


class Playouts(NamedTuple):
    """How the playouts ended. One entry a playout."""

    score: jax.Array  # i32[B]: Black's area - White's area at the end, before komi
    moves: jax.Array  # i32[B]: moves played by the playout, passes included
    finished: jax.Array  # bool[B]: two passes ended it; False: cut at the cap
    first_action: jax.Array  # i32[B]: its first action; bb.NO_POINT where it played none
    ends: tuple[bb.Board, bb.Board] | None = None
    """(black, white), each W x u32[B]: the stones at the end, if asked for."""
    first_plays: tuple[bb.Board, bb.Board] | None = None
    """(Black's, White's), each W x u32[B]: the points where the first play of the playout, by
    either colour, was his, if asked for. The two are disjoint; passes are not in them."""


class Options(NamedTuple):
    """What `Playouts` shall hold; static."""

    ends: bool = False
    first_plays: bool = False


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
    first_plays: bool = False,
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
      lanes: how many playouts run at a time; None for all. Fewer lanes, each of which plays
        8 to 16 positions, waste less on waiting and keep their state in the cache; a few
        hundred are enough for a CPU core. Changes the speed, not the results.
      max_moves: the cap on the moves of a playout; None for 3 * size^2. A lower one makes
        truncated playouts; `outcomes` values them.
      ends: also return the stones at the end; `ownership` shows whose the points are.
      first_plays: also return who first played where, for all-moves-as-first statistics.
      ids: u32[B], numbers of the random sequences; None for 0 .. B - 1. Devices that share a
        batch of playouts give each its own part of the numbers.

    Returns:
      Playouts [B].

    Raises:
      ValueError: positions without a batch axis, lanes or max_moves below 1.
    """
    (count,) = _batch(positions)
    _check_positive("lanes", lanes)
    _check_positive("max_moves", max_moves)
    if ids is None:
        ids = clocks.lane_ids(count)
    return _run(
        rules,
        positions,
        key,
        ids,
        min(lanes or count, count),
        max_moves or move_cap(rules),
        Options(ends, first_plays),
    )


def _batch(positions: go.Position) -> tuple[int, ...]:
    shape = jnp.shape(positions.to_play)
    if len(shape) != 1 or shape[0] < 1:
        raise ValueError(f"positions: shape {shape}; expected a batch of positions, shape (B,)")
    return shape


def _check_positive(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{name}: {value}; expected at least 1, or None")


def form(lay: bb.Layout) -> ModuleType:
    """How lanes play on this layout: `window` or `whole_board`, modules with the same doors.

    Both have start, advance, stones and first_plays; both play the same games.
    """
    return window if window.fits(lay) else whole_board


# --- the queue ------------------------------------------------------------------------


class Queue(NamedTuple):
    """Positions that wait for a lane, and the results of those that were played.

    With L lanes and R rounds, lane i plays the positions i, L + i, 2 L + i, ... in turn. Every
    leaf is [R, ..., L], so that a lane's next position is found by R selects and no gather.
    """

    positions: go.Position
    ids: jax.Array
    round: jax.Array  # i32[L]: which of its positions each lane is at
    done: Playouts


def _run(rules, positions, key, ids, num_lanes, cap, options) -> Playouts:
    """Blocks of iterations until every playout has ended.

    Trip bound: an iteration of a lane plays, rejects a point for the turn, or brings the
    verdict on a pending try nearer, so a move takes at most size^4 of them; 1.2 in practice.
    """
    play = form(rules.layout)
    count = ids.shape[0]
    rounds = math.ceil(count / num_lanes)

    def start(positions, ids):
        return play.start(rules, positions, clocks.start(positions, key, ids), options.first_plays)

    def advance(lanes, blocks):
        return play.advance(rules, cap, lanes, blocks != _NEVER)[0]

    def ended(lanes):
        return ~clocks.playing(lanes.clock, cap)

    if rounds == 1:
        lanes, _ = lax.while_loop(
            lambda carry: ~jnp.all(ended(carry[0])),
            lambda carry: (advance(*carry), carry[1] + np.uint32(1)),
            (start(positions, ids), jnp.uint32(0)),
        )
        return _results(rules, lanes, options, jnp.bool_(True))

    in_rounds = functools.partial(_in_rounds, rounds=rounds, num_lanes=num_lanes)
    positions, ids = jax.tree.map(in_rounds, (positions, ids))
    lanes = start(*jax.tree.map(lambda x: x[0], (positions, ids)))
    blank = jax.eval_shape(lambda lanes: _results(rules, lanes, options, jnp.bool_(True)), lanes)
    queue = Queue(
        positions,
        ids,
        round=jnp.zeros(num_lanes, jnp.int32),
        done=jax.tree.map(lambda x: jnp.zeros((rounds, *x.shape), x.dtype), blank),
    )
    last = (count - 1 - np.arange(num_lanes)) // num_lanes  # the last round of each lane

    def refill(lanes, queue):
        """Lanes that have ended hand in their result and take up their next position."""
        hand_in = ended(lanes) & (queue.round <= last)
        results = _results(rules, lanes, options, hand_in)
        done = _store(queue.done, results, hand_in, queue.round)
        queue = queue._replace(round=queue.round + hand_in, done=done)
        fresh = start(*_pick_round((queue.positions, queue.ids), queue.round))
        take_up = hand_in & (queue.round <= last)
        return jax.tree.map(functools.partial(_where_lane, take_up), fresh, lanes), queue

    def block(carry):
        lanes, queue, blocks = carry
        lanes = lax.fori_loop(0, _BLOCKS_PER_REFILL, lambda _, x: advance(x, blocks), lanes)
        return *refill(lanes, queue), blocks + np.uint32(1)

    carry = (lanes, queue, jnp.uint32(0))
    queue = lax.while_loop(lambda carry: jnp.any(carry[1].round <= last), block, carry)[1]
    return jax.tree.map(functools.partial(_out_of_rounds, count=count), queue.done)


def _in_rounds(x: jax.Array, rounds: int, num_lanes: int) -> jax.Array:
    """[B] -> [R, L]; what is missing to R x L repeats the last."""
    missing = rounds * num_lanes - x.shape[0]
    return jnp.pad(x, (0, missing), mode="edge").reshape(rounds, num_lanes)


def _out_of_rounds(x: jax.Array, count: int) -> jax.Array:
    """[R, L] -> [B]."""
    return x.reshape(-1)[:count]


def _store(done: Playouts, results: Playouts, which: jax.Array, round_: jax.Array) -> Playouts:
    """The results [L] of some lanes, written in their rounds of [R, L]."""
    rounds = jax.tree.leaves(done)[0].shape[0]
    here = which[None] & (round_[None] == lax.iota(jnp.int32, rounds)[:, None])
    return jax.tree.map(lambda old, new: jnp.where(here, new, old), done, results)


def _where_lane(which: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    """`new` in the lanes of `which`, bool[L]; arrays [..., L]."""
    return jnp.where(jnp.broadcast_to(which, old.shape), new, old)


def _pick_round(rows, round_: jax.Array):
    """[R, L] -> [L]: each lane's round, by R selects; any round beyond the last."""
    rounds = jax.tree.leaves(rows)[0].shape[0]

    def select(r, picked):
        return jax.tree.map(lambda x, old: jnp.where(round_ == r, x[r], old), rows, picked)

    return lax.fori_loop(1, rounds, select, jax.tree.map(lambda x: x[0], rows))


# --- results --------------------------------------------------------------------------


def _results(rules: go.Rules, lanes, options: Options, which: jax.Array) -> Playouts:
    """The lanes as results; they mean something for those in `which`, bool[L]."""
    play, clock = form(rules.layout), lanes.clock
    black, white = play.stones(lanes)
    return Playouts(
        score=_scores(rules, black, white, which),
        moves=clock.moves.astype(jnp.int32),
        finished=clock.passes >= 2,
        first_action=policies.spot_action(rules.layout, clock.first),
        ends=(black, white) if options.ends else None,
        first_plays=play.first_plays(lanes) if options.first_plays else None,
    )


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
    playouts: Playouts, komi: jax.Array, value_at_cut: Callable | None = None
) -> jax.Array:
    """f32[B] in [-1, 1]: the results as Black sees them: 1 won, -1 lost, 0 drawn.

    Args:
      playouts: [B].
      komi: f32[B] or f32[].
      value_at_cut: what a playout is worth that was cut: (playouts, komi) -> f32[B] in
        [-1, 1], for Black. None: by the area as it stands.
    """
    by_area = jnp.sign(playouts.score.astype(jnp.float32) - komi)
    if value_at_cut is None:
        return by_area
    return jnp.where(playouts.finished, by_area, value_at_cut(playouts, komi))
