"""Boards that grow word by word until nothing changes, in a small kernel of a GPU (Triton).

`lane_loop` holds every word of a state in registers and repeats its code for each: of 19x19 Triton
compiles that for most of a minute. Here the words lie in memory, and one piece of code goes down
and up them. A program has 32 games of one plane; each of its lanes reads and writes its own game.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_GAMES = 32  # of a program: a warp


class Growth(NamedTuple):
    """How words grow; all of vectors u32[...]."""

    from_above: Callable  # (the word above, its south joints) -> what comes down
    from_below: Callable  # (the word below, the south joints of this) -> what comes up
    grow: Callable  # (points of the word, the word, its east and its south joints) -> the word


def run(
    growth: Growth, points: Sequence[Any], seeds: jax.Array, east: jax.Array, south: jax.Array
) -> jax.Array:
    """The boards u32[P, W, B] when all have settled.

    Args:
      growth: static.
      points: of each of the W words, static.
      seeds: u32[P, W, B].
      east, south: joints u32[1, W, B], or [P, W, B].
    """
    from jax.experimental import pallas as pl  # slow to import, and a CPU needs it not
    from jax.experimental.pallas import triton

    num_planes, num_words, count = seeds.shape
    pad = lambda x: jnp.pad(x, ((0, 0), (0, 0), (0, -count % _GAMES)))
    arrays = [pad(x) for x in (seeds, east, south)]

    def spec(x):
        return pl.BlockSpec((1, num_words, _GAMES), lambda i, p: (p * (len(x) > 1), 0, i))

    whole = pl.BlockSpec((num_words,), lambda i, p: (0,))
    out = pl.pallas_call(
        lambda *refs: _kernel(growth, *refs),
        out_shape=jax.ShapeDtypeStruct(arrays[0].shape, seeds.dtype),
        grid=(arrays[0].shape[2] // _GAMES, num_planes),
        in_specs=[whole, *map(spec, arrays)],
        out_specs=spec(arrays[0]),
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
    )(jnp.asarray(points, jnp.uint32), *arrays)
    return out[:, :, :count]


def _kernel(growth: Growth, points: Any, seeds: Any, east: Any, south: Any, out: Any) -> None:
    num_words = points.shape[0]
    none = jnp.zeros(_GAMES, jnp.uint32)

    def grown(w, word, arriving, changed):
        new = growth.grow(points[w], word | arriving, east[0, w], south[0, w])
        out[0, w] = new
        return new, changed | (new ^ word)

    def down(w, carry):
        arriving, changed = carry
        new, changed = grown(w, out[0, w], arriving, changed)
        return growth.from_above(new, south[0, w]), changed

    def up(i, carry):
        below, changed = carry
        w = num_words - 2 - i
        return grown(w, out[0, w], growth.from_below(below, south[0, w]), changed)

    def sweep(_):
        _, changed = lax.fori_loop(0, num_words, down, (none, none))
        _, changed = lax.fori_loop(0, num_words - 1, up, (out[0, num_words - 1], changed))
        return jnp.max((changed != np.uint32(0)).astype(jnp.int32))

    def copy(w, carry):
        out[0, w] = seeds[0, w]
        return carry

    lax.fori_loop(0, num_words, copy, jnp.int32(0))
    lax.while_loop(lambda changed: changed > 0, sweep, jnp.int32(1))
