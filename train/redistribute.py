"""A run's games and replay, dealt to another number of devices.

A run has as many games in play, and as many rows in its replay, on any number of devices: each has
its part of them (`plan.in_parts`). Here what a checkpoint has of each device, [D, ...], becomes
what each of the new ones is to have, [D', ...]. Lanes stay in their order: they are the same lanes
with the same games, in other parts. Rows are dealt one by one from the newest on, so all rings are
as full and as old as each other. Of the games on record for resigning (`resignation.Records`) a
device has room for a fixed number, and keeps the newest; everything else is kept whole.

All is NumPy's, on the host, but for PRNG keys.
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
"""What device d's key is folded with, plus d, if there was none before: no split of a key gives the
same, for those count from 0."""


def redistribute(playing: Playing, like: Playing) -> Playing:
    """What D devices had, as D' devices go on from it.

    Args:
      playing: arrays [D, ...].
      like: shapes [D', ...]: as many lanes as they have together.

    Raises:
      ValueError: another number of lanes, or other games.
    """
    ours, others = _by_lane(playing), _by_lane(like)
    lanes, games = jax.tree.map(_in_other_parts, ours, others)
    number = like.lanes.next_game.shape[0]
    alike = lambda x: jnp.repeat(x.max(axis=0, keepdims=True), number, axis=0)
    watched, own = lanes.resignation, playing.lanes.resignation
    if own is not None:
        kept: Any = like.lanes.resignation
        watched = watched.replace(
            threshold=alike(own.threshold),
            records=_records(own.records, kept.records),
        )
    lanes = lanes.replace(
        next_game=alike(playing.lanes.next_game),
        moves=alike(playing.lanes.moves),
        key=_keys(playing.lanes.key, number),
        batch_key=jnp.repeat(playing.lanes.batch_key[:1], number),
        resignation=watched,
    )
    games = games.replace(moves=with_policies(games.moves, like.games.moves.policy_target.dtype))
    return Playing(lanes, games, _buffer(playing.buffer, like.buffer))


def place(state: Any, like: Any) -> Any:
    """What lies on the host, whole at each process, as arrays that lie where others are to."""

    def one(x: Any, shape: jax.ShapeDtypeStruct) -> jax.Array:
        if jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(put(np.asarray(jax.random.key_data(x)), shape))
        return put(np.asarray(x), shape)

    put = lambda x, shape: jax.make_array_from_callback(x.shape, shape.sharding, lambda i: x[i])
    return jax.tree.map(one, state, like)


def _by_lane(playing: Playing) -> tuple[Any, Any]:
    """(lanes, games) without what a device has one of."""
    own: Any = dict.fromkeys(("next_game", "moves", "key", "batch_key"))
    watched = playing.lanes.resignation
    if watched is not None:
        own["resignation"] = watched.replace(threshold=None, records=None)
    return playing.lanes.replace(**own), playing.games


def _in_other_parts(x: Any, like: Any) -> Any:
    """[D, B ...] of B lanes each as [D', B' ...]."""
    if x.size != np.prod(like.shape):
        raise ValueError(f"games of {list(x.shape)} are not those of {list(like.shape)}")
    return np.reshape(x, like.shape)


def _keys(keys: jax.Array, number: int) -> jax.Array:
    """The first of some keys, and new ones if there are too few."""
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
        added=np.minimum(_dealt(buffer.added, len(sizes)), MAX_ADDED).astype(np.int32),
        owed=_dealt(buffer.owed, len(sizes)).astype(np.int32),
    )


def _records(records: Any, like: Any) -> resignation.Records:
    capacity = records.ply.shape[1]
    ring = {name: value for name, value in vars(records).items() if name != "count"}
    blank = {"winner_lowest": np.inf, "loser_lowest": np.inf, "ply": resignation.NO_PLY, "wrong": 0}
    there = records.count % capacity, np.minimum(records.count, capacity)
    rings, sizes = _rings(ring, *there, like.ply.shape, blank)
    return resignation.Records(**rings, count=sizes)


def _dealt(numbers: np.ndarray, devices: int) -> Any:
    """Their sum, in as equal parts as can be, the first ones the greater."""
    total = np.sum(numbers, dtype=np.int64)
    return total // devices + (np.arange(devices) < total % devices)


def _rings(
    rings: Any, cursor: np.ndarray, size: np.ndarray, shape: tuple[int, int], blank: Any = None
) -> tuple[Any, Any]:
    """Rings dealt anew, from the newest row of each on.

    Args:
      rings: arrays [D, C, ...].
      cursor: i32[D], where the next row of each goes.
      size: i32[D], rows that there are before it.
      shape: (D', C').
      blank: what slots without a row have, a tree like the rings; None: zeros.

    Returns:
      (the rings [D', C', ...] with the oldest row at 0, i32[D'] rows of each).
    """
    devices, capacity = shape
    old = jax.tree.leaves(rings)[0].shape[1]
    ago, source = (x.reshape(-1) for x in np.indices((old, len(size))))
    there = ago < size[source]
    ago, source = ago[there][: devices * capacity], source[there][: devices * capacity]
    turn = np.arange(len(ago))
    sizes = _dealt(np.asarray(len(ago)), devices).astype(np.int32)
    target = turn % devices
    slot, new_slot = (cursor[source] - 1 - ago) % old, sizes[target] - 1 - turn // devices

    def one(x: np.ndarray, empty: float) -> np.ndarray:
        new = np.full((*shape, *x.shape[2:]), empty, x.dtype)
        if x.size:
            new[target, new_slot] = x[source, slot]
        return new

    return jax.tree.map(one, rings, blank or jax.tree.map(lambda _: 0, rings)), sizes
