"""The union of the entries of each game's lists, in one small GPU kernel (Triton).

Compiled by XLA, each list takes a kernel for the entries, one for their union, and more for the
operands. Here a game is a program of a single warp: its lanes process 32 entries at a time, up to
the length of the game's list.
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
    """One list for each game. An entry's words are those in `arrays`, then those in `columns`."""

    length: jax.Array  # i32[B]: the number of valid entries
    arrays: Sequence[jax.Array] = ()  # u32[B, T, E] each: read in place
    columns: Sequence[jax.Array] = ()  # u32[B, T] each: packed together with the games' numbers


def union(
    points: Callable, num_words: int, game: Sequence[jax.Array], lists: Sequence[Listed]
) -> jax.Array:
    """u32[B, W]: the bits that are set for any entry of the game's lists.

    Args:
      points: (u32[K, n], u32[E, n]) -> u32[W, n]: the bits of n entries, from the numbers of their
        game and the words of the entries; elementwise, as `by_lane` requires.
      num_words: W.
      game: u32[B] each: the K numbers of a game.
      lists: the lists.
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


def _entry_words(entry_list: Listed) -> int:
    return sum(x.shape[2] for x in entry_list.arrays) + len(entry_list.columns)


def _kernel(
    program: Any, num_game_words: int, lists: Sequence[Listed], packed: Any, *refs: Any
) -> None:
    """One game. References to the packed numbers, to the lists' arrays, and to the result."""
    (*arrays, out), b, lane = refs, paths.number(), lax.iota(jnp.int32, _AT_ONCE)
    vector = functools.partial(jnp.full, _AT_ONCE)
    game = by_lane.array_of(
        [vector(packed[b, i]) for i in range(num_game_words)], (num_game_words,)
    )
    start, bits = num_game_words + len(lists), (vector(np.uint32(0)),) * out.shape[1]
    for number, entry_list in enumerate(lists):
        own_arrays, arrays = arrays[: len(entry_list.arrays)], arrays[len(entry_list.arrays) :]
        length = packed[b, num_game_words + number].astype(jnp.int32)

        def add_chunk(
            i, bits, own_arrays=own_arrays, entry_list=entry_list, length=length, start=start
        ):
            place = i * _AT_ONCE + lane
            counts = place < length
            of = functools.partial(paths.load, mask=counts)
            words = [of(x, b, place, jnp.int32(k)) for x in own_arrays for k in range(x.shape[2])]
            for k, column in enumerate(entry_list.columns):
                words.append(of(packed, b, start + k * column.shape[1] + place))
            entry = by_lane.array_of(words, (len(words),))
            (entry_bits,) = by_lane.run(program, [game, entry], lane.shape)
            return tuple(
                old | jnp.where(counts, new, np.uint32(0))
                for old, new in zip(bits, entry_bits, strict=True)
            )

        bits = lax.fori_loop(0, (length + _AT_ONCE - 1) >> 5, add_chunk, bits)
        start += sum(column.shape[1] for column in entry_list.columns)
    for w, word in enumerate(bits):
        out[b, w] = _of_any_lane(word)


def _of_any_lane(word: jax.Array) -> jax.Array:
    """u32[]: the union of all lanes' bits. (Triton reduces only by sums and maxima, jax 0.10.1.)
    Takes the lane with the largest word again and again; few lanes have any bits."""

    def take_largest(carry):
        bits, remaining = carry
        largest = jnp.max(remaining)
        return bits | largest, remaining & ~largest

    none = jnp.max(word & np.uint32(0))
    return lax.while_loop(lambda carry: jnp.max(carry[1]) > 0, take_largest, (none, word))[0]
