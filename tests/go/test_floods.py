"""Flood fills in a kernel, as on a TPU and a GPU, reach the same stones."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import floods, stacked
from gozero.go import rules as go


@pytest.mark.parametrize(
    ("size", "planes"),
    [
        pytest.param(5, 1, marks=pytest.mark.thorough),
        (9, 4),
        pytest.param(19, 4, marks=pytest.mark.slow),
    ],
)
def test_a_kernel_floods_as_a_loop_over_the_batch(size, planes, monkeypatch):
    lay, games = go.Rules(size=size).layout, 40
    rng = np.random.RandomState(size)
    bits = lambda *shape: rng.randint(0, 2**32, shape, np.uint64).astype(np.uint32)
    full = np.array(lay.full, np.uint32)[:, None]
    stones = (bits(lay.num_words, games) | bits(lay.num_words, games)) & full
    few = bits(planes, lay.num_words, games) & bits(planes, lay.num_words, games)
    seeds = jnp.asarray(few & bits(planes, lay.num_words, games) & stones)
    joints = [x[None] for x in stacked.joints(lay, jnp.asarray(stones))]

    together = jax.jit(functools.partial(floods._grow_together, lay))(seeds, *joints)
    in_kernel = jax.jit(functools.partial(floods._grow_in_kernel, lay, "interpret"))
    np.testing.assert_array_equal(in_kernel(seeds, *joints), together)
    assert (np.asarray(together) != seeds).any()

    monkeypatch.setattr(floods, "_MAX_WORDS", 0)  # each plane in its own lanes
    apart = jax.jit(functools.partial(floods._grow_in_kernel, lay, "interpret-cuda"))
    np.testing.assert_array_equal(apart(seeds, *joints), together)
