"""Random games to the end, one a lane, all lanes in lockstep.

A playout move needs one legal point, not the list of them. So a lane *tries* a random
candidate: it puts the stone, grows the set of stones that are surely alive from the
liberties, and sees whether the stone's chain and the enemy chains beside it are among them.
Most tries are decided after two sweeps; a lane whose try is not, goes on growing in the
next iteration, while its neighbours play on. No lane ever waits in an inner loop. One
iteration of a lane is

    choose   a random candidate, unless a try is pending
    grow     the living stones, with the candidate on the board
    judge    play it, reject it, or keep it pending: one word of flags
    update   the lane by the flags

The first three are for one game, and live in `policies`; `step` maps them over the lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.go import bitboard as bb
from gozero.go import fusion, scoring
from gozero.go import rules as go
from gozero.hashing import mix
from gozero.montecarlo import policies

_ITERATIONS_PER_CHECK = 8  # between two looks at whether every lane has finished
_NEVER = np.uint32(0xFFFFFFFF)  # an iteration that no playout reaches


class Playouts(NamedTuple):
    """How the playouts ended. One entry a lane."""

    score: jax.Array  # i32[B]: Black's area - White's area at the end, before komi
    moves: jax.Array  # i32[B]: moves played by the playout, passes included
    finished: jax.Array  # bool[B]: two passes ended it; False: cut at the cap
    first_action: jax.Array  # i32[B]: its first action; bb.NO_POINT where it played none


class Lanes(NamedTuple):
    """The playouts as they run. One entry a lane; a board is W words u32[B]."""

    own: bb.Board  # stones of the player to move
    opponent: bb.Board
    banned: bb.Board  # this turn: the ko point, and what was tried and is suicide
    alive: bb.Board  # stones known to have a liberty once the pending try is on the board
    pending: jax.Array  # u32[B]: the spot of an undecided try, or NO_SPOT
    passes: jax.Array  # u32[B]: passes in a row
    moves: jax.Array  # u32[B]: moves played so far
    first: jax.Array  # u32[B]: the spot of the first move, or NO_SPOT
    stream: jax.Array  # u32[B]: where the lane's random sequence starts, and
    stride: jax.Array  # u32[B]: its step, odd


class Played(NamedTuple):
    """What one iteration added to the games."""

    played: jax.Array  # bool[B]: did the lane make a move?
    spot: jax.Array  # u32[B]: which, if so


def move_cap(rules: go.Rules) -> int:
    """Moves after which a playout is cut; the game's own limit plays no part in it."""
    return 3 * rules.num_points


def uniform_playouts(rules: go.Rules, positions: go.Position, key: jax.Array) -> Playouts:
    """Plays each position to the end, uniformly among the legal moves that fill no own eye.

    A player passes only if there is no such move; two passes in a row end the playout, and
    so does the cap of 3 * size^2 moves. Simple ko only, whatever `rules.ko` says.

    Args:
      rules: the rules; their size is what counts here.
      positions: [B]; legal positions (no chain without liberties), of any mover, ko and
        passes. One that two passes have ended is scored as it stands.
      key: a PRNG key; consumed. Lane i's result depends on its position, i and the key.

    Returns:
      Playouts [B].
    """
    lanes = start(rules, positions, key)
    lanes = _run(rules, lanes)
    white_to_move = (positions.to_play == go.WHITE) ^ ((lanes.moves & 1) == 1)
    black = bb.where(white_to_move, lanes.opponent, lanes.own)
    white = bb.where(white_to_move, lanes.own, lanes.opponent)
    ends = positions.replace(black=black, white=white)
    return Playouts(
        score=jax.vmap(lambda end: scoring.area_difference(rules, end))(ends),
        moves=lanes.moves.astype(jnp.int32),
        finished=lanes.passes >= 2,
        first_action=policies.spot_action(rules.layout, lanes.first),
    )


def start(rules: go.Rules, positions: go.Position, key: jax.Array) -> Lanes:
    """The lanes before the first iteration; lane i's random sequence is (key, i)'s."""
    lay = rules.layout
    own, opponent = go.own_and_opponent(positions)
    zero = jnp.zeros(positions.to_play.shape, jnp.uint32)
    bits = jax.random.bits(key, (2,), jnp.uint32)
    stream = mix(lax.iota(jnp.uint32, zero.shape[0]) ^ bits[0])
    return Lanes(
        own=own,
        opponent=opponent,
        banned=jax.vmap(lambda ko: bb.at(lay, ko))(positions.ko),
        alive=(zero,) * lay.num_words,
        pending=zero,
        passes=positions.passes.astype(jnp.uint32),
        moves=zero,
        first=zero,
        stream=stream,
        stride=mix(stream ^ bits[1]) | np.uint32(1),
    )


