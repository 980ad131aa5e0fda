"""The replay buffer: the newest rows of finished games, in a ring on the device.

Batches are drawn from a window of the newest rows, which grows with the number of rows added so
far: early rows, played by an untrained network, soon leave it; later ones stay longer.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero import struct
from gozero.compile import indexing, mode
from gozero.go import symmetry
from gozero.play.rows import FREQUENCY_UNIT, MAX_FREQUENCY, PolicyDtype, Rows, row_shapes
from gozero.runs import settings
from gozero.runs.settings import setting
from gozero.search.game import Game

MAX_ADDED = 2**30
"""The count of rows added saturates here; every window is full by then."""


@dataclasses.dataclass(frozen=True)
class Window:
    """How many of the newest rows are learnt from, as a function of N, the rows added in all.

    Wu (2019), appendix C: c (1 + beta ((N / c)^alpha - 1) / alpha), and all N rows while N <= c.
    An exponent of 1 is linear growth, by beta rows for each row added.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    least: int = setting(250_000, least=1)
    """c: the number of newest rows that are learnt from at first; this window grows as more are
    played."""

    exponent: float = setting(0.75, above=0, most=1)
    """alpha: the window grows with this power of the number of rows played."""

    scale: float = setting(0.4, least=0, most=1)
    """beta: rows by which the window grows for each row played, when it begins to grow."""

    def __post_init__(self):
        settings.check(self)

    def __call__(self, added: jax.Array) -> jax.Array:
        """i32[]: the number of rows in the window once i32[] rows have been added."""
        ratio = jnp.maximum(added / self.least, 1.0)
        growth = self.scale * (ratio**self.exponent - 1.0) / self.exponent
        grown = jnp.minimum(self.least * (1.0 + growth), MAX_ADDED).astype(jnp.int32)
        return jnp.minimum(added, grown)


