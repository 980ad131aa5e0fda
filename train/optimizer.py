"""The optimizer: clipping, AdamW, its schedule, and the moving average of the parameters."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from gozero.runs import settings
from gozero.runs.settings import setting


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """The settings of the optimizer.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    learning_rate: float = setting(2e-3, least=0)
    """AdamW's peak learning rate."""

    weight_decay: float = setting(1e-4, least=0)
    """AdamW's weight decay, of kernels only, not of biases."""

    warmup_steps: int = setting(100, least=1)
    """Steps over which the learning rate rises linearly; the last of them has the full rate."""

    total_steps: int | None = setting(None, above="warmup_steps", unset="it stays constant")
    """The step at which the learning rate has finished falling along a half cosine."""

    final_fraction: float = setting(0.01, least=0, most=1)
    """The learning rate at the end of its schedule and from then on, as a share of the peak."""

    clip_norm: float | None = setting(5.0, above=0, unset="no clipping")
    """Gradients whose global norm is larger are scaled down to it."""

    ema_decay: float = setting(0.999, least=0, below=1)
    """The decay of the moving average of the parameters, with which self-play plays."""

    def __post_init__(self):
        settings.check(self)


def learning_rate(
    config: OptimizerConfig, step: ArrayLike, fraction_done: ArrayLike | None = None
) -> jax.Array:
    """The learning rate after `step` steps, f32[].

    It rises linearly at first, ``(step + 1) / warmup_steps``, so that the first step is not 0. Then
    x goes from 0 to 1 between the end of the warmup and `total_steps`, and with f the final
    fraction the rate is multiplied by

        f + (1 - f) (1 + cos(pi x)) / 2

    Loshchilov & Hutter (2017), Eq. 5, without restarts.

    Args:
      config: the settings.
      step: i32[]: steps taken.
      fraction_done: f32[]: the x to use, as in runs, where `total_steps` is only an estimate: the
        fraction of the iterations done before this step's; None: x by the steps.
    """
    step = jnp.asarray(step)
    warm = jnp.minimum(1.0, (step + 1) / config.warmup_steps)
    if config.total_steps is None:
        return config.learning_rate * warm
    x = (step + 1 - config.warmup_steps) / (config.total_steps - config.warmup_steps)
    x = x if fraction_done is None else fraction_done
    cosine = (1 + jnp.cos(jnp.pi * jnp.clip(x, 0.0, 1.0))) / 2
    decay = config.final_fraction + (1 - config.final_fraction) * cosine
    return config.learning_rate * warm * decay


def make(
    config: OptimizerConfig, fraction_done: ArrayLike | None = None
) -> optax.GradientTransformation:
    """Clipping by the global norm, then AdamW (Loshchilov & Hutter 2019).

    Args:
      config: the settings.
      fraction_done: as for `learning_rate`.
    """

    def kernels(params):
        return jax.tree.map(lambda x: x.ndim > 1, params)

    clip = optax.identity()
    if config.clip_norm is not None:
        clip = optax.clip_by_global_norm(config.clip_norm)
    adamw = optax.adamw(
        lambda step: learning_rate(config, step, fraction_done),
        weight_decay=config.weight_decay,
        mask=kernels,
    )
    return optax.chain(clip, adamw)


def ema_decay(config: OptimizerConfig, step: jax.Array) -> jax.Array:
    """min(ema_decay, (1 + t) / (10 + t)), f32[], after t steps.

    The average starts at the initial parameters; the lower decay of the first steps soon reduces
    their weight.
    """
    return jnp.minimum(config.ema_decay, (1 + step) / (10 + step)).astype(jnp.float32)


def average(old: Any, new: Any, decay: jax.Array) -> Any:
    """decay old + (1 - decay) new, for each pair of arrays in two trees of the same structure."""
    return jax.tree.map(lambda a, b: decay * a + (1 - decay) * b, old, new)
