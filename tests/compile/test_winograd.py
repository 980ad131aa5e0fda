"""Winograd convolutions, with fewer products, against XLA's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gozero.compile import mode, winograd


def by_convolution(x, kernel):
    axes = ("NHWC", "HWIO", "NHWC")
    highest = lax.Precision.HIGHEST
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=axes, precision=highest
    )


@jax.jit
def by_tiles(x, kernel):
    taps, kernel = kernel.shape[0], winograd.transform_kernel(kernel, x.shape[1:3])
    return winograd.convolve(x, kernel, taps)


@jax.jit
def side_by_side(x, kernel):
    """As `by_tiles`, with the channels of all boards side by side."""
    boards = jnp.moveaxis(x, 0, 2)
    made = by_tiles(boards.reshape(1, *boards.shape[:2], -1), kernel)
    return jnp.moveaxis(made.reshape(*boards.shape[:3], -1), 2, 0)


def test_the_smallest_tile_is_winograds():
    """F(2, 3) worked by hand, at points 0, 1 and -1: 4 products give 2 outputs of a 3-tap filter.

    d = 1, 2, 3, 4 and g = 1, 10, 100: 1 + 20 + 300 and 2 + 30 + 400.
    """
    out, kernel, seen = winograd._matrices(2)
    np.testing.assert_array_equal(out, [[1, 1, 1, 0], [0, 1, -1, 1]])
    np.testing.assert_array_equal(kernel, [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    np.testing.assert_array_equal(seen, [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]])
    products = (kernel @ [1, 10, 100]) * (seen @ [1, 2, 3, 4])
    np.testing.assert_array_equal(products, [-2, 277.5, 45.5, 200])
    np.testing.assert_array_equal(out @ products, [321, 432])


@pytest.mark.parametrize(
    ("tile", "taps"), [(tile, 3) for tile in winograd._TILES] + [(2, 5), (3, 5)]
)
def test_every_tile_filters(tile, taps):
    out, kernel, seen = (m.astype(np.float64) for m in winograd._matrices(tile, taps))
    rng = np.random.default_rng(tile)
    d, g = rng.normal(size=tile + taps - 1), rng.normal(size=taps)
    expected = [d[i : i + taps] @ g for i in range(tile)]
    np.testing.assert_allclose(out @ ((kernel @ g) * (seen @ d)), expected, atol=1e-6)


def test_tiles_are_those_of_the_fewest_products():
    """9 = 3 + 3 + 3; 5 + 5 needs slightly fewer products, not worth its rounding errors."""
    axes = [winograd.Axis(size) for size in (3, 7, 9, 13, 19)]
    assert [axis.tile for axis in axes] == [3, 4, 3, 5, 4]
    assert [axis.tiles for axis in axes] == [1, 2, 3, 3, 5]
    assert winograd.transform_kernel(jnp.zeros((3, 3, 2, 7)), (6, 7)).shape == (5, 6, 2, 7)
    wide = [winograd.Axis(size, 5) for size in (3, 9, 13, 19)]
    assert [axis.tile for axis in wide] == [3, 3, 3, 3]
    assert winograd.transform_kernel(jnp.zeros((5, 5, 2, 7)), (9, 2)).shape == (7, 6, 2, 7)


SIZES = [(3, 3), (5, 5), (7, 7), (9, 9), (13, 13), (19, 19), (6, 7)]
OTHERS = [(size, size) for size in range(3, 26) if (size, size) not in SIZES]


@pytest.mark.parametrize(
    "board", SIZES + [pytest.param(board, marks=pytest.mark.thorough) for board in OTHERS]
)
def test_it_is_the_convolution(board):
    """To 6e-6 of the largest number, with the same zero padding at the edges."""
    x = jax.random.normal(jax.random.key(0), (3, *board, 8))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 8, 5))
    expected = np.asarray(by_convolution(x, kernel))
    close = functools.partial(np.testing.assert_allclose, atol=6e-6 * np.abs(expected).max())
    close(by_tiles(x, kernel), expected)
    close(side_by_side(x, kernel), expected)


@pytest.mark.parametrize("board", [(3, 3), (9, 9), (6, 7), (19, 19)])
def test_it_is_the_convolution_of_5x5(board):
    """To 6e-6 of the largest number."""
    x = jax.random.normal(jax.random.key(0), (3, *board, 8))
    kernel = jax.random.normal(jax.random.key(1), (5, 5, 8, 5))
    expected = np.asarray(by_convolution(x, kernel))
    np.testing.assert_allclose(by_tiles(x, kernel), expected, atol=6e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("board", "taps"), [((9, 9), 3), ((6, 7), 3), ((3, 3), 5), ((6, 7), 5), ((9, 2), 5)]
)
@pytest.mark.parametrize("form", [by_tiles, side_by_side])
def test_its_gradients_are_those_of_the_convolution(board, taps, form):
    """To 6e-6 of the largest number, whether or not the last tile extends beyond the board."""
    x = jax.random.normal(jax.random.key(0), (3, *board, 8))
    kernel = jax.random.normal(jax.random.key(1), (taps, taps, 8, 5))
    weights = jax.random.normal(jax.random.key(2), (3, *board, 5))
    gradients = lambda form: jax.grad(lambda *of: jnp.sum(weights * form(*of)), argnums=(0, 1))
    expected = gradients(by_convolution)(x, kernel)
    for got, right in zip(gradients(form)(x, kernel), expected, strict=True):
        most = float(np.abs(right).max())
        np.testing.assert_allclose(got, right, atol=6e-6 * most)


def test_slices_divide_the_positions_and_keep_within_the_cache(monkeypatch):
    """On 9x9 a position has 225 products for each of 64 channels, 57,600 bytes: 54 positions fit
    3 MiB, and 9 fit 512 KiB."""
    number = lambda count: winograd.num_slices(count, (9, 9), 64)
    monkeypatch.setattr(mode, "cores_of_a_device", lambda: 2)
    assert [number(count) for count in (32, 64, 100, 256)] == [1, 2, 2, 8]
    assert number(97) == 97  # a prime
    monkeypatch.setattr(mode, "cores_of_a_device", lambda: 1)
    assert [number(count) for count in (8, 32, 100, 256)] == [1, 4, 20, 32]


def test_slices_to_learn_have_enough_rows(monkeypatch):
    """On 9x9 a position has 9 tiles, so 15 positions have 128 rows; on 19x19 25 tiles and 6."""
    slices = functools.partial(winograd.num_gradient_slices, dtype=jnp.dtype("float32"))
    monkeypatch.setattr(mode, "cores_of_a_device", lambda: 1)
    assert slices(128, (9, 9), 32) == 8  # 18 positions fit 512 KiB
    assert slices(128, (9, 9), 64) == 8  # 9 do
    assert slices(128, (19, 19), 64) == 16
    assert slices(97, (9, 9), 64) == 1  # a prime
    assert slices(128, (9, 9), 24) == slices(16, (9, 9), 64) == 0
    monkeypatch.setattr(mode, "cores_of_a_device", lambda: 2)
    assert slices(256, (9, 9), 32) == 4
    assert slices(256, (9, 9), 32, dtype=jnp.dtype("bfloat16")) == 4  # in f32
    assert slices(256, (9, 9), 32, dtype=jnp.dtype("int8")) == 0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"count": 16}, False),
        ({"count": 97}, False),  # a prime: slices of single positions only
        ({"channels": 16, "count": 256}, False),
        ({"channels": 32, "count": 256}, True),
        ({"channels": 128, "count": 32}, True),
        ({"dtype": jnp.dtype("bfloat16")}, True),
        ({"dtype": jnp.dtype("int8")}, False),
        ({"board": (2, 2)}, False),
        ({"count": 1, "has_kernels": True}, True),
        ({"count": 97, "has_kernels": True}, True),
        ({"count": 15, "channels": 32, "has_kernels": True}, False),
        ({"count": 16, "channels": 32, "has_kernels": True}, True),
        ({"channels": 16, "has_kernels": True}, False),
        ({"count": 1, "board": (7, 7), "channels": 256, "has_kernels": True}, False),  # 4 tiles
        ({"count": 2, "board": (7, 7), "channels": 256, "has_kernels": True}, True),
    ],
)
def test_when_it_is_faster(changes, expected, monkeypatch):
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    given = {"count": 64, "board": (9, 9), "channels": 64, "dtype": jnp.dtype("float32")}
    given |= {"has_kernels": False, **changes}
    with mode.target("cpu"):
        assert winograd.is_faster(**given) == expected


@pytest.mark.parametrize(
    ("size", "most"),
    [(9, 0.013), (7, 0.02), pytest.param(19, 0.02, marks=pytest.mark.thorough), (13, 0.045)],
)
def test_products_of_bf16_round_more_the_larger_the_tile(size, most):
    """Tiles of 3, 4, 4 and 5 points. The mean error, relative to the mean of the output."""
    x = jax.random.normal(jax.random.key(0), (4, size, size, 32))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 32, 16))
    exact = by_convolution(x, kernel)
    tiles = winograd.transform_kernel(kernel, (size, size)).astype(jnp.bfloat16)
    output = winograd.convolve(x, tiles)
    assert output.dtype == jnp.float32
    error = float(jnp.abs(output - exact).mean() / jnp.abs(exact).mean())
    assert most / 3 < error < most


@pytest.mark.parametrize(
    ("features", "expected"),
    [("flags : avx512f avx512_bf16", "bfloat16"), ("flags : avx512f", "float32"), ("", "float32")],
)
def test_products_are_bf16_only_where_the_processor_has_them(features, expected, monkeypatch):
    monkeypatch.setattr(mode, "processor_features", lambda: features)
    assert winograd.product_dtype(jnp.dtype("bfloat16")) == expected
    assert winograd.product_dtype(jnp.dtype("float32")) == "float32"


def test_it_is_used_for_repeated_evaluations_on_a_cpu(monkeypatch):
    given = 64, (9, 9), 64, jnp.dtype("float32"), False
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    with mode.target("gpu"):
        assert not winograd.is_faster(*given)
    with mode.target("cpu"):
        assert winograd.is_faster(*given)
        assert not mode.fast_compile()(winograd.is_faster)(*given)
        monkeypatch.setenv(mode.VARIABLE, "plain")
        assert not winograd.is_faster(*given)
