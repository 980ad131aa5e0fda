"""The residual policy and value network, as pure `init` and `apply`.

A module of flax.nnx describes it; what leaves this file are pure functions over a nested
dict of arrays, so that ``jax.jit``, ``jax.grad`` and a file see plain pytrees.

Residual blocks without batch statistics, so that play and training compute the same: the
last convolution of each block starts at zero and the block at the identity. Both heads pool
or are convolutions: one set of weights fits every board size in shape.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from gozero.nets.features import Inputs, feature_set


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
    """Shape of the network.

    Attributes:
      blocks: residual blocks of two 3x3 convolutions.
      channels: channels of the trunk.
      features: the name of the planes it takes (`gozero.nets.features`).

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    blocks: int = 2
    channels: int = 32
    features: str = "compact"

    def __post_init__(self):
        for name in ("blocks", "channels"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not at least 1")
        feature_set(self.features)


class NetworkOutput(NamedTuple):
    """Fields have a leading axis [M]."""

    policy_logits: jax.Array  # f32[M, A], the pass last
    value: jax.Array  # f32[M] in [-1, 1], for the player to move


class _Block(nnx.Module):
    def __init__(self, channels: int, rngs: nnx.Rngs):
        self.first = _conv(channels, channels, 3, rngs)
        self.second = _conv(channels, channels, 3, rngs, kernel_init=nnx.initializers.zeros)

    def __call__(self, x):
        return x + self.second(nnx.relu(self.first(nnx.relu(x))))


class _Network(nnx.Module):
    def __init__(self, config: NetworkConfig, rngs: nnx.Rngs):
        channels = config.channels
        self.num_blocks = config.blocks
        inputs = feature_set(config.features)
        self.stem = _conv(inputs.num_planes, channels, 3, rngs)
        if inputs.global_inputs:
            self.stem_globals = nnx.Linear(len(inputs.global_inputs), channels, rngs=rngs)
        for i in range(config.blocks):
            setattr(self, f"block_{i}", _Block(channels, rngs))
        self.points = _conv(channels, 1, 1, rngs)
        self.pass_move = nnx.Linear(2 * channels, 1, rngs=rngs)
        self.value_hidden = nnx.Linear(2 * channels, channels, rngs=rngs)
        self.value = nnx.Linear(channels, 1, rngs=rngs)

    def __call__(self, inputs) -> NetworkOutput:
        if isinstance(inputs, Inputs):
            x = self.stem(inputs.planes)
            x = x + self.stem_globals(inputs.global_inputs)[:, None, None, :]
        else:
            x = self.stem(inputs)
        for i in range(self.num_blocks):
            x = getattr(self, f"block_{i}")(x)
        x = nnx.relu(x)
        pooled = jnp.concatenate([x.mean(axis=(1, 2)), x.max(axis=(1, 2))], axis=-1)
        points = self.points(x).reshape(x.shape[0], -1)
        value = self.value(nnx.relu(self.value_hidden(pooled)))
        return NetworkOutput(
            policy_logits=jnp.concatenate([points, self.pass_move(pooled)], axis=-1),
            value=jnp.tanh(value[:, 0]),
        )


def _conv(inputs: int, outputs: int, width: int, rngs: nnx.Rngs, **kwargs: Any) -> nnx.Conv:
    return nnx.Conv(inputs, outputs, (width, width), padding="SAME", rngs=rngs, **kwargs)


def init(config: NetworkConfig, key: jax.Array) -> dict:
    """Random parameters, a nested dict of f32 arrays."""
    state = nnx.state(_Network(config, nnx.Rngs(key)), nnx.Param)
    return nnx.to_pure_dict(state)


def apply(config: NetworkConfig, params: dict, inputs: jax.Array | Inputs) -> NetworkOutput:
    """The network on M positions, as the set ``config.features`` sees them.

    Planes f32[M, size, size, C], with f32[M, G] beside them where the set has global inputs.
    """
    graph, state = _abstract(config)
    nnx.replace_by_pure_dict(state, params)
    return nnx.merge(graph, state)(inputs)


def shapes(config: NetworkConfig) -> dict:
    """The parameters' shapes and dtypes, as `init` would make them."""
    return nnx.to_pure_dict(_abstract(config)[1])


def _abstract(config: NetworkConfig) -> tuple[Any, nnx.State]:
    graph, state = _abstract_split(config)
    return graph, jax.tree.map(lambda x: x, state)  # a fresh container: the caller fills it


@functools.cache
def _abstract_split(config: NetworkConfig) -> tuple[Any, nnx.State]:
    return nnx.split(nnx.eval_shape(lambda: _Network(config, nnx.Rngs(0))))
