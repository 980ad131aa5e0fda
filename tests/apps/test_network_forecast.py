"""What a network's outputs, which are the mover's, say of Black and of White."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.engine import Engine
from gozero.apps.network_forecast import by_network
from gozero.go import rules as go
from gozero.nets import network, weights
from gozero.nets.network import SCORE_SCALE, NetworkConfig

RULES = go.Rules(size=3)
LEAD, OWNED, VALUE = 3.0, 0.5, 0.25


@pytest.fixture
def constant(tmp_path):
    """The file of a network for which every mover leads by 3 points, owns half of each point and
    has a value of 1/4."""
    shape = NetworkConfig(blocks=1, channels=4, auxiliary=True)
    params = dict(network.init(shape, jax.random.key(0)))
    biases = {"score": LEAD / SCORE_SCALE, "owners": np.arctanh(OWNED), "value": np.arctanh(VALUE)}
    for name, bias in biases.items():
        kernel = jnp.zeros_like(params[name]["kernel"])
        params[name] = {"kernel": kernel, "bias": jnp.full_like(params[name]["bias"], bias)}
    return weights.save(tmp_path / "net.safetensors", params, shape, RULES.size)


def test_a_forecast_is_for_black(constant):
    black_moves = go.init(RULES)
    both = black_moves, go.play(RULES, black_moves, 4)
    states = jax.tree.map(lambda *x: jnp.stack(x), *both)
    lead, ownership = by_network(RULES, constant)(jax.random.key(0), states)
    np.testing.assert_allclose(lead, [LEAD, -LEAD], rtol=1e-5)
    expected = np.broadcast_to(np.array([[OWNED], [-OWNED]]), (2, 9))
    np.testing.assert_allclose(ownership, expected, rtol=1e-5)


def test_a_raw_network_is_for_white(constant):
    engine = Engine(GtpConfig(size=3, evaluator="network", weights=constant))
    for sign in (-1, 1):  # of Black, who plays in the centre; then of White
        found = engine.raw_network(symmetry=0)
        assert found["whiteLead"] == pytest.approx(sign * LEAD)
        assert found["whiteWin"] - found["whiteLoss"] == pytest.approx(sign * VALUE)
        np.testing.assert_allclose(found["whiteOwnership"], np.full((3, 3), sign * OWNED), 1e-5)
        if sign < 0:
            engine.game.play(0, 4)
