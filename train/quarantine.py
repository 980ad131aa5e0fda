"""Removes rows whose updates are not finite from the replay, after an update was not finite.

The `game` of a row in the ring is its source: each device numbers the run's own games from 0, and
all rows of the n-th shard that was read have -n. All rows of a shard or a game are removed
together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from gozero.compile import collectives
from gozero.play.devices import AXIS, DIVIDED, EVERYWHERE, on_each, stack, unstack
from train import learner
from train.buffer import Buffer
from train.plan import Plan
from train.replay import GONE

FINE = 2**31 - 1
"""In place of a source: the update is finite."""


def remove_bad_sources(
    plan: Plan, mesh: Mesh, params: Any, buffer: Buffer, limit: int
) -> tuple[Buffer, list[int]]:
    """Find by bisection the rows whose updates are not finite, and remove their shards or games.

    Args:
      plan, mesh: the run's.
      params: of the network; known to be good.
      buffer: the rings [D, ...], donated.
      limit: the most sources to remove.

    Returns:
      (the rings without them, the sources: numbers of games, and negative numbers of shards). If
      there is no source, no particular rows are the cause.
    """
    width = plan.config.batch_size // plan.num_devices
    examine, remove = _programs(plan, mesh)
    sources: list[int] = []
    for begin in range(0, plan.buffer.capacity, width):
        slots = np.arange(begin, begin + width, dtype=np.int32) % plan.buffer.capacity
        while True:
            source, device = _bad_source(functools.partial(examine, params, buffer), slots)
            if source == FINE:
                break
            if source == GONE:
                return buffer, []
            buffer = remove(buffer, np.int32(source), np.int32(device))
            sources.append(source)
            if len(sources) == limit:
                return buffer, sources
    return buffer, sources


@functools.lru_cache(maxsize=1)
def _programs(plan: Plan, mesh: Mesh) -> tuple[Callable, Callable]:
    """(`_examine`, `_remove`) on all devices at once; compiled when they are first called."""
    examine = on_each(mesh, _examine(plan), (EVERYWHERE, DIVIDED, EVERYWHERE), EVERYWHERE)
    examine = collectives.compiled_when_called(examine, mesh)
    return examine, on_each(mesh, _remove, (DIVIDED, EVERYWHERE, EVERYWHERE), DIVIDED, donated=0)


def _bad_source(examine: Callable[[np.ndarray], jax.Array], slots: np.ndarray) -> tuple[int, int]:
    """(the source of a row in these slots whose update is not finite, or FINE; its device)."""
    width = len(slots)
    source, device = examine(slots).tolist()
    while len(slots) > 1 and source != FINE:
        first, second = np.array_split(slots, 2)
        in_first = examine(np.resize(first, width))[0] != FINE
        slots = first if in_first else second
        source, device = examine(np.resize(slots, width)).tolist()
    return source, device


def _examine(plan: Plan):
    """``(params, buffer, slots) -> i32[2]``: FINE if each device's update on these rows of its ring
    is finite; otherwise the source of the first of them, on a device where it is not; the device.
    """

    def examine(params: Any, buffer: Buffer, slots: jax.Array) -> jax.Array:
        rows = unstack(buffer).rows.take(slots)
        batch = learner.batch_of(plan.rules, plan.learner, rows, jnp.zeros_like(slots))
        ok = learner.is_finite(plan.learner, params, *batch, AXIS)
        sources = lax.all_gather(jnp.where(ok, FINE, rows.game[0]), AXIS)
        device = jnp.argmin(sources).astype(jnp.int32)
        return jnp.stack([sources[device], device])

    return examine


def _remove(buffer: Buffer, source: jax.Array, device: jax.Array) -> Buffer:
    """Without the rows of a shard, or of a game that this device has played."""
    own = unstack(buffer)
    is_here = (source < 0) | (device == lax.axis_index(AXIS))
    removed = (own.rows.game == source) & is_here

    def blank(x: jax.Array) -> jax.Array:
        return jnp.where(removed.reshape(-1, *[1] * (x.ndim - 1)), jnp.zeros((), x.dtype), x)

    rows = jax.tree.map(blank, own.rows)
    rows = rows.replace(game=jnp.where(removed, GONE, own.rows.game))
    frequency = None if own.frequency is None else blank(own.frequency)
    return stack(own.replace(rows=rows, frequency=frequency))