@dataclasses.dataclass(frozen=True)
class BufferConfig:
    """Static settings of the replay buffer.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    capacity: int = setting(least=1, most=MAX_ADDED)
    """Positions that the replay buffer holds on each device."""

    window: Window = Window()
    reuse: float = setting(4.0, above=0)
    """The most times that a position is learnt from, on average."""

    min_rows: int = setting(1, least=1, most="capacity")
    """Positions that the replay buffer must hold before learning starts."""

    surprise: float = setting(0.0, least=0, most=1)
    """The share of a position's sampling frequency that is proportional to how far its search's
    policy diverged from the network's (with --root puct, from that with the root's noise); 0
    samples all positions alike, KataGo uses 0.5."""

    policy_dtype: PolicyDtype = setting("uint8")
    """The type of policy targets in the replay buffer and in workers' shards; uint8 stores them in
    255ths of the largest."""

    past_boards: int = setting(0, least=0)
    """H: the number of earlier boards stored with each position, for planes that use them."""

    def __post_init__(self):
        settings.check(self)
        limit = (2**31 - 1) // (4 * FREQUENCY_UNIT)
        if self.surprise and self.capacity > limit:
            raise ValueError(
                f"--capacity {self.capacity}: too many rows for --surprise, whose frequencies are "
                f"summed in 32 bits; expected at most {limit}, or --surprise 0"
            )


class Buffer(struct.PyTreeNode):
    """The ring. The `size` slots before `cursor` hold rows, the oldest first."""

    rows: Rows  # [C]
    frequency: jax.Array | None  # i32[C], in FREQUENCY_UNITs; None: all equal
    cursor: jax.Array  # i32[]: where the next row goes
    size: jax.Array  # i32[]: rows in the ring, at most C
    added: jax.Array  # i32[]: rows added in all, at most MAX_ADDED
    owed: jax.Array  # i32[]: rows not yet learnt from as often as `reuse` allows


def start(game: Game, config: BufferConfig) -> Buffer:
    """An empty buffer. Call it in `jax.eval_shape` for its shapes, which allocates nothing."""
    blank = lambda x: jnp.zeros((config.capacity, *x.shape), x.dtype)
    return Buffer(
        rows=jax.tree.map(blank, row_shapes(game, config.policy_dtype, config.past_boards)),
        frequency=jnp.zeros(config.capacity, jnp.int32) if config.surprise else None,
        cursor=jnp.int32(0),
        size=jnp.int32(0),
        added=jnp.int32(0),
        owed=jnp.int32(0),
    )


def of_rows(rows: Rows, frequency: np.ndarray | None = None) -> tuple[BufferConfig, Buffer]:
    """A full buffer.

    Args:
      rows: [C].
      frequency: u16[C], how often each is drawn, relative to the others; None: equally often.
    """
    count = jnp.int32(rows.num_rows)
    config = BufferConfig(int(count), Window(int(count)))
    drawn = None
    if frequency is not None and np.ptp(frequency) > 0:
        drawn = jnp.asarray(_summable(frequency))
    return config, Buffer(rows, drawn, jnp.int32(0), count, count, count)


def _summable(frequency: np.ndarray) -> np.ndarray:
    """i32[C]: the frequencies, in larger units if their sum would need more than 32 bits."""
    unit = max(1.0, frequency.sum(dtype=np.int64) / (2**31 - 1 - frequency.size))
    return np.ceil(frequency / unit).astype(np.int32)


def add(
    config: BufferConfig, buffer: Buffer, rows: Rows, frequency: jax.Array, keep: jax.Array
) -> Buffer:
    """Write rows after the newest ones, over the oldest ones.

    Args:
      config: the settings.
      buffer: the ring.
      rows: [n], n at most the capacity.
      frequency: f32[n], how often each is to be drawn, relative to 1 for an average row.
      keep: bool[n], which of them to write.
    """
    new: dict[str, Any] = {"rows": rows}
    if buffer.frequency is not None:
        parts = jnp.round(jnp.minimum(frequency, MAX_FREQUENCY) * FREQUENCY_UNIT)
        new["frequency"] = parts
    ring = {name: getattr(buffer, name) for name in new}
    args = ring, new, buffer.cursor, keep
    total = indexing.count_true(keep)
    return buffer.replace(
        **mode.by_platform(*args, tpu=_write_in_blocks, default=_scatter),
        cursor=(buffer.cursor + total) % config.capacity,
        size=jnp.minimum(buffer.size + total, config.capacity),
        added=jnp.minimum(buffer.added + total, MAX_ADDED),
        owed=jnp.minimum(buffer.owed + total, config.capacity),
    )


def _scatter(ring: Any, new: Any, cursor: jax.Array, keep: jax.Array) -> Any:
    """The arrays [C, ...], with the kept rows of [n, ...] written from the cursor on."""
    count, capacity = keep.shape[0], _length(ring)
    rank = indexing.ranks(keep)
    beyond = capacity + jnp.arange(count, dtype=jnp.int32)  # dropped; indices stay unique
    slot = jnp.where(keep, (cursor + rank) % capacity, beyond)
    return indexing.write_rows(ring, slot, new)


def _write_in_blocks(ring: Any, new: Any, cursor: jax.Array, keep: jax.Array) -> Any:
    """`_scatter` on a TPU: a block at the cursor, and one at the beginning for rows that wrap.

    A TPU lays out the C rows along the last axis, which avoids padding. For a scatter it would copy
    the whole ring to another layout, 32 times as large, and back (jaxlib 0.10.1).
    """
    count, capacity = keep.shape[0], _length(ring)
    total = jnp.sum(keep, dtype=jnp.int32)
    start = jnp.minimum(cursor, capacity - count)
    shift = cursor - start  # of the first row in its block; at most this many rows wrap
    i = jnp.arange(count, dtype=jnp.int32)
    order = jnp.argsort(~keep, stable=True)[(i - shift) % count]
    blocks = (start, (i >= shift) & (i - shift < total)), (0, i < shift + total - count)

    def write(array, new):
        if not array.size:
            return array
        new = jnp.moveaxis(new.astype(array.dtype)[order], 0, -1)
        array = indexing.in_this_order(jnp.moveaxis(array, 0, -1))
        for first, in_block in blocks:
            old = lax.dynamic_slice_in_dim(array, first, count, -1)
            block = jnp.where(in_block.reshape((1,) * (new.ndim - 1) + (-1,)), new, old)
            array = lax.dynamic_update_slice_in_dim(array, block, first, -1)
        return jnp.moveaxis(indexing.in_this_order(array), -1, 0)

    return jax.tree.map(write, ring, new)


def _length(ring: Any) -> int:
    return jax.tree.leaves(ring)[0].shape[0]


def num_live(config: BufferConfig, buffer: Buffer) -> jax.Array:
    """i32[]: the number of rows in the window: the newest rows of the ring."""
    return jnp.minimum(buffer.size, config.window(buffer.added))


def draw(
    config: BufferConfig,
    buffer: Buffer,
    key: jax.Array,
    batch_size: int,
    num_symmetries: int = symmetry.NUM_SYMMETRIES,
) -> tuple[Rows, jax.Array]:
    """Draw rows of the window, with replacement, and a symmetry for each.

    Rows drawn from an empty buffer are meaningless, but `steps_due` is 0 then. With frequencies,
    each call sums over the ring once, for any batch size.

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
    turns = jax.random.randint(turn_key, (batch_size,), 0, num_symmetries)
    return jax.tree.map(lambda x: indexing.take(x, slot), buffer.rows), turns


