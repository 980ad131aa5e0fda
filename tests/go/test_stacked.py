"""Stages over the games of a batch: a batch of any size gives what its games give alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import bitboard as bb
from gozero.go import stacked


@pytest.mark.parametrize("games", [1, 2, 32, 33, 80, 128, 129, 300])
def test_a_batch_of_any_size_is_its_games(games):
    rng = np.random.default_rng(games)
    a = rng.integers(0, 2**32, (games, 3, 2), dtype=np.uint32)
    b = rng.integers(0, 2**32, (games,), dtype=np.uint32)
    stage = stacked.over_games(lambda a, b, one: (a + (b * one)[None, None], {"b": b ^ one}))
    product, rest = jax.vmap(stage, in_axes=(0, 0, None))(a, b, np.uint32(3))
    np.testing.assert_array_equal(product, a + b[:, None, None] * np.uint32(3))
    np.testing.assert_array_equal(rest["b"], b ^ np.uint32(3))


@pytest.mark.parametrize("size", [5, 19])
def test_the_lowest_point_of_each_board(size):
    lay = bb.layout(size)
    rng = np.random.default_rng(size)
    points = rng.random((40, lay.num_points)) < np.linspace(0, 0.2, 40)[:, None]
    boards = jnp.stack(jax.vmap(lambda mask: bb.pack(lay, mask))(points))
    lowest = np.asarray(stacked.lowest_point(boards))
    for game, mask in enumerate(points):
        expected = np.zeros(lay.num_points, bool)
        expected[np.flatnonzero(mask)[:1]] = True
        found = bb.unpack(lay, tuple(jnp.asarray(lowest[:, game])))
        np.testing.assert_array_equal(found, expected)
