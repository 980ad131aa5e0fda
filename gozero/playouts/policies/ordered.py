"""Playouts that play the points of a list in order: the ordered simulation of Gobble.

Bruegmann (1993), "Monte Carlo Go": each player has a list of all points, sorted by value, the best
first, and plays the first one that may be played. In each playout, points are moved down the lists:
by n places or more with probability exp(-n / T). At T = 0 the list is played as it is.

Here a point's place is its rank plus an amount drawn from an exponential distribution of mean T,
once for each playout, point and player; T may differ between points. The points that may be played
are those of a uniform playout.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.hashing import mix
from gozero.playouts import engine, playable
from gozero.playouts.engine import Clock, PlayoutPolicy
from gozero.playouts.first_plays import FirstPlayKind
from gozero.playouts.policies import whole_board
from gozero.playouts.policies.whole_board import BoardLanes


class Order(NamedTuple):
    """The lists of B playouts."""

    rank: jax.Array  # f32[2, P, B]: the rank of each point, for Black and for White; 0 is first
    temperature: jax.Array  # f32[2, P, B]: T


def policy(order: Order) -> PlayoutPolicy:
    """The playout policy that plays by an order."""
    advance = engine.repeated(functools.partial(whole_board.step, _choose))
    return PlayoutPolicy(functools.partial(_init, order), advance, cpu_lanes=128)


def _init(
    order: Order, rules: go.Rules, positions: go.Position, clock: Clock, first_plays: FirstPlayKind
) -> BoardLanes:
    lanes = whole_board.init(rules, positions, clock, first_plays)
    num_unused = clock.turn.size - order.rank.shape[-1]  # lanes without a playout
    pad = lambda x: jnp.pad(x, ((0, 0), (0, 0), (0, num_unused)), mode="edge")
    return lanes._replace(places=places(Order(*map(pad, order)), clock))


def places(order: Order, clock: Clock) -> jax.Array:
    """f32[2, P, B]: each point's place in the lists of Black and of White; the lowest is first."""
    number = jnp.arange(2 * order.rank.shape[1], dtype=jnp.uint32)
    number = number.reshape(-1, 2).T[..., None]  # 2 P numbers: for each point Black's, then White's
    seed = clock.stride[None, None] ^ (number * np.uint32(0x85EBCA6B))
    uniform = ((mix(seed) >> 8).astype(jnp.float32) + 0.5) / 2.0**24
    return order.rank - order.temperature * jnp.log(uniform)


def _choose(lay: bb.Layout, params: Any, lanes: BoardLanes) -> jax.Array:
    """u32[B]: the pending move, or the candidate that comes first in the mover's list."""
    del params
    assert lanes.places is not None  # `_init` has made them
    own_places = jnp.where(lanes.clock.turn != 0, lanes.places[1], lanes.places[0])
    candidates = playable.candidates(lay, lanes.own, lanes.opponent, lanes.banned)
    is_open = jax.vmap(functools.partial(bb.unpack, lay), out_axes=-1)(candidates)
    place = jnp.where(is_open, own_places, jnp.inf)
    first = playable.packed_point(lay, jnp.argmin(place, axis=0).astype(jnp.int32))
    new_move = jnp.where(jnp.any(is_open, axis=0), first, playable.PASS_MOVE)
    return jnp.where(lanes.clock.trying != playable.NO_MOVE, lanes.clock.trying, new_move)
