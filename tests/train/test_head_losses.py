"""Losses of ownership and score, and weights of rows: by hand, against NumPy, with gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.nets.network import NetworkOutput
from train import losses
from train.losses import Losses, LossWeights, Targets

OUTPUT = NetworkOutput(
    policy_logits=jnp.array([0.0, np.log(3.0), -2.0]),
    value=jnp.float32(0.5),
    ownership_logits=jnp.array([0.5 * np.log(3.0), 0.0], jnp.float32),
    score=jnp.float32(4.0),
)
LEGAL = jnp.array([True, True, False])
TARGETS = Targets(
    legal=LEGAL,
    policy_target=jnp.array([1.0, 0.0, 0.0]),
    outcome=jnp.float32(-1.0),
    ownership=jnp.array([1, -1], jnp.int8),
    score=jnp.float32(7.0),
)
BY_HAND = Losses(np.log(4), 2.25, (np.log(4 / 3) + np.log(2)) / 2, 4.5)


def test_a_row_by_hand():
    """p = (1/4, 3/4); the mover owns the points with chances 3/4 and 1/2; the score is 3 off."""
    parts, counts = losses.of_row(OUTPUT, TARGETS, score_delta=10.0)
    np.testing.assert_allclose(parts, BY_HAND, rtol=1e-6)
    assert counts == (1, 1, 1, 1)
    total = losses.total(LossWeights(1, 2, 3, 4), parts, counts)
    np.testing.assert_allclose(total, np.dot([1, 2, 3, 4], BY_HAND), rtol=1e-6)


def test_ownership_from_logits():
    np.testing.assert_allclose(OUTPUT.ownership, [0.5, 0.0], rtol=1e-6)  # 2 * 3/4 - 1


def test_large_score_errors_count_linearly():
    for error, expected in ((0, 0), (3, 4.5), (-3, 4.5), (10, 50), (25, 200), (-25, 200)):
        actual = losses.score_huber(jnp.float32(error), jnp.float32(0), 10.0)
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
        gradient = jax.grad(losses.score_huber)(jnp.float32(error), jnp.float32(0), 10.0)
        np.testing.assert_allclose(gradient, np.clip(error, -10, 10))


@pytest.mark.parametrize("seed", range(3))
def test_ownership_is_the_formula_and_so_is_its_gradient(seed):
    rng = np.random.default_rng(seed)
    logits, target = rng.normal(0, 2, 25), rng.uniform(-1, 1, 25)
    target[:10] = rng.integers(-1, 2, 10)
    known = rng.random(25) < 0.7
    owned, odds = (1 + target) / 2, 1 / (1 + np.exp(-2 * logits))
    points = -(owned * np.log(odds) + (1 - owned) * np.log(1 - odds))
    arguments = (jnp.float32(logits), jnp.where(known, jnp.float32(target), jnp.nan), known)
    loss, gradient = jax.value_and_grad(losses.ownership_cross_entropy)(*arguments)
    np.testing.assert_allclose(loss, points[known].mean(), rtol=1e-5)
    expected = np.where(known, 2 * (odds - owned) / known.sum(), 0)
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_ownership_loss_is_finite_for_certain_predictions():
    logits, target = jnp.array([300.0, -300.0]), jnp.array([-1.0, -1.0])
    loss, gradient = jax.value_and_grad(losses.ownership_cross_entropy)(
        logits, target, jnp.ones(2, bool)
    )
    np.testing.assert_allclose(loss, 300)
    np.testing.assert_allclose(gradient, [1, 0])


def test_unknown_ownership_has_no_loss():
    unknown = TARGETS.replace(known=jnp.zeros(2, bool), ownership=jnp.full(2, jnp.nan))
    parts, counts = losses.of_row(OUTPUT, unknown, 10.0)
    assert parts.ownership == counts.ownership == 0


@pytest.mark.parametrize("part", Losses._fields)
def test_targets_of_weight_0_are_ignored(part):
    """A nan target and no legal action leave the other losses and all gradients unchanged."""
    field = {"policy": "policy_target", "value": "outcome"}.get(part, part)
    broken = {field: jnp.full(getattr(TARGETS, field).shape, jnp.nan)}
    broken |= {"legal": jnp.zeros(3, bool)} if part == "policy" else {}
    targets = TARGETS.replace(**broken, **{f"{part}_weight": jnp.float32(0)})

    def total(output, targets, weights):
        return losses.total(weights, *losses.of_row(output, targets, 10.0))

    loss, gradient = jax.value_and_grad(total)(OUTPUT, targets, LossWeights())
    without = LossWeights(**{part: 0.0})
    expected, expected_gradient = jax.value_and_grad(total)(OUTPUT, TARGETS, without)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b), gradient, expected_gradient)


def test_weights_of_a_row_multiply():
    targets = TARGETS.replace(weight=jnp.float32(3), value_weight=jnp.float16(0.5))
    assert losses.of_row(OUTPUT, targets, 10.0)[1] == (3, 1.5, 3, 3)
    nothing, counts = losses.of_row(OUTPUT._replace(ownership_logits=None, score=None), TARGETS, 1)
    assert counts == (1, 1, 0, 0)
    assert nothing[2:] == (0, 0)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"value": -1.0}, "--value -1.0: expected at least 0"),
        ({"score": float("nan")}, "--score nan: expected a finite number"),
        ({"score_delta": 0.0}, "--score-delta 0.0: expected above 0"),
    ],
)
def test_bad_weights(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        LossWeights(**change)
