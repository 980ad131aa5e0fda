"""Boards as arrays: single points, lowest points, counts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import bitboard as bb
from gozero.go import floods, stacked
from gozero.playouts import playable
from gozero.playouts.policies.mogo import patterns


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
        actual = bb.unpack(lay, tuple(jnp.asarray(lowest[:, game])))
        np.testing.assert_array_equal(actual, expected)


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
    # The points that have it as their west, east, north and south neighbour.
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


@pytest.mark.parametrize("size", [13, 19])  # two rows a word, and one
def test_boards_as_arrays_equal_boards_of_words(size):
    lay = bb.layout(size)
    draw = np.random.RandomState(size)
    full = np.array(lay.full)[:, None]
    a, b = (draw.randint(0, 2**32, (lay.num_words, 3), np.uint32) & full for _ in range(2))
    a[:, 0] = 0
    moves = jnp.asarray([0, 2 * size - 1, size * size - 1])
    rank = jnp.asarray([0, 1, 40], jnp.uint32)

    @functools.partial(jax.jit, static_argnums=2)
    def everything(a, b, as_array):
        move = playable.packed_point(lay, moves)
        some = bb.any_of(b) & (moves > 0)
        boards = [
            *(bb.union(a, b), bb.intersection(a, b), bb.difference(a, b), bb.complement(lay, a)),
            *(*bb.swapped(some, a, b), bb.keep(some, b), bb.south(lay, a), bb.north(lay, a)),
            *(bb.neighbours(lay, a), *bb.joints(lay, a), *bb.joints_of_both(lay, a, b)),
            *(playable.eyes(lay, a, b), floods.frontier(lay, bb.intersection(a, b), (a, b))),
            playable.board_of(lay, move, as_array),
            patterns.board_of_window(lay, move * np.uint32(77), move, as_array),
        ]
        numbers = [bb.any_of(a), bb.count(a), patterns.window(lay, a, move)]
        return [stacked.stack(board) for board in boards], [*numbers, playable.nth(lay, b, rank)]

    actual = everything(jnp.asarray(a), jnp.asarray(b), True)
    expected = everything(tuple(a), tuple(b), False)
    jax.tree.map(np.testing.assert_array_equal, actual, expected)
