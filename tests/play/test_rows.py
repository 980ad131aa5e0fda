"""Policy targets as rows store them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from gozero.play.rows import policy_shares, stored_policy


def test_shares_are_quantized_relative_to_the_largest():
    """0.5 is 255; a quarter 127.5, rounded to even; an eighth 63.75; below 0.5 / 510: 0."""
    shares = np.array([0.5, 0.25, 0.125, 0.1241, 0.0009, 0.0], np.float32)
    stored = stored_policy(np, shares, "uint8")
    assert stored.dtype == np.uint8
    assert stored.tolist() == [255, 128, 64, 63, 0, 0]
    expected = np.array([255, 128, 64, 63, 0, 0]) / 510
    np.testing.assert_allclose(policy_shares(np, stored), expected, rtol=1e-6)


def reference(policy):
    """255ths of the largest share, one by one."""
    return [round(float(share) * 255 / float(max(policy))) for share in policy]


@pytest.mark.parametrize("actions", [2, 26, 82, 362])
def test_stored_policies_match_the_reference_and_round_trip(actions):
    rng = np.random.default_rng(actions)
    drawn = rng.exponential(size=(50, actions)) ** 3
    policy = (drawn / drawn.sum(axis=1, keepdims=True)).astype(np.float32)
    policy[0] = 1 / actions
    policy[1] = np.arange(actions) == 1
    stored = stored_policy(np, policy, "uint8")
    # Halves may be rounded differently.
    assert np.abs(stored.astype(int) - [reference(row) for row in policy]).max() <= 1
    np.testing.assert_array_equal(stored_policy(jnp, jnp.asarray(policy), "uint8"), stored)
    shares = policy_shares(np, stored)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(policy_shares(jnp, jnp.asarray(stored)), shares, rtol=1e-6)
    np.testing.assert_array_equal(stored_policy(np, shares, "uint8"), stored)
    # Each is off by at most half a part, and by the error of the sum of all parts.
    part = policy.max(axis=1, keepdims=True) / 255
    by_sum = np.abs(stored.sum(axis=1, keepdims=True) * part - 1)
    assert np.all(np.abs(shares - policy) <= 0.51 * part + by_sum * shares + 1e-6)
    assert by_sum.max() < actions / 510


def test_floats_are_stored_unchanged():
    policy = np.array([[0.25, 0.75, 0.0]], np.float32)
    for dtype in ("float16", "float32"):
        stored = stored_policy(np, policy, dtype)
        assert stored.dtype == dtype
        assert policy_shares(np, stored).tolist() == policy.tolist()
