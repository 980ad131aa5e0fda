"""The learning step: draw rows and symmetries, take the gradient, move the parameters.

Everything stays on the device. A call takes many steps, and returns failure as data: once
a loss or a gradient is not finite, nothing moves any more and `good` keeps what still was.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax import lax

from gozero.go import symmetry
from gozero.go.rules import Rules
from gozero.nets import network
from gozero.nets.network import NetworkConfig
from train import losses, replay
from train.losses import Losses
from train.replay import Rows


class TrainState(flax.struct.PyTreeNode):
    """What a step changes; donated from call to call."""

    params: dict
    good: dict  # the newest parameters whose loss and gradient were finite
    optimizer: Any  # optax's state
    key: jax.Array  # PRNG key
    step: jax.Array  # i32[]: steps taken
    ok: jax.Array  # bool[]: every loss and gradient so far was finite


def adamw(
    learning_rate: float, weight_decay: float, warmup_steps: int
) -> optax.GradientTransformation:
    """AdamW with a linear warm-up; only kernels decay."""

    def schedule(step):
        return learning_rate * jnp.minimum(1.0, (step + 1) / warmup_steps)

    def kernels(params):
        return jax.tree.map(lambda x: x.ndim > 1, params)

    return optax.adamw(schedule, weight_decay=weight_decay, mask=kernels)


def start(params: dict, optimizer: optax.GradientTransformation, key: jax.Array) -> TrainState:
    """The state before the first step."""
    return TrainState(
        params=params,
        good=jax.tree.map(jnp.copy, params),  # its own buffers: both are donated
        optimizer=optimizer.init(params),
        key=key,
        step=jnp.int32(0),
        ok=jnp.bool_(True),
    )


def mean_losses(
    rules: Rules, config: NetworkConfig, params: dict, rows: Rows, symmetries: jax.Array
) -> Losses:
    """The losses, meaned over rows [B] moved by symmetries i32[B]."""
    example = functools.partial(replay.example, rules, config.features)
    examples = jax.vmap(example)(rows, symmetries)
    output = network.apply(config, params, examples.inputs)
    policy = jax.vmap(losses.policy_cross_entropy)(
        output.policy_logits, examples.legal, examples.policy_target
    )
    value = jax.vmap(losses.value_squared_error)(output.value, examples.outcome)
    return Losses(policy.mean(), value.mean())


def steps_per_call(steps: int) -> int:
    """How many steps one call should take: a divisor of all the steps, up to 50.

    One on the CPU, where a call costs next to nothing, and where XLA (jax 0.10.1) leaves the
    gradients of convolutions inside a loop in a form that is about 20 times slower.
    """
    most = 1 if jax.default_backend() == "cpu" else 50
    return max(n for n in range(1, most + 1) if steps % n == 0)


def make_train(
    rules: Rules,
    config: NetworkConfig,
    optimizer: optax.GradientTransformation,
    batch_size: int,
    num_steps: int,
) -> Callable[[TrainState, Rows], tuple[TrainState, Losses]]:
    """``train(state, rows) -> (state, losses)``: `num_steps` steps, jitted; the state is donated.

    The losses are means over the call's steps, each before its step.
    """

    def loss(params, batch, turns):
        parts = mean_losses(rules, config, params, batch, turns)
        return parts.policy + parts.value, parts

    def step(rows, state):
        key, row_key, turn_key = jax.random.split(state.key, 3)
        drawn = jax.random.randint(row_key, (batch_size,), 0, replay.num_rows(rows))
        turns = jax.random.randint(turn_key, (batch_size,), 0, symmetry.NUM_SYMMETRIES)
        (total, parts), gradient = jax.value_and_grad(loss, has_aux=True)(
            state.params, replay.take(rows, drawn), turns
        )
        ok = state.ok & _all_finite((total, gradient))
        return _move(optimizer, state.replace(key=key, ok=ok), gradient), parts

    def train(state, rows):
        if num_steps == 1:
            return step(rows, state)  # a scan of one step would still be a loop
        state, parts = lax.scan(lambda state, _: step(rows, state), state, length=num_steps)
        return state, jax.tree.map(jnp.mean, parts)

    return jax.jit(train, donate_argnums=0)


def _all_finite(tree: Any) -> jax.Array:
    """bool[]: no number in the tree is nan or infinite."""
    return functools.reduce(jnp.logical_and, (jnp.isfinite(x).all() for x in jax.tree.leaves(tree)))


def _move(optimizer: optax.GradientTransformation, state: TrainState, gradient: dict) -> TrainState:
    """One step of the optimizer, if all is well."""
    updates, optimizer_state = optimizer.update(gradient, state.optimizer, state.params)
    moved = (optax.apply_updates(state.params, updates), state.params, optimizer_state)
    kept = (state.params, state.good, state.optimizer)
    params, good, optimizer_state = jax.tree.map(
        lambda new, old: jnp.where(state.ok, new, old), moved, kept
    )
    return state.replace(
        params=params, good=good, optimizer=optimizer_state, step=state.step + state.ok
    )


def make_evaluate(rules: Rules, config: NetworkConfig) -> Callable[[dict, Rows], Losses]:
    """``evaluate(params, rows) -> losses``, jitted: means over all the rows, as they lie."""

    def evaluate(params, rows):
        return mean_losses(rules, config, params, rows, jnp.zeros(replay.num_rows(rows), jnp.int32))

    return jax.jit(evaluate)
