"""How parameters move: clipping, AdamW, its step size over the steps, and their moving average."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """How parameters move.

    Attributes:
      learning_rate: the most that AdamW's step size is.
      weight_decay: AdamW's, of kernels only; biases are left alone.
      warmup_steps: steps over which the step size grows linearly; the last of them has all of it.
      total_steps: the step by which it has fallen along a half cosine; None: it stays.
      final_fraction: what is left of it then, and from then on.
      clip_norm: the most that the global norm of a gradient may be; None: anything.
      ema_decay: of the average of the parameters, in the long run.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    warmup_steps: int = 100
    total_steps: int | None = None
    final_fraction: float = 0.01
    clip_norm: float | None = 5.0
    ema_decay: float = 0.999

    def __post_init__(self):
        for name in ("learning_rate", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}: {getattr(self, name)} is not a number of at least 0")
        if self.warmup_steps < 1:
            raise ValueError(f"warmup_steps: {self.warmup_steps} is not at least 1")
        if self.total_steps is not None and self.total_steps <= self.warmup_steps:
            raise ValueError(
                f"total_steps: {self.total_steps} is not more than {self.warmup_steps} warmup_steps"
            )
        if not 0 <= self.final_fraction <= 1:
            raise ValueError(f"final_fraction: {self.final_fraction} is not in [0, 1]")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm: {self.clip_norm} is not above 0")
        if not 0 <= self.ema_decay < 1:
            raise ValueError(f"ema_decay: {self.ema_decay} is not from 0 to below 1")


def learning_rate(config: OptimizerConfig, step: ArrayLike) -> jax.Array:
    """The step size after `step` steps, f32[].

    Linear at first, ``(step + 1) / warmup_steps``, so that the first step moves too; then with x
    from 0 to 1 between the end of that and `total_steps`, and f the final fraction,

        f + (1 - f) (1 + cos(pi x)) / 2

    Loshchilov & Hutter (2017), Eq. 5, without restarts.
    """
    step = jnp.asarray(step)
    warm = jnp.minimum(1.0, (step + 1) / config.warmup_steps)
    if config.total_steps is None:
        return config.learning_rate * warm
    x = (step + 1 - config.warmup_steps) / (config.total_steps - config.warmup_steps)
    cosine = (1 + jnp.cos(jnp.pi * jnp.clip(x, 0.0, 1.0))) / 2
    left = config.final_fraction + (1 - config.final_fraction) * cosine
    return config.learning_rate * warm * left


def make(config: OptimizerConfig) -> optax.GradientTransformation:
    """Clipping by the global norm, then AdamW (Loshchilov & Hutter 2019)."""

    def kernels(params):
        return jax.tree.map(lambda x: x.ndim > 1, params)

    clip = optax.identity()
    if config.clip_norm is not None:
        clip = optax.clip_by_global_norm(config.clip_norm)
    adamw = optax.adamw(
        lambda step: learning_rate(config, step), weight_decay=config.weight_decay, mask=kernels
    )
    return optax.chain(clip, adamw)


def ema_decay(config: OptimizerConfig, step: jax.Array) -> jax.Array:
    """min(ema_decay, (1 + t) / (10 + t)), f32[], after t steps.

    An average that begins as the parameters: what they were at random is soon forgotten.
    """
    return jnp.minimum(config.ema_decay, (1 + step) / (10 + step)).astype(jnp.float32)


def average(old: Any, new: Any, decay: jax.Array) -> Any:
    """decay old + (1 - decay) new, of each array of two alike trees."""
    return jax.tree.map(lambda a, b: decay * a + (1 - decay) * b, old, new)
