"""Redistributes a run's games and replay to another number of devices.

A run has the same number of games in play, and of rows in its replay, on any number of devices:
each device has a part of them (`plan.in_parts`). Here the arrays of a checkpoint, [D, ...], become
those of the new devices, [D', ...]. Lanes stay in order, and keep their games. Rows are dealt to
the devices in turn, beginning with the newest, so all rings are equally full and equally old. The
record of games for resigning (`resignation.Records`) has a fixed size on each device and keeps the
newest games; nothing else is lost.

All arrays are NumPy's, on the host, except PRNG keys.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.play import resignation
from gozero.play.rows import with_policies
from train.buffer import MAX_ADDED, Buffer
from train.games import Playing

NEW_KEYS = 0x6B657973
"""A device d without a key gets one folded with this plus d. No split of a key gives the same,
because splits count from 0."""


def redistribute(playing: Playing, like: Playing) -> Playing:
    """The state with which D' devices continue from the state of D devices.

    Args:
      playing: arrays [D, ...].
      like: shapes [D', ...], with the same number of lanes in all.

    Raises:
      ValueError: the number of lanes or the games differ.
    """
    old_by_lane, new_by_lane = _by_lane(playing), _by_lane(like)
    lanes, games = jax.tree.map(_in_other_parts, old_by_lane, new_by_lane)
    num_devices = like.lanes.next_game.shape[0]
    copied = lambda x: jnp.repeat(x.max(axis=0, keepdims=True), num_devices, axis=0)
    resign, old_resign = lanes.resignation, playing.lanes.resignation
    if old_resign is not None:
        new_resign: Any = like.lanes.resignation
        resign = resign.replace(
            threshold=copied(old_resign.threshold),
            records=_records(old_resign.records, new_resign.records),
        )
    lanes = lanes.replace(
        next_game=copied(playing.lanes.next_game),
        moves=copied(playing.lanes.moves),
        key=_keys(playing.lanes.key, num_devices),
        batch_key=jnp.repeat(playing.lanes.batch_key[:1], num_devices),
        resignation=resign,
    )
    games = games.replace(moves=with_policies(games.moves, like.games.moves.policy_target.dtype))
    return Playing(lanes, games, _buffer(playing.buffer, like.buffer))


def place(state: Any, like: Any) -> Any:
    """Host arrays, complete in each process, as device arrays with the shardings of `like`."""

    def one(x: Any, shape: jax.ShapeDtypeStruct) -> jax.Array:
        if jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(put(np.asarray(jax.random.key_data(x)), shape))
        return put(np.asarray(x), shape)

    put = lambda x, shape: jax.make_array_from_callback(x.shape, shape.sharding, lambda i: x[i])
    return jax.tree.map(one, state, like)


def _by_lane(playing: Playing) -> tuple[Any, Any]:
    """(lanes, games) without the arrays that have one entry per device rather than per lane."""
    per_device: Any = dict.fromkeys(("next_game", "moves", "key", "batch_key"))
    resign = playing.lanes.resignation
    if resign is not None:
        per_device["resignation"] = resign.replace(threshold=None, records=None)
    return playing.lanes.replace(**per_device), playing.games


def _in_other_parts(x: Any, like: Any) -> Any:
    """An array [D, B, ...] of B lanes per device, as [D', B', ...]."""
    if x.size != np.prod(like.shape):
        raise ValueError(f"games of shape {list(x.shape)} cannot be divided as {list(like.shape)}")
    return np.reshape(x, like.shape)


def _keys(keys: jax.Array, number: int) -> jax.Array:
    """The first `number` of some keys, with new ones if there are too few."""
    new = [jax.random.fold_in(keys[d % len(keys)], NEW_KEYS + d) for d in range(len(keys), number)]
    return jnp.stack([*keys[:number], *new])


def _buffer(buffer: Any, like: Any) -> Buffer:
    rows = with_policies(buffer.rows, like.rows.policy_target.dtype)
    ring = {"rows": rows, "frequency": buffer.frequency}
    rings, sizes = _rings(ring, buffer.cursor, buffer.size, like.rows.game.shape)
    return Buffer(
        **rings,
        cursor=sizes % like.rows.game.shape[1],
        size=sizes,
        added=np.minimum(_divided_evenly(buffer.added, len(sizes)), MAX_ADDED).astype(np.int32),
        owed=_divided_evenly(buffer.owed, len(sizes)).astype(np.int32),
    )


def _records(records: Any, like: Any) -> resignation.Records:
    capacity = records.ply.shape[1]
    ring = {name: value for name, value in vars(records).items() if name != "count"}
    blank = {"winner_lowest": np.inf, "loser_lowest": np.inf, "ply": resignation.NO_PLY, "wrong": 0}
    ends = records.count % capacity, np.minimum(records.count, capacity)
    rings, sizes = _rings(ring, *ends, like.ply.shape, blank)
    return resignation.Records(**rings, count=sizes)


def _divided_evenly(numbers: np.ndarray, devices: int) -> Any:
    """i64[devices]: the sum of some numbers divided as evenly as possible, larger parts first."""
    total = np.sum(numbers, dtype=np.int64)
    return total // devices + (np.arange(devices) < total % devices)


def _rings(
    rings: Any, cursor: np.ndarray, size: np.ndarray, shape: tuple[int, int], blank: Any = None
) -> tuple[Any, Any]:
    """Redistribute rings, beginning with the newest row of each.

    Args:
      rings: arrays [D, C, ...].
      cursor: i32[D], where the next row of each goes.
      size: i32[D], the number of rows before it.
      shape: (D', C').
      blank: the values of slots without a row, a tree like the rings; None: zeros.

    Returns:
      (the rings [D', C', ...] with the oldest row at 0, i32[D'] the number of rows in each).
    """
    devices, capacity = shape
    old_capacity = jax.tree.leaves(rings)[0].shape[1]
    ago, source = (x.reshape(-1) for x in np.indices((old_capacity, len(size))))
    is_row = ago < size[source]
    ago, source = ago[is_row][: devices * capacity], source[is_row][: devices * capacity]
    turn = np.arange(len(ago))
    sizes = _divided_evenly(np.asarray(len(ago)), devices).astype(np.int32)
    target = turn % devices
    slot, new_slot = (cursor[source] - 1 - ago) % old_capacity, sizes[target] - 1 - turn // devices

    def one(x: np.ndarray, empty: float) -> np.ndarray:
        new = np.full((*shape, *x.shape[2:]), empty, x.dtype)
        if x.size:
            new[target, new_slot] = x[source, slot]
        return new

    return jax.tree.map(one, rings, blank or jax.tree.map(lambda _: 0, rings)), sizes
