"""The replay buffer: the newest rows of finished games, in a ring on the device.

Batches are drawn from a window of the newest rows. The window grows with the rows seen so far:
early rows, by an untrained network, leave it soon, later ones stay longer.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gozero import struct
from gozero.compile import indexing, mode
from gozero.go import symmetry
from gozero.play.rows import FREQUENCY_UNIT, MAX_FREQUENCY, PolicyDtype, Rows, row_shapes
from gozero.runs import settings
from gozero.runs.settings import setting
from gozero.search.game import Game

MAX_ADDED = 2**30
"""Rows seen are counted up to here; every window is full by then."""


@dataclasses.dataclass(frozen=True)
class Window:
    """How many of the newest rows are learnt from, by the rows N that have been added in all.

    Wu (2019), appendix C: c (1 + beta ((N / c)^alpha - 1) / alpha),
    and N up to c. An exponent of 1 is linear growth, beta rows for each one added.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    least: int = setting(250_000, least=1)
    """c: the newest rows that are learnt from at first; the window grows with what is played."""

    exponent: float = setting(0.75, above=0, most=1)
    """alpha: the window grows as this power of the rows played."""

    scale: float = setting(0.4, least=0, most=1)
    """beta: rows of the window for each one played, as it begins to grow."""

    def __post_init__(self):
        settings.check(self)

    def __call__(self, added: jax.Array) -> jax.Array:
        """i32[]: the rows of the window when i32[] rows have been added."""
        ratio = jnp.maximum(added / self.least, 1.0)
        growth = self.scale * (ratio**self.exponent - 1.0) / self.exponent
        grown = jnp.minimum(self.least * (1.0 + growth), MAX_ADDED).astype(jnp.int32)
        return jnp.minimum(added, grown)


@dataclasses.dataclass(frozen=True)
class BufferConfig:
    """Static settings.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    capacity: int = setting(least=1, most=MAX_ADDED)
    """Positions that the replay holds, on each device."""

    window: Window = Window()
    reuse: float = setting(4.0, above=0)
    """How often a position is learnt from, on average at most."""

    min_rows: int = setting(1, least=1, most="capacity")
    """Positions before the first is learnt from."""

    surprise: float = setting(0.0, least=0, most=1)
    """The share of a position's frequency that goes by how far its search came from the network's
    policy; 0 draws all alike, KataGo takes 0.5."""

    policy_dtype: PolicyDtype = setting("uint8")
    """Of policy targets in the replay and in workers' shards: uint8 are 255ths of the largest."""

    history: int = setting(0, least=0)
    """H: boards before each position that are kept, as its planes look at them."""

    def __post_init__(self):
        settings.check(self)
        most = (2**31 - 1) // (4 * FREQUENCY_UNIT)
        if self.surprise and self.capacity > most:
            raise ValueError(
                f"--capacity {self.capacity}: the frequencies of these rows have no exact sum; "
                f"expected at most {most}, or --surprise 0"
            )


class Buffer(struct.PyTreeNode):
    """The ring. Slots from `cursor` - `size` on hold rows, the oldest first."""

    rows: Rows  # [C]
    frequency: jax.Array | None  # i32[C], in FREQUENCY_UNITs; None: all alike
    cursor: jax.Array  # i32[]: where the next row goes
    size: jax.Array  # i32[]: rows in it, C at most
    added: jax.Array  # i32[]: rows added in all, MAX_ADDED at most
    owed: jax.Array  # i32[]: rows that have not been learnt from as often as they may


def start(game: Game, config: BufferConfig) -> Buffer:
    """An empty buffer; give its shapes to `jax.eval_shape` to allocate nothing."""
    blank = lambda x: jnp.zeros((config.capacity, *x.shape), x.dtype)
    return Buffer(
        rows=jax.tree.map(blank, row_shapes(game, config.policy_dtype, config.history)),
        frequency=jnp.zeros(config.capacity, jnp.int32) if config.surprise else None,
        cursor=jnp.int32(0),
        size=jnp.int32(0),
        added=jnp.int32(0),
        owed=jnp.int32(0),
    )


def of_rows(rows: Rows) -> tuple[BufferConfig, Buffer]:
    """A full buffer of rows [C], of which all are drawn alike."""
    count = jnp.int32(rows.num_rows)
    config = BufferConfig(int(count), Window(int(count)))
    return config, Buffer(rows, None, jnp.int32(0), count, count, count)


def add(
    config: BufferConfig, buffer: Buffer, rows: Rows, frequency: jax.Array, keep: jax.Array
) -> Buffer:
    """Write rows after the newest, over the oldest.

    Args:
      config: the settings.
      buffer: the ring.
      rows: [n], n at most the capacity.
      frequency: f32[n], how often each is to be drawn; 1 is as any other.
      keep: bool[n], those of them to write.
    """
    new: dict[str, Any] = {"rows": rows}
    if buffer.frequency is not None:
        parts = jnp.round(jnp.minimum(frequency, MAX_FREQUENCY) * FREQUENCY_UNIT)
        new["frequency"] = parts
    ring = {name: getattr(buffer, name) for name in new}
    args = ring, new, buffer.cursor, keep
    total = indexing.how_many(keep)
    return buffer.replace(
        **mode.by_platform(*args, tpu=_write_in_blocks, default=_scatter),
        cursor=(buffer.cursor + total) % config.capacity,
        size=jnp.minimum(buffer.size + total, config.capacity),
        added=jnp.minimum(buffer.added + total, MAX_ADDED),
        owed=jnp.minimum(buffer.owed + total, config.capacity),
    )


