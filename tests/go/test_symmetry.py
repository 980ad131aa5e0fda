"""Each map of the board and its inverse, alone and against the rules."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import symmetry

SIZES = (2, 5, 9)
ALL = jnp.arange(symmetry.NUM_SYMMETRIES)


@pytest.mark.parametrize("size", SIZES)
def test_each_map_then_its_inverse_is_the_identity(size):
    points, actions = jnp.arange(size**2), jnp.arange(size**2 + 1)
    planes = jax.random.normal(jax.random.key(0), (size, size, 3))

    def both_ways(k):
        one = (
            (points, symmetry.map_point),
            (actions, symmetry.map_action),
            (points * 1.5, symmetry.map_points),
            (actions * 1.5, symmetry.map_actions),
        )
        back = symmetry.inverse(k)
        round_tripped = [move(size, move(size, x, k), back) for x, move in one]
        reverse_round_tripped = [move(size, move(size, x, back), k) for x, move in one]
        turned = symmetry.map_planes(symmetry.map_planes(planes, k), back)
        return round_tripped, reverse_round_tripped, turned

    for k in ALL:
        for moved in both_ways(k)[:2]:
            for got, want in zip(
                moved, (points, actions, points * 1.5, actions * 1.5), strict=True
            ):
                np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(both_ways(k)[2], planes)


@pytest.mark.parametrize("size", SIZES)
def test_one_point_moves_as_a_row_and_as_a_plane_do(size):
    values = jnp.arange(size**2 + 1) * 10.0
    planes = values[:-1].reshape(size, size, 1)
    for k in ALL:
        moved = symmetry.map_actions(size, values, k)
        points = symmetry.map_points(size, values[:-1], k)
        np.testing.assert_array_equal(points, moved[:-1])
        np.testing.assert_array_equal(symmetry.map_planes(planes, k).reshape(-1), points)
        actions = jnp.arange(size**2 + 1)
        np.testing.assert_array_equal(moved[symmetry.map_action(size, actions, k)], values)
        assert int(symmetry.map_action(size, size**2, k)) == size**2


def test_the_inverse_of_a_symmetry_is_a_symmetry():
    tables, inverses = symmetry.permutations(5), symmetry.inverses(5)
    np.testing.assert_array_equal(tables[np.asarray(symmetry.inverse(ALL))], inverses)


def test_each_symmetry_of_a_small_board():
    board = jnp.array([[1, 2], [3, 4]])[..., None]
    drawn = [symmetry.map_planes(board, k)[..., 0].tolist() for k in ALL]
    assert drawn == [
        [[1, 2], [3, 4]],
        [[2, 4], [1, 3]],  # a quarter turn counter-clockwise
        [[4, 3], [2, 1]],
        [[3, 1], [4, 2]],
        [[2, 1], [4, 3]],  # the mirror image, and its quarter turns
        [[1, 3], [2, 4]],
        [[3, 4], [1, 2]],
        [[4, 2], [3, 1]],
    ]