def _playing(rules: go.Rules, passes: jax.Array, moves: jax.Array) -> jax.Array:
    return (passes < 2) & (moves < np.uint32(move_cap(rules)))


def _run(rules: go.Rules, lanes: Lanes) -> Lanes:
    """Iterates until every lane has finished.

    Trip bound: an iteration plays, rejects a point for the turn, or adds a living stone to a
    pending try, so a move takes at most size^4 of them. In practice 1.3 a move.
    """

    def some(carry):
        lanes, iteration = carry

        def one(i, lanes):
            return step(rules, lanes, iteration + i.astype(jnp.uint32))[0]

        lanes = lax.fori_loop(0, _ITERATIONS_PER_CHECK, one, lanes)
        return lanes, iteration + np.uint32(_ITERATIONS_PER_CHECK)

    def go_on(carry):
        return jnp.any(_playing(rules, carry[0].passes, carry[0].moves))

    return lax.while_loop(go_on, some, (lanes, jnp.uint32(0)))[0]


def step(rules: go.Rules, lanes: Lanes, iteration: jax.Array) -> tuple[Lanes, Played]:
    """One iteration of every lane; one that has finished stays as it is.

    Args:
      rules: the rules.
      lanes: [B].
      iteration: u32[]; 0, 1, 2, ... since `start`, the same for all lanes.
    """
    lay = rules.layout
    own, opponent, pending = lanes.own, lanes.opponent, lanes.pending

    def stage(function: Callable, *args):
        mapped = jax.vmap(lambda *one_game: function(lay, *one_game))
        return fusion.wall(mapped, iteration != _NEVER, *args)

    random = mix(lanes.stream + iteration * lanes.stride)
    spot = stage(_choose, own, opponent, lanes.banned, pending, random)
    alive = stage(_grow, own, opponent, spot, pending, lanes.alive)
    playing = _playing(rules, lanes.passes, lanes.moves)
    flags = stage(_judge, own, opponent, spot, alive, playing)
    return _update(lay, lanes, spot, alive, flags), Played((flags & policies.PLAY) != 0, spot)


def _choose(lay, own, opponent, banned, pending, random) -> jax.Array:
    """u32[]: the pending spot, or a random candidate."""
    fresh = policies.pick(lay, policies.candidates(lay, own, opponent, banned), random)
    return jnp.where(pending != 0, pending, fresh)


def _grow(lay, own, opponent, spot, pending, alive) -> bb.Board:
    """What is alive, going on from what a pending try had found."""
    return policies.grow(lay, own, opponent, spot, bb.keep(pending != 0, alive))


def _judge(lay, own, opponent, spot, alive, playing) -> jax.Array:
    """u32[]: the flags of a try; none for a lane that has finished, which stops it."""
    flags = policies.judge(lay, own, opponent, spot, alive)
    return jnp.where(playing, flags, np.uint32(0))


def _update(lay, lanes: Lanes, spot, alive, flags) -> Lanes:
    """The lanes after their tries: elementwise, so written for all lanes at once."""
    played, rejected, pending, capture, ko = ((flags & f) != 0 for f in policies.FLAGS)
    point = policies.spot_board(lay, spot)
    captured = bb.keep(capture, bb.difference(lanes.opponent, alive))
    tried = bb.union(lanes.banned, bb.keep(rejected, point))
    passed = jnp.where(spot == policies.PASS_SPOT, lanes.passes + np.uint32(1), np.uint32(0))
    return lanes._replace(
        own=bb.where(played, bb.difference(lanes.opponent, captured), lanes.own),
        opponent=bb.where(played, bb.union(lanes.own, point), lanes.opponent),
        banned=bb.where(played, bb.keep(ko, captured), tried),
        alive=alive,
        pending=jnp.where(pending, spot, policies.NO_SPOT),
        passes=jnp.where(played, passed, lanes.passes),
        moves=jnp.where(played, lanes.moves + np.uint32(1), lanes.moves),
        first=jnp.where(played & (lanes.moves == 0), spot, lanes.first),
    )
