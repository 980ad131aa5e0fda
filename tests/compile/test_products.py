"""A TPU's mean by a product of matrices beside the plain one."""

import jax
import jax.numpy as jnp
import numpy as np

from gozero.compile import mode, products


def test_the_mean_of_a_board_is_the_same_by_a_product():
    """Of whole numbers: their sums are exact in any order. And its gradient is the plain one."""
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
