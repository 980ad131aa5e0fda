"""Kernels and fusion barriers: what they refuse, and that they change nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import stages


def test_one_kernel_refuses_a_single_array():
    with pytest.raises(ValueError, match="return two or more"):
        jax.jit(lambda x: stages.one_kernel(lambda x: x + 1, x))(jnp.zeros(3))


def test_one_kernel_refuses_an_argument_it_does_not_use():
    kernel = lambda a, b: (a["x"] + 1, a["x"] * b[0])
    numbers = jnp.arange(3)
    run = jax.jit(lambda *args: stages.one_kernel(kernel, *args))
    plus, times = run({"x": numbers}, (numbers,))
    np.testing.assert_array_equal(plus, numbers + 1)
    np.testing.assert_array_equal(times, numbers**2)
    with pytest.raises(ValueError, match=r"does not use args\[0\]\['y'\], args\[1\]\[1\]"):
        run({"x": numbers, "y": numbers}, (numbers, numbers))


def test_what_is_computed_once_is_what_it_is():
    stage = lambda pair: (pair[0] * 2, pair[0].sum())
    for numbers in (jnp.arange(5), jnp.full(5, jnp.uint32(2**32 - 1)), jnp.zeros(0, jnp.int32)):
        doubled, total = jax.jit(lambda x: stages.once(stage, (x,)))(numbers)
        np.testing.assert_array_equal(doubled, numbers * 2)
        assert total == numbers.sum()
