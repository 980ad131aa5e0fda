"""Boards of words against sets of points."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gozero.go import bitboard as bb
from gozero.go import floods

SIZES = (2, 5, 9, 16, 19, 25)


def random_mask(size, seed, fill=0.5):
    return np.random.RandomState(seed).rand(size * size) < fill


def grid_neighbours(size, mask):
    grid = np.pad(mask.reshape(size, size), 1)
    near = grid[:-2, 1:-1] | grid[2:, 1:-1] | grid[1:-1, :-2] | grid[1:-1, 2:]
    return near.reshape(-1)


def grow(size, seeds, mask):
    """Points of the mask connected to a seed inside it."""
    grown = seeds & mask
    while True:
        wider = grown | (grid_neighbours(size, grown) & mask)
        if (wider == grown).all():
            return grown
        grown = wider


@pytest.mark.parametrize("size", range(2, 26))
def test_layout_has_a_guard_bit_after_each_row(size):
    lay = bb.layout(size)
    assert lay.rows_per_word * lay.stride <= bb.WORD_BITS
    assert lay.num_words == -(-size // lay.rows_per_word)
    assert sum(int(word).bit_count() for word in lay.full) == size * size
    assert sum(int(word).bit_count() for word in lay.edge) == size**2 - max(size - 2, 0) ** 2


@pytest.mark.parametrize("size", SIZES)
def test_pack_unpack_and_counts(size):
    lay = bb.layout(size)
    mask = random_mask(size, size)
    board = bb.pack(lay, mask)
    np.testing.assert_array_equal(bb.unpack(lay, board), mask)
    assert int(bb.count(board)) == mask.sum()
    np.testing.assert_array_equal(bb.unpack(lay, bb.complement(lay, board)), ~mask)


@pytest.mark.parametrize("size", SIZES)
def test_points(size):
    lay = bb.layout(size)
    for point in (0, size - 1, size, size * size - 1):
        board = bb.at(lay, jnp.int32(point))
        assert np.flatnonzero(bb.unpack(lay, board)).tolist() == [point]
        assert int(bb.point_of(lay, board)) == point
    for nothing in (size * size, bb.NO_POINT):
        assert not bool(bb.any_of(bb.at(lay, jnp.int32(nothing))))
    assert int(bb.point_of(lay, bb.empty(lay))) == bb.NO_POINT


@pytest.mark.parametrize("size", SIZES)
def test_neighbours(size):
    lay = bb.layout(size)
    mask = random_mask(size, size + 2, 0.3)
    result = bb.unpack(lay, bb.neighbours(lay, bb.pack(lay, mask)))
    np.testing.assert_array_equal(result, grid_neighbours(size, mask))


@pytest.mark.parametrize("size", SIZES)
def test_flood_alone_and_under_vmap(size):
    lay = bb.layout(size)
    masks = np.stack([random_mask(size, seed, 0.6) for seed in range(6)])
    seeds = np.stack([random_mask(size, 50 + seed, 0.1) for seed in range(6)])

    def flood(seed, mask):
        board = bb.pack(lay, mask)
        start = bb.intersection(bb.pack(lay, seed), board)
        (grown,) = floods.flood(lay, [start], bb.joints(lay, board))
        return bb.unpack(lay, grown)

    together = jax.jit(jax.vmap(flood))(seeds, masks)
    for seed, mask, got in zip(seeds, masks, together, strict=True):
        np.testing.assert_array_equal(got, grow(size, seed, mask))
    np.testing.assert_array_equal(jax.jit(flood)(seeds[0], masks[0]), together[0])


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**25 - 1), st.integers(0, 2**25 - 1))
def test_sets_of_points(a_bits, b_bits):
    lay = bb.layout(5)
    a = np.array([a_bits >> i & 1 for i in range(25)], bool)
    b = np.array([b_bits >> i & 1 for i in range(25)], bool)
    x, y = bb.pack(lay, a), bb.pack(lay, b)
    for board, mask in (
        (bb.union(x, y), a | b),
        (bb.intersection(x, y), a & b),
        (bb.difference(x, y), a & ~b),
        (bb.union_all([x, y, x]), a | b),
    ):
        np.testing.assert_array_equal(bb.unpack(lay, board), mask)
    assert bool(bb.any_of(x)) == a.any()
