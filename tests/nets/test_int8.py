"""Networks in 8-bit integers."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import rules as go
from gozero.nets import int8, network
from gozero.nets.network import NetworkConfig
from gozero.play.networks import network_evaluator

CONFIG = NetworkConfig(blocks=2, channels=16, pool_every=2, auxiliary=True, dtype="int8")


def random_params(config):
    params = network.init(config, jax.random.key(0))
    return jax.tree.map(lambda x: x + jax.random.normal(jax.random.key(1), x.shape) / 8, params)


def test_a_convolution_by_hand():
    """On one point and one channel, where only the kernel's centre matters."""
    kernel = np.zeros((3, 3, 1, 2), np.float32)
    kernel[1, 1, 0] = 0.5, -2.0  # quantized to 127 and -127
    conv = {"kernel": jnp.asarray(kernel), "bias": jnp.asarray([0.0, 1.0])}
    quantized = int8.quantized(conv, jnp.float32(2.54))  # 50 steps to 1

    np.testing.assert_array_equal(quantized["kernel"][1, 1, 0], [127, -127])
    np.testing.assert_allclose(quantized["per_unit"], 50.0)
    module = int8.Int8Conv(1, 2)
    for name, value in quantized.items():
        getattr(module, name)[...] = value
    for x, counts in ((1.0, 1.0), (1.009, 1.0), (3.0, 2.54)):  # exact; rounded; clipped
        out = module(jnp.full((1, 1, 1, 1), x, jnp.float32))
        expected = [0.5 * counts, 1.0 - 2.0 * counts]
        np.testing.assert_allclose(out.astype(jnp.float32)[0, 0, 0], expected, rtol=2**-8)


def test_a_layer_without_inputs_adds_its_bias():
    """If all inputs of the calibration are 0 after the ReLU, larger ones are clipped to about 0."""
    conv = {"kernel": jnp.ones((3, 3, 1, 2)).at[..., 1].set(0.0), "bias": jnp.asarray([0.5, 1.0])}
    module = int8.Int8Conv(1, 2)
    for name, value in int8.quantized(conv, jnp.float32(0.0)).items():
        getattr(module, name)[...] = value
    for x in (0.0, 3.0):
        out = module(jnp.full((1, 1, 1, 1), x, jnp.float32))
        np.testing.assert_array_equal(out.astype(jnp.float32)[0, 0, 0], [0.5, 1.0])


def test_the_tpu_form_is_exactly_equal():
    rng = np.random.default_rng(0)
    steps = jnp.asarray(rng.integers(-127, 128, (2, 3, 3, 40)), jnp.float32)
    kernel = jnp.asarray(rng.integers(-127, 128, (3, 3, 40, 5)), jnp.int8)
    plain, on_tpu = int8._in_float(steps, kernel), int8._in_int8(steps, kernel)
    np.testing.assert_array_equal(plain, on_tpu)
    assert on_tpu.dtype == jnp.float32


def test_a_quantized_network_is_close_to_the_original():
    config = dataclasses.replace(CONFIG, blocks=4)
    params = random_params(config)
    inputs = jax.random.uniform(jax.random.key(2), (8, 3, 3, config.num_planes))
    known = jax.jit(functools.partial(network.quantized, config))(params, inputs)
    of_floats = dataclasses.replace(config, dtype="float32")

    actual = jax.jit(functools.partial(network.apply, config))(known, inputs)
    expected = jax.jit(functools.partial(network.apply, of_floats))(params, inputs)

    np.testing.assert_allclose(actual.value, expected.value, atol=0.05)
    close = functools.partial(
        np.testing.assert_allclose, atol=0.05 * np.ptp(expected.policy_logits)
    )
    close(actual.policy_logits, expected.policy_logits)
    assert np.abs(actual.value - expected.value).max() > 0, "it is not quantized"
    kernels = [
        known[f"block_{i}"][n]["kernel"].dtype for i in range(4) for n in ("first", "second")
    ]
    assert kernels == [jnp.int8, jnp.int8, jnp.int8, jnp.bfloat16] * 2
    assert network.quantized(config, known, inputs) is known


def test_an_evaluator_quantizes_its_parameters():
    params = random_params(CONFIG)
    prepare = network_evaluator(go.Rules(size=3), CONFIG, params).prepare
    prepared = jax.eval_shape(prepare, params)
    assert prepared["block_0"]["second"]["kernel"].dtype == jnp.int8
    assert jax.tree.structure(params) == jax.tree.structure(network.shapes(CONFIG))
