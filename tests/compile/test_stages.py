"""Kernels and fusion barriers: their errors, and that they change no result."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import indexing, mode, stages


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


def test_once_does_not_change_the_result():
    stage = lambda pair: (pair[0] * 2, pair[0].sum())
    for numbers in (jnp.arange(5), jnp.full(5, jnp.uint32(2**32 - 1)), jnp.zeros(0, jnp.int32)):
        doubled, total = jax.jit(lambda x: stages.once(stage, (x,)))(numbers)
        np.testing.assert_array_equal(doubled, numbers * 2)
        assert total == numbers.sum()


def written(found, more, sorts=False):
    """Write numbers at places, some out of range; part of `more` is unused."""
    array, places = found
    numbers = jnp.sort(more["numbers"]) if sorts else more["numbers"]
    if mode.writes_sequentially():
        return indexing.write_sequentially(array, places, numbers), numbers.sum()
    return array.at[places].set(numbers, mode="drop"), numbers.sum()


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="kernels of XLA:CPU")
@pytest.mark.parametrize("sorts", [False, True])
def test_a_step_is_one_kernel_if_all_operations_are_supported(sorts):
    array, places = np.zeros((4, 3), np.int32), (np.array([3, 9, 0, 1]), np.array([2, 0, 7, 1]))
    more = {"numbers": np.array([8, 5, 6, 7], np.int32), "key": jax.random.key(0)}  # constants
    stage = functools.partial(written, sorts=sorts)
    run = jax.jit(lambda *found: stages.step_kernel(stage, found, more, word=found[0]))
    new, total = run(array, places)
    expected = array.copy()
    expected[3, 2], expected[1, 1] = (5, 8) if sorts else (8, 7)
    np.testing.assert_array_equal(new, expected)
    assert total == 26
    assert ("xla_cpu_small_call" in run.lower(array, places).as_text()) != sorts


@pytest.mark.parametrize("constant", [0, 5, -1, False, True, 0.0, -2.5, np.inf, np.nan])
def test_no_constant_is_left(constant):
    """Nor of zeros: XLA drops a choice between equal constants, and aborts on what remains."""
    hide = jax.jit(lambda word: stages.not_constant(jnp.asarray(constant), word))
    word = jnp.arange(3)
    np.testing.assert_array_equal(hide(word), constant)
    compiled = hide.lower(word).compile().as_text()
    assert "ROOT %constant" not in compiled
    assert "copy(%constant" not in compiled
    unhidden = jax.jit(lambda word: jnp.asarray(constant)).lower(word).compile().as_text()
    assert "constant" in unhidden.split("ENTRY")[1]


def test_sequential_writes_can_add():
    add = functools.partial(indexing.write_sequentially, adds=True)
    result = jax.jit(add)(np.arange(3.0), (np.array([2, 3, 0, 2]),), np.array([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(result, [3.0, 1.0, 7.0])
