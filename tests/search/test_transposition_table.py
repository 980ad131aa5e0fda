"""Transposition keys, and the table that finds their nodes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.search import transpositions
from gozero.search import tree as trees
from gozero.search.tree import OptionalArrays


def test_a_hash_depends_on_every_bit():
    rng = np.random.RandomState(0)
    observation = {
        "bool": rng.rand(3, 4) < 0.5,
        "i8": rng.randint(-100, 100, 5).astype(np.int8),
        "u16": rng.randint(0, 2**16, 5).astype(np.uint16),
        "f32": rng.normal(size=(2, 3)).astype(np.float32),
        "bf16": jnp.asarray(rng.normal(size=4), jnp.bfloat16),
        "scalar": np.int32(7),
        "none": np.zeros(0, np.float32),
    }
    hash_of = jax.jit(transpositions.hash_of)
    seen = {tuple(np.asarray(hash_of(observation)).tolist())}
    count = 1
    for name, x in observation.items():
        flat = np.asarray(x).reshape(-1)
        bits = flat.view(np.uint8)
        for place in range(bits.size):
            changed = bits.copy()
            changed[place] ^= 1
            other = changed.view(flat.dtype).reshape(np.shape(x))
            seen.add(tuple(np.asarray(hash_of({**observation, name: other})).tolist()))
            count += 1
    assert len(seen) == count > 60
    # Planes of a board, all with two stones of four: sparse and alike.
    planes = np.zeros((81 * 80, 2, 81), bool)
    pairs = [(a, b) for a in range(81) for b in range(81) if a != b]
    for i, (a, b) in enumerate(pairs):
        planes[i, 0, a] = planes[i, 1, b] = True
    hashes = np.asarray(jax.vmap(transpositions.hash_of)(planes))
    assert len({tuple(h) for h in hashes.tolist()}) == len(pairs)
    for half in hashes.T:  # as a random function of 32 bits: 5 equal pairs expected
        assert len(pairs) - len(set(half.tolist())) < 25
        counts = np.bincount(half & 63, minlength=64)
        assert ((counts - len(pairs) / 64) ** 2 / (len(pairs) / 64)).sum() < 110  # p = 0.0002
    with pytest.raises(ValueError, match="give a key"):
        transpositions.hash_of(np.zeros(2, np.complex64))


def test_a_large_table_finds_each_node_or_an_equal_one():
    capacity, used = 64, np.array([64, 40])
    tree = trees.allocate(jnp.zeros((2, 1), jnp.int32), 2, capacity, OptionalArrays(shared=True))
    keys = np.random.RandomState(1).randint(0, 2**32, (128, 2), np.uint64).astype(np.uint32)
    keys[5] = keys[3]
    keys[7] = 0  # not evaluated
    tree = tree.replace(size=jnp.array(used), shared=tree.shared._replace(key=jnp.array(keys)))
    slots = jax.jit(transpositions.table_of)(tree)
    find = jax.jit(transpositions.look_up)
    actual = np.stack(
        [find(tree, slots, keys[[n, n + 64]]).node for n in range(64)], axis=1
    )  # [tree, n]
    expected = np.where(np.arange(64)[None] < used[:, None], np.arange(64), -1)
    expected[0, [5, 7]] = 3, -1
    forgotten = actual != expected
    assert (actual[forgotten] == -1).all()
    assert forgotten.sum() <= 3
    assert trees.num_slots(64) == 128
    assert trees.num_slots(65) == 256
