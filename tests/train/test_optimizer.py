"""The step size, clipping, decay and the moving average, against their formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from train import optimizer
from train.optimizer import OptimizerConfig

COSINE = OptimizerConfig(0.1, warmup_steps=4, total_steps=20, final_fraction=0.2)


def test_the_step_size_over_the_steps():
    sizes = [float(optimizer.learning_rate(COSINE, step)) for step in range(24)]
    np.testing.assert_allclose(sizes[:4], [0.025, 0.05, 0.075, 0.1], rtol=1e-6)
    np.testing.assert_allclose(sizes[11], (0.1 + 0.02) / 2, rtol=1e-6)  # half way
    np.testing.assert_allclose(sizes[19:], 0.02, rtol=1e-6)  # the last step and beyond
    x = (np.arange(4, 20) - 3) / 16
    np.testing.assert_allclose(sizes[4:20], 0.02 + 0.08 * (1 + np.cos(np.pi * x)) / 2, rtol=1e-5)
    forever = OptimizerConfig(0.1, warmup_steps=2)
    assert [float(optimizer.learning_rate(forever, step)) for step in (0, 1, 10**6)] == [
        pytest.approx(0.05),
        pytest.approx(0.1),
        pytest.approx(0.1),
    ]


def test_the_step_size_by_the_fraction_of_a_run():
    """With workers: however many steps their rows allow."""
    sizes = [float(optimizer.learning_rate(COSINE, step, 0.5)) for step in (3, 10, 1000)]
    np.testing.assert_allclose(sizes, (0.1 + 0.02) / 2, rtol=1e-6)
    warm = float(optimizer.learning_rate(COSINE, 1, 0.0))
    np.testing.assert_allclose(warm, 0.05, rtol=1e-6)
    given = optimizer.make(COSINE, 1.0)
    params = {"kernel": jnp.ones((2, 2))}
    updates, _ = given.update(params, given.init(params), params)
    by_steps = OptimizerConfig(0.02, warmup_steps=4)
    expected = optimizer.make(by_steps)
    same, _ = expected.update(params, expected.init(params), params)
    np.testing.assert_allclose(updates["kernel"], same["kernel"], rtol=1e-5)


def numpy_adamw(config, params, gradients):
    """Loshchilov & Hutter (2019), Algorithm 2, after gradient clipping; beta .9 and .999."""
    first, second = np.zeros_like(params), np.zeros_like(params)
    for t, gradient in enumerate(gradients):
        gradient = gradient * min(1, config.clip_norm / np.linalg.norm(gradient))
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        step = first / (1 - 0.9 ** (t + 1)) / (np.sqrt(second / (1 - 0.999 ** (t + 1))) + 1e-8)
        size = float(optimizer.learning_rate(config, t))
        params = params - size * (step + config.weight_decay * params)
    return params


def test_steps_equal_adamw_with_clipped_gradients():
    config = OptimizerConfig(0.1, 0.3, warmup_steps=2, total_steps=6, clip_norm=1.0)
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(3, 2)), rng.normal(size=(6, 3, 2)) * [[[0.1]]] * 5
    gradients[1] *= 100
    transform = optimizer.make(config)
    params = {"kernel": jnp.float32(start)}
    state = transform.init(params)
    for gradient in gradients:
        updates, state = transform.update({"kernel": jnp.float32(gradient)}, state, params)
        params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(params["kernel"], numpy_adamw(config, start, gradients), rtol=1e-4)


def test_only_kernels_decay():
    transform = optimizer.make(OptimizerConfig(1.0, 0.5, warmup_steps=1))
    params = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}
    zero = jax.tree.map(jnp.zeros_like, params)
    updates, _ = transform.update(zero, transform.init(params), params)
    np.testing.assert_allclose(updates["kernel"], -0.5)
    np.testing.assert_allclose(updates["bias"], 0)


def test_the_average_soon_forgets_its_start():
    config = OptimizerConfig(ema_decay=0.9)
    decays = [float(optimizer.ema_decay(config, jnp.int32(t))) for t in (0, 8, 80, 81, 10**6)]
    np.testing.assert_allclose(decays, [0.1, 0.5, 0.9, 0.9, 0.9], rtol=1e-6)
    mixed = optimizer.average({"x": jnp.zeros(2)}, {"x": jnp.ones(2)}, jnp.float32(0.25))
    np.testing.assert_allclose(mixed["x"], 0.75)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"learning_rate": -1.0}, "--learning-rate -1.0: expected at least 0"),
        ({"weight_decay": float("inf")}, "--weight-decay inf: expected a finite number"),
        ({"warmup_steps": 0}, "--warmup-steps 0: expected at least 1"),
        ({"total_steps": 100}, "--total-steps 100: expected above the 100 of --warmup-steps"),
        ({"final_fraction": 1.5}, "--final-fraction 1.5: expected from 0 to 1"),
        ({"clip_norm": 0.0}, "--clip-norm 0.0: expected above 0"),
        ({"ema_decay": 1.0}, "--ema-decay 1.0: expected from 0 to below 1"),
    ],
)
def test_bad_settings(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        OptimizerConfig(**change)
