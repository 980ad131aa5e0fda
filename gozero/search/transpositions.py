"""Transpositions: positions of a tree that the evaluator sees alike, and their common evaluation.

Silver et al. (2017) share evaluations so in their large instance. What is shared is what the
evaluator said, its logits of all actions and its value, bit by bit; each node has a softmax of its
own over what is legal there, for superko depends on the path.

A node is found by 64 bits of what the evaluator sees, in a hash table of buckets of four. A bucket
that is full forgets one of its nodes, whose next transposition is then evaluated anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.hashing import mix
from gozero.search import rows
from gozero.search import tree as trees
from gozero.search.config import Transpositions
from gozero.search.game import Trail
from gozero.search.tree import NO_NODE, ROOT, Tree

WAYS = 4
"""Nodes in a bucket."""

_SEEDS = (0x9E3779B9, 0x7F4A7C15)


def keys(sharing: Transpositions, contexts, positions, trail: Trail, observations) -> jax.Array:
    """u32[B, 2]: the keys of B positions. That a node has none is said by 0, 0."""
    if sharing.key is None:
        return jax.vmap(hash_of)(observations)
    key = jax.vmap(sharing.key)(contexts, positions, trail)
    # A game's key may be no hash: spread over the table, a pair for a pair.
    high = mix(key[:, 0] ^ np.uint32(_SEEDS[0]))
    low = mix(key[:, 1] ^ np.uint32(_SEEDS[1]) ^ high)
    return jnp.stack([mix(high ^ low), low], axis=1)


def hash_of(observation: Any) -> jax.Array:
    """u32[2]: 64 bits of a pytree of arrays; equal where all bits of all arrays are.

    Each word has a number of its own to be mixed with, and the mixed words are added up.

    Raises:
      ValueError: an array that is not of truth values or real numbers.
    """
    words = jnp.concatenate([_words(x) for x in jax.tree.leaves(observation)])
    place: Any = np.arange(words.size, dtype=np.uint32) * np.uint32(0x85EBCA6B)
    numbers: list[Any] = [mix(place + np.full(1, seed, np.uint32)) for seed in _SEEDS]
    sums = [jnp.sum(mix(words ^ number), dtype=jnp.uint32) for number in numbers]
    low = mix(sums[1])
    return jnp.stack([mix(sums[0] ^ low), low])


def _words(x: jax.Array) -> jax.Array:
    """u32[W]: the bits of an array."""
    x = jnp.asarray(x).reshape(-1)
    if x.dtype == bool:
        return x.astype(jnp.uint32)
    if not (jnp.issubdtype(x.dtype, jnp.integer) or jnp.issubdtype(x.dtype, jnp.floating)):
        raise ValueError(f"observation: no bits to hash in an array of {x.dtype}; give a key")
    size = min(x.dtype.itemsize, 4)
    unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}[size]
    return lax.bitcast_convert_type(x, unsigned).reshape(-1).astype(jnp.uint32)


class Found(NamedTuple):
    """Where B keys are in the tables, or would be."""

    node: jax.Array  # i32[B]: the node of this key; NO_NODE if there is none
    slot: jax.Array  # i32[B]: for a node of this key


def num_slots(capacity: int) -> int:
    """Slots of a tree's table: twice its nodes at least, and a power of two."""
    return max(WAYS, 1 << (2 * capacity - 1).bit_length())


def table(tree: Tree) -> jax.Array:
    """i32[B * num_slots]: empty tables, all NO_NODE.

    Raises:
      ValueError: more slots than an i32 can number.
    """
    count = tree.num_trees * num_slots(tree.capacity)
    if count > trees.MAX_ROWS:
        raise ValueError(f"{tree.num_trees} trees of {tree.capacity} nodes: {count} slots > 2^30")
    return jnp.full(count, NO_NODE, jnp.int32)


def table_of(tree: Tree) -> jax.Array:
    """i32[B * num_slots]: the tables of trees that have been searched before."""
    assert tree.shared is not None
    blank = table(tree)
    node = jnp.tile(jnp.arange(tree.capacity, dtype=jnp.int32), tree.num_trees)
    index = jnp.repeat(jnp.arange(tree.num_trees, dtype=jnp.int32), tree.capacity)
    key = tree.shared.key
    waiting = (node < rows.read(tree.size, index)) & jnp.any(key != 0, axis=1)
    first = _first_slot(tree, index, key)
    slots = jnp.full_like(blank, tree.capacity)
    for way in range(WAYS):
        # The earliest of those that want a place has it; those of its key need none.
        slots = slots.at[jnp.where(waiting, first + way, slots.size)].min(node, mode="drop")
        winner = jnp.minimum(rows.read(slots, first + way), tree.capacity - 1)
        winner_key = rows.read(key, index * tree.capacity + winner)
        waiting &= jnp.any(winner_key != key, axis=1)
    return jnp.where(slots == tree.capacity, NO_NODE, slots)


def _first_slot(tree: Tree, index: jax.Array, key: jax.Array) -> jax.Array:
    """i32[M]: where the buckets of keys u32[M, 2] begin, in the tables of trees i32[M]."""
    count = num_slots(tree.capacity)
    bucket = (key[:, 0] & np.uint32(count // WAYS - 1)).astype(jnp.int32)
    return index * count + bucket * WAYS


def look_up(tree: Tree, slots: jax.Array, key: jax.Array) -> Found:
    """Find keys u32[B, 2], each in its tree's table."""
    assert tree.shared is not None
    first = _first_slot(tree, jnp.arange(tree.num_trees, dtype=jnp.int32), key)
    nodes = rows.read(slots, first[:, None] + jnp.arange(WAYS)[None])
    seen = rows.read(tree.shared.key, tree.row(0)[:, None] + jnp.maximum(nodes, ROOT))
    is_it = (nodes != NO_NODE) & jnp.all(seen == key[:, None], axis=2)
    node = jnp.max(jnp.where(is_it, nodes, NO_NODE), axis=1)
    free = nodes == NO_NODE
    way = jnp.where(
        jnp.any(free, axis=1), jnp.argmax(free, axis=1), key[:, 1] & np.uint32(WAYS - 1)
    )
    return Found(node, first + way.astype(jnp.int32))
