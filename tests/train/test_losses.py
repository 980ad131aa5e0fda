"""The losses, against NumPy and worked by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from train import losses


def numpy_cross_entropy(logits, legal, target):
    exp = np.where(legal, np.exp(logits.astype(np.float64)), 0)
    p = exp / exp.sum()
    return -sum(t * np.log(q) for t, q in zip(target, p, strict=True) if t > 0)


@pytest.mark.parametrize("seed", range(5))
def test_cross_entropy_is_the_formula(seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, 26).astype(np.float32)
    legal = rng.random(26) < 0.6
    legal[-1] = True
    target = np.where(legal & (rng.random(26) < 0.5), rng.random(26), 0)
    target[-1] += 0.1
    target = (target / target.sum()).astype(np.float32)
    ours = losses.policy_cross_entropy(*map(jnp.asarray, (logits, legal, target)))
    np.testing.assert_allclose(ours, numpy_cross_entropy(logits, legal, target), rtol=1e-5)
    assert ours >= losses.entropy(jnp.asarray(target)) - 1e-5


def test_illegal_actions_take_no_part():
    legal = jnp.array([True, False, True])
    target = jnp.array([0.5, 0.0, 0.5])
    loss = losses.policy_cross_entropy(jnp.array([0.0, 50.0, 0.0]), legal, target)
    np.testing.assert_allclose(loss, np.log(2), rtol=1e-6)


def test_gradients_are_finite_and_spare_illegal_actions():
    legal = jnp.array([True, False, True, False])
    target = jnp.array([1.0, 0.0, 0.0, 0.0])
    for logits in (jnp.zeros(4), jnp.array([-80.0, 80.0, 80.0, 0.0])):
        gradient = jax.grad(losses.policy_cross_entropy)(logits, legal, target)
        assert np.isfinite(gradient).all()
        np.testing.assert_array_equal(gradient[~legal], 0)


def test_the_minimum_is_at_the_target():
    target = jnp.array([0.7, 0.2, 0.1])
    logits, legal = jnp.log(target), jnp.ones(3, bool)
    np.testing.assert_allclose(
        losses.policy_cross_entropy(logits, legal, target), losses.entropy(target), rtol=1e-5
    )
    gradient = jax.grad(losses.policy_cross_entropy)(logits, legal, target)
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


def test_value_error_by_hand():
    assert losses.value_squared_error(jnp.float32(-0.5), jnp.float32(1)) == 2.25
    assert losses.entropy(jnp.array([1.0, 0.0])) == 0
