"""Boards as arrays: single points, lowest points, counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import bitboard as bb
from gozero.go import stacked


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


@pytest.mark.parametrize("size", [2, 5, 9, 19, 25])
def test_the_board_of_each_point_and_its_four_sides(size):
    lay = bb.layout(size)
    points = np.arange(-1, size * size + 1)
    boards = stacked.at(lay, jnp.asarray(points, jnp.int32))
    assert boards.shape == (lay.num_words, len(points))
    unpack = jax.jit(jax.vmap(lambda words: bb.unpack(lay, stacked.unstack(words))))
    np.testing.assert_array_equal(
        unpack(boards.T), points[:, None] == np.arange(size * size)[None, :]
    )
    # The points whose west, east, north, south neighbour it is.
    row, col = points // size, points % size
    is_point = (points >= 0) & (points < size * size)
    sides = ((0, 1), (0, -1), (1, 0), (-1, 0))
    for (down, right), found in zip(sides, stacked.on_sides(lay, boards), strict=True):
        expected = np.zeros((len(points), size, size), bool)
        on_board = is_point & (row + down >= 0) & (row + down < size)
        on_board &= (col + right >= 0) & (col + right < size)
        games = np.flatnonzero(on_board)
        expected[games, row[games] + down, col[games] + right] = True
        found = unpack((found & stacked.full(lay)).T)
        np.testing.assert_array_equal(found, expected.reshape(len(points), -1))


def test_counting_points():
    boards = np.random.default_rng(0).integers(0, 2**32, (3, 4, 5), dtype=np.uint32)
    np.testing.assert_array_equal(stacked.count(boards), np.bitwise_count(boards).sum(axis=1))
