"""What the entries of each game's lists come to together, in one small kernel of a GPU (Triton).

As XLA compiles it, each list is a kernel for the entries, one for their union, and more for the
operands. Here a game is a program of a single warp: its lanes take 32 entries at a time, as many
as the game's list has, and none beyond.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile.kernels import by_lane, paths

_AT_ONCE = 32  # entries: a warp


class Listed(NamedTuple):
    """A list of each game. An entry's words are those of `arrays`, and then of `columns`."""

    length: jax.Array  # i32[B]: entries that count
    arrays: Sequence[jax.Array] = ()  # u32[B, T, E] each: read where they are
    columns: Sequence[jax.Array] = ()  # u32[B, T] each: put together with what is known of games


def union(
    points: Callable, num_words: int, game: Sequence[jax.Array], lists: Sequence[Listed]
) -> jax.Array:
    """u32[B, W]: the bits that any entry of the lists has.

    Args:
      points: (u32[K, n], u32[E, n]) -> u32[W, n]: the bits of n entries, by what is known of their
        game and by the words of the entries; elementwise, as `by_lane` takes it.
      num_words: W.
      game: u32[B] each: the K numbers that are known of a game.
      lists: of them.
    """
    num_games, num_entry = game[0].shape[0], _entry_words(lists[0])
    shapes = tuple(jax.ShapeDtypeStruct((n, 1), jnp.uint32) for n in (len(game), num_entry))
    program = by_lane.traced(lambda words: points(*words), shapes)
    lengths = [x.length.astype(jnp.uint32) for x in lists]
    columns = [column for x in lists for column in x.columns]
    packed = jnp.concatenate([x.reshape(num_games, -1) for x in (*game, *lengths, *columns)], 1)
    arrays = [array for x in lists for array in x.arrays]
    kernel = functools.partial(_kernel, program, len(game), lists)
    out = jax.ShapeDtypeStruct((num_games, num_words), jnp.uint32)
    return paths.each_tree(kernel, num_games, [], [packed, *arrays], [out])[0]


def _entry_words(one: Listed) -> int:
    return sum(x.shape[2] for x in one.arrays) + len(one.columns)


def _kernel(program: Any, known: int, lists: Sequence[Listed], packed: Any, *refs: Any) -> None:
    """One game; references to all that is packed, to the arrays of the lists, and to the result."""
    (*arrays, out), b, lane = refs, paths.number(), lax.iota(jnp.int32, _AT_ONCE)
    vector = functools.partial(jnp.full, _AT_ONCE)
    game = by_lane.array_of([vector(packed[b, i]) for i in range(known)], (known,))
    start, bits = known + len(lists), (vector(np.uint32(0)),) * out.shape[1]
    for number, one in enumerate(lists):
        own, arrays = arrays[: len(one.arrays)], arrays[len(one.arrays) :]
        length = packed[b, known + number].astype(jnp.int32)

        def some(i, bits, own=own, one=one, length=length, start=start):
            place = i * _AT_ONCE + lane
            counts = place < length
            of = functools.partial(paths.load, mask=counts)
            words = [of(x, b, place, jnp.int32(k)) for x in own for k in range(x.shape[2])]
            for k, column in enumerate(one.columns):
                words.append(of(packed, b, start + k * column.shape[1] + place))
            entry = by_lane.array_of(words, (len(words),))
            (found,) = by_lane.run(program, [game, entry], lane.shape)
            return tuple(
                old | jnp.where(counts, new, np.uint32(0))
                for old, new in zip(bits, found, strict=True)
            )

        bits = lax.fori_loop(0, (length + _AT_ONCE - 1) >> 5, some, bits)
        start += sum(column.shape[1] for column in one.columns)
    for w, word in enumerate(bits):
        out[b, w] = _of_any_lane(word)


def _of_any_lane(word: jax.Array) -> jax.Array:
    """u32[]: the bits of all lanes. (Triton reduces by sums and maxima only, jax 0.10.1.) One lane
    after another gives what it has; few have anything."""

    def give(carry):
        found, left = carry
        most = jnp.max(left)
        return found | most, left & ~most

    none = jnp.max(word & np.uint32(0))
    return lax.while_loop(lambda carry: jnp.max(carry[1]) > 0, give, (none, word))[0]
