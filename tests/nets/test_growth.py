"""Growing a network: it computes the same, and its new parts can learn."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.connect_four import connect_four_game
from gozero.nets import growth, network
from gozero.nets.features import Inputs, feature_set
from gozero.nets.network import NetworkConfig

GO = NetworkConfig(blocks=3, channels=8, pool_every=2, auxiliary=True)


def learned(config: NetworkConfig, seed: int) -> dict:
    """Parameters without any of the zeros of a new network."""
    params = network.init(config, jax.random.key(seed))
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
    moved = [x + 0.1 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(tree, moved)


def inputs_of(config: NetworkConfig, count: int = 5):
    rows, columns, planes = config.observation or (5, 5, config.num_planes)
    seen = jax.random.bernoulli(jax.random.key(3), 0.4, (count, rows, columns, planes))
    seen = seen.astype(jnp.float32)
    number = 0 if config.observation else len(feature_set(config.features).global_inputs)
    if not number:
        return seen
    return Inputs(seen, jax.random.normal(jax.random.key(4), (count, number)))


@pytest.mark.parametrize(
    ("old", "more"),
    [
        pytest.param(GO, {"channels": 13}, marks=pytest.mark.thorough),
        pytest.param(GO, {"blocks": 6}, marks=pytest.mark.thorough),
        pytest.param(
            GO, {"blocks": 4, "channels": 16, "dtype": "bfloat16"}, marks=pytest.mark.thorough
        ),
        pytest.param(
            dataclasses.replace(GO, pool_every=0, features="zero"),
            {"blocks": 5, "channels": 12},
            marks=pytest.mark.thorough,
        ),
        (network.of_game(connect_four_game(), blocks=1, channels=3), {"blocks": 2, "channels": 5}),
    ],
)
def test_a_grown_network_computes_the_same(old, more):
    params, new = learned(old, 0), dataclasses.replace(old, **more)
    grown = growth.grow(old, params, new, jax.random.key(7))
    assert jax.tree.map(jnp.shape, grown) == jax.tree.map(jnp.shape, network.shapes(new))
    inputs = inputs_of(old)
    full = dataclasses.replace(new, dtype="float32")
    before, after = network.apply(old, params, inputs), network.apply(full, grown, inputs)
    for name, one in before._asdict().items():
        if one is not None:
            np.testing.assert_allclose(one, getattr(after, name), atol=2e-5, err_msg=name)


def test_new_parameters_have_gradients():
    new = dataclasses.replace(GO, blocks=4, channels=16)
    grown = growth.grow(GO, learned(GO, 0), new, jax.random.key(7))
    inputs = inputs_of(GO)

    def loss(params):
        output = network.apply(new, params, inputs)
        return jnp.sum(output.policy_logits**2) + jnp.sum(output.value) + jnp.sum(output.score)

    gradient = jax.jit(jax.grad(loss))(grown)
    for name in ("points", "value", "pass_move", "score"):
        assert (np.abs(gradient[name]["kernel"][..., 8:16, :]) > 0).any(), name
    assert (np.abs(gradient["block_0"]["second"]["kernel"][..., 8:, :8]) > 0).any()
    assert (np.abs(gradient["block_3"]["second"]["kernel"]) > 0).any()  # the new block's


@pytest.mark.parametrize(
    "other",
    [{"channels": 7}, {"blocks": 2}, {"pool_every": 1}, {"auxiliary": False}, {"features": "zero"}],
)
def test_only_blocks_and_channels_grow(other):
    new = dataclasses.replace(GO, **other)
    assert not growth.can_grow(GO, new)
    with pytest.raises(ValueError, match="only by more blocks or channels"):
        growth.grow(GO, {}, new, jax.random.key(0))
