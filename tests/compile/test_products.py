"""A TPU's mean by a matrix product, and other TPU forms, against the plain ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gozero.compile import ahead, estimate, mode, products


def test_the_mean_of_a_board_is_the_same_by_a_product():
    """For integers, whose sums are exact in any order; the gradient is the same too."""
    board = np.random.default_rng(0).integers(-99, 99, (3, 4, 8, 5))
    x = jnp.asarray(board, jnp.bfloat16)
    run = jax.value_and_grad(lambda x: jnp.sum(jnp.sin(products.mean_of_board(x))))
    assert "conv_general_dilated" not in str(jax.make_jaxpr(run)(x))
    value, gradient = run(x)
    with mode.target("tpu"):
        assert "conv_general_dilated" in str(jax.make_jaxpr(run)(x))
        mean = products.mean_of_board(x)
        by_product, its_gradient = run(x)
        in_f32 = str(jax.make_jaxpr(products.mean_of_board)(x.astype(jnp.float32)))
    np.testing.assert_array_equal(mean, (board.sum((1, 2)) / 32).astype(np.float32))
    assert by_product == value
    np.testing.assert_array_equal(gradient, its_gradient)
    assert "conv_general_dilated" not in in_f32  # a product would round f32 numbers


def test_a_barrier_changes_neither_value_nor_gradient():
    run = jax.value_and_grad(lambda x: jnp.sum(products.fusion_barrier(x) ** 2))
    x = jnp.arange(4.0)
    assert "optimization_barrier" not in str(jax.make_jaxpr(run)(x))
    value, gradient = run(x)
    with mode.target("tpu"):
        assert "optimization_barrier" in str(jax.make_jaxpr(run)(x))
        kept, its_gradient = run(x)
    assert kept == value
    np.testing.assert_array_equal(gradient, its_gradient)


def blocks(kernels, x):
    conv = lambda x, kernel: lax.conv_general_dilated(
        jax.nn.relu(x), kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    for first, second in zip(kernels[::2], kernels[1::2], strict=True):
        x = x + conv(products.fusion_barrier(conv(x, first)), second)
    return x


def chain(layers, x):
    return products.apply_layers(lambda layer, x: jnp.sin(x * layer), layers, x)


@pytest.mark.parametrize(
    ("platform", "runs_once", "number", "is_loop"),
    [
        ("tpu", True, 6, True),
        ("tpu", False, 6, False),
        ("tpu", True, 4, False),
        ("gpu", True, 6, False),
    ],
)
def test_layers_are_a_loop_within_fast_compile(platform, runs_once, number, is_loop, monkeypatch):
    """sin(... sin(7 sin(8 sin(9 x)))): the result shows the order of the layers."""
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    layers, x = [jnp.float32(9 - i) for i in range(number)], jnp.float32(0.5)
    expected = x
    for layer in layers:
        expected = jnp.sin(expected * layer)
    run = mode.fast_compile()(chain) if runs_once else chain
    with mode.target(platform):
        assert ("scan" in str(jax.make_jaxpr(run)(layers, x))) == is_loop
        assert run(layers, x) == pytest.approx(float(expected), abs=1e-6)


@pytest.fixture
def v5e():
    """The v5e target; skips where its compiler is missing."""
    target = ahead.target("v5e")
    try:
        target.devices  # noqa: B018
    except ahead.MissingCompiler as error:
        pytest.skip(str(error))
    return target


@pytest.mark.slow
def test_a_loop_of_layers_compiles_faster_for_a_v5e(v5e):
    """By processor time; if this fails, the trick should be removed."""
    shape = lambda *axes: jax.ShapeDtypeStruct(axes, jnp.bfloat16)
    layers, x = [[shape(3, 3, 64, 64)] * 2] * 6, shape(1024, 9, 9, 64)
    run = lambda layers, x: products.apply_layers(blocks, layers, x)
    runs_once = lambda layers, x: mode.fast_compile()(run)(layers, x)
    seconds = lambda run: ahead.compile(v5e, run, layers, x).compile_cpu_seconds
    assert seconds(run) > 1.3 * seconds(runs_once)


@pytest.mark.slow
def test_separate_convolutions_run_faster_on_a_v5e(monkeypatch, v5e):
    """By the compiler's estimate; if this fails, the trick should be removed."""
    shape = lambda *axes: jax.ShapeDtypeStruct(axes, jnp.bfloat16)
    kernels, x = [shape(3, 3, 64, 64)] * 4, shape(1024, 9, 9, 64)

    def seconds():
        loop = lambda kernels, x: lax.fori_loop(0, 4, lambda _, x: blocks(kernels, x), x)
        return estimate.read(ahead.compile(v5e, loop, kernels, x).text, v5e.chip).seconds

    separate = seconds()
    monkeypatch.setenv(mode.VARIABLE, "plain")
    assert seconds() > 1.1 * separate
