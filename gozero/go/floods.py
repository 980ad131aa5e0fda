"""Flood fill on boards of `bitboard`: stones grow along their chains until nothing changes.

These functions see the batch: all games grow in one loop with one scalar predicate for the batch,
so nothing that the loop carries is selected or copied (invariant 2).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import batching, mode
from gozero.compile.kernels import lane_loop
from gozero.go import bitboard as bb
from gozero.go import stacked

_STEPS_AT_ONCE = 3  # growth steps of all words between two checks for convergence


def frontier(
    lay: bb.Layout, x: bb.AnyBoard, joined: tuple[bb.AnyBoard, bb.AnyBoard]
) -> bb.AnyBoard:
    """The stones not in `x` that are joined to one in it; empty once the growth has converged."""
    one = np.uint32(1)
    east, down = joined
    from_above = bb.south(lay, bb.intersection(x, down))
    from_below = bb.intersection(bb.north(lay, x), down)

    def from_all_sides(x, east, above, below):
        return ((x & east) << one) | ((x >> one) & east) | above | below

    reached = bb.each_word(from_all_sides, x, east, from_above, from_below)
    return bb.intersection(reached, bb.complement(lay, x))


def flood(
    lay: bb.Layout, seeds: Sequence[bb.Board], joined: tuple[bb.Board, bb.Board]
) -> tuple[bb.Board, ...]:
    """Grow each seed board along the joints until nothing changes.

    Args:
      lay: the layout.
      seeds: P boards; each grows on its own.
      joined: (east, south) as `bitboard.joints` returns them; the union of both colours' joints
        grows black seeds through black stones and white seeds through white ones at once.

    Returns:
      P boards.

    Under ``vmap`` all games grow together until the last has converged, as one array
    [P, W, games]: a loop whose predicate is one scalar for the batch, so nothing carried
    is selected or copied. Trip bound: size^2 sweeps, for the longest possible chain.
    """
    return _flood(lay)(tuple(seeds), joined)


@functools.cache
def _flood(lay: bb.Layout) -> Callable:
    def grow(seeds, joined):
        """Words of any common shape [...] -> words of that shape; an array [P, W, ...] inside."""
        grown = grow_stacked(
            lay,
            jnp.stack([jnp.stack(board) for board in seeds]),
            jnp.stack(joined[0])[None],
            jnp.stack(joined[1])[None],
        )
        return tuple(tuple(grown[p, w] for w in range(lay.num_words)) for p in range(len(seeds)))

    return batching.over_games(grow)


def grow_stacked(lay: bb.Layout, seeds: jax.Array, east: jax.Array, south: jax.Array) -> jax.Array:
    """`flood` on arrays, for code that sees the batch: games are the last axes.

    Seeds are u32[P, W, ...]; joints u32[1, W, ...], or [P, W, ...] where the planes' joints differ.
    Returns u32[P, W, ...].
    """
    if mode.inside_kernel():
        return _grow_by_sweeps(lay, seeds, east, south)
    default, args = functools.partial(_grow_together, lay), (seeds, east, south)
    if mode.plain() or mode.backend() == "cpu":
        return default(*args)
    kernels = {"cuda": functools.partial(_grow_in_kernel, lay, "cuda")}
    if _num_words(args) <= _MAX_WORDS:
        kernels["tpu"] = functools.partial(_grow_in_kernel, lay, "tpu")
    return mode.by_platform(*args, default=default, **kernels)


def _grow_together(lay: bb.Layout, seeds: jax.Array, east: jax.Array, south: jax.Array):
    """Grow all games step by step until nothing changes in any of them."""

    def step(carry):
        x = grow_some(lay, carry[0], east, south, 1)
        return x, jnp.any(_is_growing(lay, x, east, south))

    return lax.while_loop(lambda carry: carry[1], step, (seeds, jnp.bool_(True)))[0]


_MAX_WORDS = 128
"""The most words per game that a kernel holds in registers, or close to them."""


def _num_words(state: Sequence[jax.Array]) -> int:
    return sum(x.shape[0] * x.shape[1] for x in state)


def _grow_in_kernel(lay: bb.Layout, platform: str, seeds, east, south) -> jax.Array:
    """As `_grow_together`, in one kernel of a TPU or GPU, where each block of games stops alone.

    If a game has many words, each of its planes becomes a lane.
    """
    state = seeds, east, south
    if by_plane := _num_words(state) > _MAX_WORDS:
        state = tuple(jnp.moveaxis(jnp.broadcast_to(x, seeds.shape), 0, 1)[None] for x in state)

    def is_growing(state):
        planes = _is_growing(lay, *state)
        return functools.reduce(lambda a, b: a | b, [planes[p] for p in range(planes.shape[0])])

    def advance(state):
        x, east, south = state
        return _sweep_stacked(lay, x, east, south), east, south

    flat = tuple(x.reshape(*x.shape[:2], -1) for x in state)
    grown = lane_loop.run(is_growing, advance, flat, platform)[0].reshape(state[0].shape)
    return jnp.moveaxis(grown[0], 1, 0) if by_plane else grown


def _grow_by_sweeps(lay: bb.Layout, seeds, east, south) -> jax.Array:
    """As `_grow_together`, inside a kernel, where all words are in registers."""
    is_growing = lambda x: jnp.any(_is_growing(lay, x, east, south))
    return lax.while_loop(is_growing, lambda x: _sweep_stacked(lay, x, east, south), seeds)


def _sweep_stacked(lay: bb.Layout, x: jax.Array, east: jax.Array, south: jax.Array) -> jax.Array:
    grown = sweep(lay, _words(lay, x), (_words(lay, east), _words(lay, south)))
    return jnp.stack(grown, axis=1)


def _words(lay: bb.Layout, x: jax.Array) -> bb.Board:
    """u32[P, W, ...] -> W words [P, ...]."""
    return tuple(x[:, w] for w in range(lay.num_words))


def _is_growing(lay: bb.Layout, x: jax.Array, east: jax.Array, south: jax.Array) -> jax.Array:
    """bool[P, ...]: whether each plane would grow further."""
    if stacked.is_array(lay, x):
        x, east, south = (jnp.moveaxis(a, 1, 0) for a in (x, east, south))
        return bb.any_of(frontier(lay, x, (east, south)))
    return bb.any_of(frontier(lay, _words(lay, x), (_words(lay, east), _words(lay, south))))


def grow_some(
    lay: bb.Layout, seeds: jax.Array, east: jax.Array, south: jax.Array, sweeps: int
) -> jax.Array:
    """As `grow_stacked`, but only so many sweeps; how far one sweep grows depends on the platform.

    A CPU goes through the words one by one, down the board and up again, and each word grows from
    the updated one before it: growth along a column crosses the board in one sweep. Elsewhere many
    small steps cost more than they save, so all words grow at once.
    """

    def repeated(sweep):
        return lambda x, east, south: lax.fori_loop(
            0, sweeps, lambda _, x: sweep(lay, x, east, south), x
        )

    return mode.by_platform(
        seeds, east, south, cpu=repeated(_sweep_by_word), default=repeated(_sweep_at_once)
    )


def _sweep_by_word(lay: bb.Layout, x, east, south):
    last, several_rows, full = lay.num_words - 1, lay.rows_per_word > 1, jnp.asarray(lay.full)
    word_of = functools.partial(lax.dynamic_index_in_dim, axis=1, keepdims=False)

    def grown(x, w, arriving):
        word, joined = word_of(x, w) | arriving, (word_of(east, w), word_of(south, w))
        for _ in range(2 if several_rows else 1):
            word = grow_word(lay, lax.dynamic_index_in_dim(full, w, keepdims=False), word, *joined)
        return lax.dynamic_update_index_in_dim(x, word, w, 1)

    def from_above(w, x):
        arriving = word_of(x, w - 1) & word_of(south, w - 1)
        return grown(x, w, arriving >> lay.last_row_shift if several_rows else arriving)

    def from_below(i, x):
        w = last - 1 - i
        arriving = word_of(x, w + 1)
        arriving = arriving << lay.last_row_shift if several_rows else arriving
        return grown(x, w, arriving & word_of(south, w))

    x = grown(x, 0, np.uint32(0))
    x = lax.fori_loop(1, last + 1, from_above, x)
    return lax.fori_loop(0, last, from_below, x)


def grow_word(lay: bb.Layout, full, x, east, south):
    """u32[...]: a word grown east to the end, west by a point or two, and across its rows.

    Growth east takes one addition: the carry runs along the joints and stops at the first stone
    that is not joined to the next.

    Args:
      lay: the layout.
      full: the word's points on the board.
      x: the word to grow, a subset of the stones that the joints connect.
      east, south: the word's stones that are joined to their east, south neighbour.
    """
    one, stride = np.uint32(1), np.uint32(lay.stride)
    x = x | (((x & east) + east) ^ east)
    x = x | ((x >> one) & east)
    if lay.rows_per_word == 1:
        return x | ((x >> one) & east)
    x = x | (((x & south) << stride) & full)
    return x | ((x >> stride) & south)


def sweep(lay: bb.Layout, x: bb.Board, joined: tuple[bb.Board, bb.Board]) -> bb.Board:
    """Grow `x` along the joints, from word to word down the board and up again.

    Each word uses the updated value of the one before it (Gauss-Seidel), so growth along a column,
    or east along a row, crosses the board in one sweep. Growth west gains a point or two per visit.
    """
    (east, south), words = joined, list(x)
    several_rows = lay.rows_per_word > 1

    def grown(w, word):
        return grow_word(lay, lay.full[w], word, east[w], south[w])

    for w in range(lay.num_words):
        if w > 0:
            down = words[w - 1] & south[w - 1]
            words[w] = words[w] | (down >> lay.last_row_shift if several_rows else down)
        words[w] = grown(w, words[w])
    for w in reversed(range(lay.num_words - 1)):
        up = words[w + 1] << lay.last_row_shift if several_rows else words[w + 1]
        words[w] = grown(w, words[w] | (up & south[w]))
    return tuple(words)


def _sweep_at_once(lay: bb.Layout, x, east, south):
    one, stride, rest = np.uint32(1), np.uint32(lay.stride), lay.last_row_shift
    full = np.array(lay.full, np.uint32).reshape(1, -1, *[1] * (x.ndim - 2))

    def previous_word(x):
        return jnp.concatenate([jnp.zeros_like(x[:, :1]), x[:, :-1]], axis=1)

    def next_word(x):
        return jnp.concatenate([x[:, 1:], jnp.zeros_like(x[:, :1])], axis=1)

    for _ in range(_STEPS_AT_ONCE):
        joined_down = x & south
        grown = x | ((x & east) << one) | ((x >> one) & east)
        if lay.rows_per_word == 1:
            x = grown | previous_word(joined_down) | (next_word(x) & south)
            continue
        moved_down, moved_up = joined_down << stride, x >> stride
        if lay.num_words > 1:
            moved_down = moved_down | (previous_word(joined_down) >> rest)
            moved_up = moved_up | (next_word(x) << rest)
        x = (grown | moved_down | (moved_up & south)) & full
    return x