def _scatter(ring: Any, new: Any, cursor: jax.Array, keep: jax.Array) -> Any:
    """Arrays [C, ...] with those of [n, ...] that are kept from the cursor on."""
    count, capacity = keep.shape[0], _length(ring)
    rank = indexing.ranks(keep)
    beyond = capacity + jnp.arange(count, dtype=jnp.int32)  # such are dropped, and all differ
    slot = jnp.where(keep, (cursor + rank) % capacity, beyond)
    return indexing.write_rows(ring, slot, new)


def _write_in_blocks(ring: Any, new: Any, cursor: jax.Array, keep: jax.Array) -> Any:
    """`_scatter` on a TPU: as a block at the cursor, and one at the beginning for what goes round.

    A TPU keeps the C rows last, so that nothing is padded; for a scatter it would copy the whole
    ring to another layout and back, 32 times as large (jaxlib 0.10.1).
    """
    count, capacity = keep.shape[0], _length(ring)
    total = jnp.sum(keep, dtype=jnp.int32)
    start = jnp.minimum(cursor, capacity - count)
    shift = cursor - start  # of the first row in its block: so many go round at most
    i = jnp.arange(count, dtype=jnp.int32)
    order = jnp.argsort(~keep, stable=True)[(i - shift) % count]
    blocks = (start, (i >= shift) & (i - shift < total)), (0, i < shift + total - count)

    def write(all_, new):
        if not all_.size:
            return all_
        new = jnp.moveaxis(new.astype(all_.dtype)[order], 0, -1)
        all_ = indexing.in_this_order(jnp.moveaxis(all_, 0, -1))
        for first, mine in blocks:
            old = lax.dynamic_slice_in_dim(all_, first, count, -1)
            block = jnp.where(mine.reshape((1,) * (new.ndim - 1) + (-1,)), new, old)
            all_ = lax.dynamic_update_slice_in_dim(all_, block, first, -1)
        return jnp.moveaxis(indexing.in_this_order(all_), -1, 0)

    return jax.tree.map(write, ring, new)


def _length(ring: Any) -> int:
    return jax.tree.leaves(ring)[0].shape[0]


def num_live(config: BufferConfig, buffer: Buffer) -> jax.Array:
    """i32[]: rows that are learnt from, the newest of the ring."""
    return jnp.minimum(buffer.size, config.window(buffer.added))


def draw(
    config: BufferConfig, buffer: Buffer, key: jax.Array, batch_size: int
) -> tuple[Rows, jax.Array]:
    """Rows of the window, with replacement, and a symmetry for each.

    Of an empty buffer they mean nothing; `steps_due` is 0 then. With frequencies a draw sums over
    the ring once, whatever the batch.

    Returns:
      (rows [n], symmetries i32[n]).
    """
    row_key, turn_key = jax.random.split(key)
    live = num_live(config, buffer)
    oldest = (buffer.cursor - live) % config.capacity
    if buffer.frequency is None:
        ago = jax.random.randint(row_key, (batch_size,), 0, jnp.maximum(live, 1))
        slot = (oldest + ago) % config.capacity
    else:
        slot = _by_frequency(buffer.frequency, oldest, live, row_key, batch_size)
    turns = jax.random.randint(turn_key, (batch_size,), 0, symmetry.NUM_SYMMETRIES)
    return jax.tree.map(lambda x: indexing.take(x, slot), buffer.rows), turns


def _by_frequency(frequency, oldest, live, key, batch_size) -> jax.Array:
    """i32[n]: slots, drawn in proportion to i32[C]: where a number falls among their sums."""
    capacity = frequency.shape[0]
    upto = jnp.cumsum(frequency, dtype=jnp.int32)  # of slots 0 .. i
    before = upto[oldest] - frequency[oldest]  # of slots 0 .. oldest - 1
    end = oldest + live
    last = upto[(end - 1) % capacity]
    in_window = jnp.where(end > capacity, upto[-1] - before + last, last - before)
    ticket = before + jax.random.randint(key, (batch_size,), 0, jnp.maximum(in_window, 1))
    wrapped = jnp.where(ticket >= upto[-1], ticket - upto[-1], ticket)
    slot = jnp.searchsorted(upto, wrapped, side="right").astype(jnp.int32)
    return jnp.minimum(slot, capacity - 1)


def steps_due(config: BufferConfig, buffer: Buffer, batch_size: int) -> jax.Array:
    """i32[]: learner steps of a batch that may be taken now.

    A row that came in may be drawn `reuse` times on average. What was not taken is owed, up to the
    capacity: rows that have left the ring are forgiven.
    """
    steps = jnp.floor(buffer.owed * (config.reuse / batch_size)).astype(jnp.int32)
    return jnp.where(buffer.size >= config.min_rows, steps, 0)


def pay(config: BufferConfig, buffer: Buffer, batch_size: int, num_steps: jax.Array) -> Buffer:
    """The buffer after so many learner steps, i32[], `steps_due` at most."""
    rows = jnp.ceil(num_steps * (batch_size / config.reuse)).astype(jnp.int32)
    return buffer.replace(owed=jnp.maximum(buffer.owed - rows, 0))


def spread(config: BufferConfig, surprise: jax.Array, keep: jax.Array) -> jax.Array:
    """How often the rows of one game are to be drawn, 1 on average.

    Policy surprise weighting ("Other Methods Implemented in KataGo"): of the frequency a share goes
    to all rows alike, and the rest in proportion to KL(target || prior).

    Args:
      config: the settings.
      surprise: f32[T], the divergences.
      keep: bool[T], rows that there are.

    Returns:
      f32[T].
    """
    told = jnp.where(keep, jnp.maximum(surprise, 0.0), 0.0)
    total, number = jnp.sum(told), jnp.sum(keep)
    relative = jnp.where(total > 0, told * number / jnp.where(total > 0, total, 1.0), 1.0)
    return jnp.where(keep, (1 - config.surprise) + config.surprise * relative, 1.0)
