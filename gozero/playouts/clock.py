"""What a lane of playouts carries beside its board: whose turn, how many moves, which draw.

A lane plays one game. All fields are u32[B], one entry a lane, so that they mix with the
words of the boards without conversion.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.go import rules as go
from gozero.hashing import mix
from gozero.playouts import policies


class Clock(NamedTuple):
    """The course of B games. A spot is a point or a pass in one word, see `policies`."""

    turn: jax.Array  # 0 Black, 1 White
    passes: jax.Array  # passes in a row
    moves: jax.Array  # moves played so far
    first: jax.Array  # the spot of the first move, or NO_SPOT
    trying: jax.Array  # the spot of an undecided try, or NO_SPOT
    draw: jax.Array  # where the lane's random sequence stands, and
    stride: jax.Array  # its step, odd


class Played(NamedTuple):
    """What one iteration added to the games."""

    played: jax.Array  # bool[B]: did the lane make a move?
    spot: jax.Array  # u32[B]: which, if so


def start(positions: go.Position, key: jax.Array, ids: jax.Array) -> Clock:
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


def after(clock: Clock, spot: jax.Array, verdict: jax.Array) -> Clock:
    """The clocks after each lane's try of `spot`, by the flags of its verdict.

    A lane with no flag at all (its game is over, or it awaits a verdict) stays as it is.
    """
    played = verdict & policies.PLAY  # the lowest bit: 1 or 0
    decided = (verdict & (policies.PLAY | policies.REJECT)) != 0
    passed = jnp.where(spot == policies.PASS_SPOT, clock.passes + np.uint32(1), np.uint32(0))
    pending = (verdict & policies.PENDING) != 0
    return clock._replace(
        turn=clock.turn ^ played,
        passes=jnp.where(played != 0, passed, clock.passes),
        moves=clock.moves + played,
        first=jnp.where((played != 0) & (clock.moves == 0), spot, clock.first),
        trying=jnp.where(decided, policies.NO_SPOT, jnp.where(pending, spot, clock.trying)),
        draw=jnp.where(decided, clock.draw + clock.stride, clock.draw),
    )
