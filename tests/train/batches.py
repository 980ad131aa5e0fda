"""Batches for the learner that need no games: noise as planes, with random targets."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from gozero.nets import features, network
from gozero.nets.network import NetworkConfig
from train.learner import LearnerConfig
from train.losses import LossWeights, Targets
from train.optimizer import OptimizerConfig

SIZE = 3
CONFIG = LearnerConfig(
    NetworkConfig(blocks=2, channels=8, pool_every=2, auxiliary=True),
    OptimizerConfig(1e-2, warmup_steps=5),
    LossWeights(ownership=1.0, score=0.1),
)


@functools.cache
def params(scale: float = 0.0) -> dict:
    """Random parameters, with noise in those that start at zero."""
    return _params(scale)


@jax.jit
def _params(scale) -> dict:
    initial = network.init(CONFIG.network, jax.random.key(0))
    leaves, tree = jax.tree.flatten(initial)
    keys = jax.random.split(jax.random.key(7), len(leaves))
    noise = [scale * jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)]
    return jax.tree.map(jnp.add, initial, jax.tree.unflatten(tree, noise))


@functools.cache
def batch(count: int) -> tuple[jax.Array, Targets]:
    """(planes, targets) of `count` rows, all different."""
    points, actions = SIZE * SIZE, SIZE * SIZE + 1
    keys = jax.random.split(jax.random.key(3), 6)
    legal = jax.random.bernoulli(keys[0], 0.7, (count, actions)).at[:, -1].set(True)
    policy = jnp.where(legal, 3 * jax.random.normal(keys[1], (count, actions)), -jnp.inf)
    return jax.random.normal(keys[2], (count, SIZE, SIZE, len(features.COMPACT_PLANES))), Targets(
        legal=legal,
        policy_target=jax.nn.softmax(policy, axis=-1),
        outcome=jnp.sign(jax.random.normal(keys[3], (count,))),
        ownership=jnp.sign(jax.random.normal(keys[4], (count, points))),
        score=5 * jax.random.normal(keys[5], (count,)),
    )