def _by_frequency(frequency, oldest, live, key, batch_size) -> jax.Array:
    """i32[n]: slots drawn in proportion to frequency i32[C], by inverting its cumulative sum."""
    capacity = frequency.shape[0]
    cumulative = jnp.cumsum(frequency, dtype=jnp.int32)  # of slots 0 .. i
    before = cumulative[oldest] - frequency[oldest]  # of slots 0 .. oldest - 1
    end = oldest + live
    last = cumulative[(end - 1) % capacity]
    in_window = jnp.where(end > capacity, cumulative[-1] - before + last, last - before)
    ticket = before + jax.random.randint(key, (batch_size,), 0, jnp.maximum(in_window, 1))
    wrapped = jnp.where(ticket >= cumulative[-1], ticket - cumulative[-1], ticket)
    slot = jnp.searchsorted(cumulative, wrapped, side="right").astype(jnp.int32)
    return jnp.minimum(slot, capacity - 1)


def steps_due(config: BufferConfig, buffer: Buffer, batch_size: int) -> jax.Array:
    """i32[]: learner steps, of `batch_size` rows each, that may be taken now.

    Each row added may be drawn `reuse` times on average. Rows that have not been drawn that often
    are owed; at most `capacity` of them, because rows that have left the ring no longer count.
    """
    steps = jnp.floor(buffer.owed * (config.reuse / batch_size)).astype(jnp.int32)
    return jnp.where(buffer.size >= config.min_rows, steps, 0)


def most_steps_due(config: BufferConfig, batch_size: int) -> int:
    """The most that `steps_due` can be: for a ring full of rows that are owed."""
    return int(np.float32(config.capacity) * np.float32(config.reuse / batch_size))


def pay(config: BufferConfig, buffer: Buffer, batch_size: int, num_steps: jax.Array) -> Buffer:
    """The buffer after `num_steps` learner steps, i32[], at most `steps_due`."""
    rows = jnp.ceil(num_steps * (batch_size / config.reuse)).astype(jnp.int32)
    return buffer.replace(owed=jnp.maximum(buffer.owed - rows, 0))


def spread(config: BufferConfig, surprise: jax.Array, keep: jax.Array) -> jax.Array:
    """The relative sampling frequencies of the rows of one game; their mean is 1.

    Policy surprise weighting ("Other Methods Implemented in KataGo"): a share of the frequency,
    1 - `config.surprise`, is divided equally, and the rest in proportion to KL(target || prior).

    Args:
      config: the settings.
      surprise: f32[T], the divergences.
      keep: bool[T], which rows exist.

    Returns:
      f32[T].
    """
    divergence = jnp.where(keep, jnp.maximum(surprise, 0.0), 0.0)
    total, number = jnp.sum(divergence), jnp.sum(keep)
    relative = jnp.where(total > 0, divergence * number / jnp.where(total > 0, total, 1.0), 1.0)
    return jnp.where(keep, (1 - config.surprise) + config.surprise * relative, 1.0)
