"""Playouts that play the points of a list in its order: the ordered simulation of Gobble.

Bruegmann (1993), "Monte Carlo Go": each player has all points in a list, the best by their values
first, and plays the first that may be played. In each playout points are moved down the lists, by
n places or more with the probability exp(-n / T). At T = 0 it is the list itself.

Here a point's place is its rank plus an amount drawn from an exponential distribution of mean T,
once a playout, point and player. What may be played is what a uniform playout may.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.hashing import mix
from gozero.playouts import engine, playable
from gozero.playouts.engine import Clock, PlayoutPolicy
from gozero.playouts.policies import whole_board
from gozero.playouts.policies.whole_board import Lanes


class Order(NamedTuple):
    """The lists of all playouts."""

    rank: jax.Array  # f32[2, P]: the place of each point for Black, and for White; 0 comes first
    temperature: jax.Array  # f32[]: T


def policy(order: Order) -> PlayoutPolicy:
    """How lanes play by it."""
    advance = engine.repeated(functools.partial(whole_board.step, _choose))
    return PlayoutPolicy(whole_board.init, advance, cpu_lanes=128, params=order)


def places(order: Order, clock: Clock) -> jax.Array:
    """f32[P, B]: of each point, for the player to move in each lane; the lowest comes first."""
    point = jnp.arange(order.rank.shape[1], dtype=jnp.uint32)[:, None]
    seed = clock.stride[None] ^ ((2 * point + clock.turn[None]) * np.uint32(0x85EBCA6B))
    uniform = ((mix(seed) >> 8).astype(jnp.float32) + 0.5) / 2.0**24
    rank = jnp.where(clock.turn[None] != 0, order.rank[1][:, None], order.rank[0][:, None])
    return rank - order.temperature * jnp.log(uniform)


def _choose(lay: bb.Layout, order: Order, lanes: Lanes) -> jax.Array:
    """u32[B]: the pending move, or the first of the candidates."""
    may = playable.candidates(lay, lanes.own, lanes.opponent, lanes.banned)
    is_open = jax.vmap(functools.partial(bb.unpack, lay), out_axes=-1)(may)
    place = jnp.where(is_open, places(order, lanes.clock), jnp.inf)
    first = playable.packed_point(lay, jnp.argmin(place, axis=0).astype(jnp.int32))
    fresh = jnp.where(jnp.any(is_open, axis=0), first, playable.PASS_MOVE)
    return jnp.where(lanes.clock.trying != playable.NO_MOVE, lanes.clock.trying, fresh)
