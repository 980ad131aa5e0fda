"""The learning step: the gradient of a batch, AdamW, and the moving average of parameters.

Everything stays on the device. A call may take many steps, and returns failure as data: once a
loss or a gradient is not finite, later steps do not change the state, and `good` has the last
parameters for which both were finite.

`update` takes any batch, wherever its rows came from; `take_steps` draws them from a `Buffer`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from gozero import struct
from gozero.compile import mode
from gozero.go.rules import Rules
from gozero.go.symmetry import NUM_SYMMETRIES
from gozero.nets import network
from gozero.nets.features import Inputs
from gozero.nets.network import NetworkConfig
from gozero.play.player import as_game
from gozero.play.rows import Rows
from gozero.search.game import Game, symmetries_of
from train import buffer as buffers
from train import losses, optimizer, replay
from train.buffer import Buffer, BufferConfig
from train.losses import Losses, LossWeights, Targets
from train.optimizer import OptimizerConfig


@dataclasses.dataclass(frozen=True)
class LearnerConfig:
    """The settings of the learner.

    Attributes:
      network: its shape.
      optimizer: its settings.
      losses: the weights of the parts of the loss.
      outcome_share: lambda; the value target is lambda z + (1 - lambda) v, with z the outcome of
        the game and v the root value of the search.
    """

    network: NetworkConfig
    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    losses: LossWeights = dataclasses.field(default_factory=LossWeights)
    outcome_share: float = 1.0


class TrainState(struct.PyTreeNode):
    """The state that a step changes; a checkpoint of it resumes bit for bit."""

    params: dict
    good: dict  # the newest parameters whose loss and gradient were finite
    ema: dict  # the moving average of such parameters, for self-play
    optimizer: Any  # optax's state
    key: jax.Array  # PRNG key
    step: jax.Array  # i32[]: steps taken
    ok: jax.Array  # bool[]: every loss and gradient so far was finite


class Metrics(NamedTuple):
    """The metrics of a step, of the parameters before it."""

    losses: Losses  # f32[] each: means over the rows, by their weights
    target_entropy: jax.Array  # f32[], nats: of the policy targets; a lower bound of that loss
    gradient_norm: jax.Array  # f32[]: global, before clipping


def start(config: LearnerConfig, params: dict, key: jax.Array) -> TrainState:
    """The state before the first step."""
    return TrainState(
        params=params,
        good=jax.tree.map(jnp.copy, params),  # separate buffers, because all are donated
        ema=jax.tree.map(jnp.copy, params),
        optimizer=optimizer.make(config.optimizer).init(params),
        key=key,
        step=jnp.int32(0),
        ok=jnp.bool_(True),
    )


def batch_losses(
    config: LearnerConfig,
    params: dict,
    inputs: jax.Array | Inputs,
    targets: Targets,
    axis: str | None = None,
) -> tuple[jax.Array, Losses]:
    """The objective that a step minimises, and the losses to report.

    The objective divides by the number of rows, not by the sum of their weights. So the influence
    of a row does not depend on the weights of others, and the mean over equal shards is the mean
    over the batch.

    Args:
      config: the network and the weights of the parts.
      params: the network's.
      inputs: the network's inputs, of rows [B].
      targets: of the same rows.
      axis: a mapped axis over which the rows are divided; the losses are then those of all rows.

    Returns:
      (f32[], the mean of `losses.total` over these rows; each part's mean, by the rows' weights).
    """
    mean, sums = _sums(config, network.apply_to_learn, params, inputs, targets)
    return mean, _means(sums, axis)


_Sums = tuple[Losses, Losses]
"""The weighted sum of each part over the rows, f32[] each, and the sum of their weights."""


def _sums(
    config: LearnerConfig,
    apply: Callable,
    params: dict,
    inputs: jax.Array | Inputs,
    targets: Targets,
) -> tuple[jax.Array, _Sums]:
    """(f32[], the mean of `losses.total`; the sums of the parts) over rows [B]."""
    output = apply(config.network, params, inputs)
    delta = config.losses.score_delta
    of_row = lambda output, targets: losses.of_row(output, targets, delta)
    parts, counts = jax.vmap(of_row)(output, targets)
    total = functools.partial(losses.total, config.losses)
    weighted = jax.tree.map(lambda part, count: jnp.sum(part * count), parts, counts)
    return jax.vmap(total)(parts, counts).mean(), (weighted, jax.tree.map(jnp.sum, counts))


def _means(sums: _Sums, axis: str | None) -> Losses:
    """The weighted mean of each part, f32[] each, over the rows of all devices of the axis."""
    weighted, counts = sums if axis is None else lax.psum(sums, axis)
    return jax.tree.map(lambda part, n: jnp.where(n > 0, part / n, 0.0), weighted, counts)


def _gradient(
    config: LearnerConfig, params: dict, inputs: jax.Array | Inputs, targets: Targets
) -> tuple[tuple[jax.Array, _Sums], dict]:
    """The value and gradient of `_sums`; on a CPU computed slice by slice where that is faster.

    The slices have equally many rows, so the mean of their gradients is the gradient of the batch.
    """
    of_rows = lambda apply: jax.value_and_grad(
        functools.partial(_sums, config, apply), has_aux=True
    )
    slices = network.num_gradient_slices(config.network, inputs)
    if not slices:
        return of_rows(network.apply_to_learn)(params, inputs, targets)
    split = lambda x: x.reshape(slices, -1, *x.shape[1:])
    rows = jax.tree.map(split, (inputs, targets))
    of_slice = lambda rows: of_rows(network.apply_in_tiles)(params, *rows)
    (means, sums), gradients = lax.map(of_slice, rows)
    sums = jax.tree.map(functools.partial(jnp.sum, axis=0), sums)
    mean, gradient = jax.tree.map(functools.partial(jnp.mean, axis=0), (means, gradients))
    return (mean, sums), gradient


def update(
    config: LearnerConfig,
    state: TrainState,
    inputs: jax.Array | Inputs,
    targets: Targets,
    axis: str | None = None,
    fraction_done: jax.Array | None = None,
) -> tuple[TrainState, Metrics]:
    """One step on rows [B]. The key does not change.

    Where the rows are divided among devices, each takes the step with the same state and its own
    rows, and `axis` is the name of the mapped axis (`jax.shard_map`, `jax.vmap`): the gradient is
    the mean over it, and all end in the same state.

    Args:
      config: the settings; static.
      state: from `start` or an earlier step.
      inputs: the network's inputs, of rows [B]: f32[B, size, size, C], or `Inputs`.
      targets: of the same rows.
      axis: None, or the mapped axis over which the rows are divided, in shards of one size.
      fraction_done: as for `optimizer.learning_rate`.

    Returns:
      (the next state, the metrics of the parameters before it).
    """
    params = state.params if axis is None else _varying(state.params, axis)
    (total, sums), gradient = _gradient(config, params, inputs, targets)
    if axis is not None:
        total, gradient = lax.pmean((total, gradient), axis)
    norm = optax.tree.norm(gradient)
    state = state.replace(ok=state.ok & _finite(total, norm))
    state = _apply_gradient(config.optimizer, state, gradient, fraction_done)
    return state, Metrics(_means(sums, axis), _target_entropy(targets, axis), norm)


def is_finite(
    config: LearnerConfig, params: dict, inputs: jax.Array | Inputs, targets: Targets, axis: str
) -> jax.Array:
    """bool[]: whether an update of these parameters on each device's own rows [B] is finite."""
    (total, _), gradient = _gradient(config, _varying(params, axis), inputs, targets)
    return _finite(total, optax.tree.norm(gradient))


def _target_entropy(targets: Targets, axis: str | None) -> jax.Array:
    """f32[]: the mean over rows, by their weights in the policy's loss."""
    entropy, count = jax.vmap(losses.target_entropy)(targets)
    sums = jnp.sum(entropy * count), jnp.sum(count)
    total, count = sums if axis is None else lax.psum(sums, axis)
    return jnp.where(count > 0, total / count, 0.0)


def _varying(params: dict, axis: str) -> dict:
    """The parameters as values that vary by device: each gradient is of the device's own rows.

    With parameters that `shard_map` knows to be the same on every device, the gradient would be
    summed over the axis.
    """
    zero = 0.0 * lax.axis_index(axis)  # its type says that it varies by device
    return jax.tree.map(lambda x: x + zero.astype(x.dtype), params)


def _finite(total: jax.Array, norm: jax.Array) -> jax.Array:
    """bool[]: neither the loss nor the gradient is nan, infinite or too large to be clipped."""
    return jnp.isfinite(total) & jnp.isfinite(norm)


def _apply_gradient(
    config: OptimizerConfig, state: TrainState, gradient: dict, fraction_done: jax.Array | None
) -> TrainState:
    """One step of the optimizer if `state.ok`; otherwise nothing changes.

    The average includes the parameters before the step, which are known to be good.
    """
    optimize = optimizer.make(config, fraction_done)
    updates, moments = optimize.update(gradient, state.optimizer, state.params)
    decay = optimizer.ema_decay(config, state.step)
    params = optax.apply_updates(state.params, updates)
    after = (params, state.params, optimizer.average(state.ema, state.params, decay), moments)
    before = (state.params, state.good, state.ema, state.optimizer)
    params, good, ema, moments = jax.tree.map(
        lambda new, old: jnp.where(state.ok, new, old), after, before
    )
    return state.replace(
        params=params, good=good, ema=ema, optimizer=moments, step=state.step + state.ok
    )


# --- on rows of a replay buffer ------------------------------------------------------


def steps_per_call(total: int | None = None) -> int:
    """The number of steps in one call: 16, or the greatest divisor of `total` up to 16.

    On the CPU it is 1: a call costs next to nothing there, and XLA (jax 0.10.1) leaves the
    gradients of plain convolutions inside a loop in a form that is about 20 times slower.
    """
    limit = 1 if mode.backend() == "cpu" else 16
    return limit if total is None else max(n for n in range(1, limit + 1) if total % n == 0)


def take_steps(
    rules: Rules | Game,
    config: LearnerConfig,
    ring: BufferConfig,
    batch_size: int,
    num_steps: int,
    state: TrainState,
    buffer: Buffer,
    axis: str | None = None,
    fraction_done: jax.Array | None = None,
) -> tuple[TrainState, Metrics]:
    """Take steps on rows drawn from a buffer; the metrics are means over the steps.

    Args:
      rules, config, ring: of the rows, of the learner and of the buffer; static.
      batch_size: rows in a step; with an axis, rows on each device.
      num_steps: static.
      state: from `start` or an earlier step.
      buffer: the rows; it is not changed. `buffer.steps_due` is the number of steps allowed.
      axis: None, or the mapped axis over which every device has a buffer of its own, see `update`.
      fraction_done: as for `optimizer.learning_rate`.
    """
    symmetries = symmetries_of(as_game(rules))
    count = symmetries.count if symmetries is not None else 1
    # The replay takes a drawn number modulo `count`: any multiple of it gives each as often.
    turns = count if NUM_SYMMETRIES % count else NUM_SYMMETRIES

    def step(state: TrainState, drawn: tuple[Rows, jax.Array]) -> tuple[TrainState, Metrics]:
        return update(config, state, *batch_of(rules, config, *drawn), axis, fraction_done)

    def draw(key: jax.Array) -> tuple[Rows, jax.Array]:
        own_key = key if axis is None else jax.random.fold_in(key, lax.axis_index(axis))
        return buffers.draw(ring, buffer, own_key, batch_size, turns)

    split = lambda key, _: tuple(jax.random.split(key))
    if num_steps == 1:  # a scan of one step would still be a loop: see `steps_per_call`
        key, draw_key = split(state.key, None)
        return step(state.replace(key=key), draw(draw_key))
    # Draw all rows at once: the sums and searches of a draw cost the same for any batch size.
    key, draw_keys = lax.scan(split, state.key, length=num_steps)
    state, metrics = lax.scan(step, state.replace(key=key), jax.vmap(draw)(draw_keys))
    return state, jax.tree.map(jnp.mean, metrics)


def make_evaluate(rules: Rules | Game, config: LearnerConfig) -> Callable[[dict, Rows], Losses]:
    """``evaluate(params, rows) -> losses``, jitted: means over all the rows, without symmetries."""

    def evaluate(params, rows):
        return mean_losses(rules, config, params, rows, jnp.zeros(rows.num_rows, jnp.int32))

    return jax.jit(evaluate)


def mean_losses(
    rules: Rules | Game, config: LearnerConfig, params: dict, rows: Rows, symmetries: jax.Array
) -> Losses:
    """The mean losses over rows [B] transformed by symmetries i32[B]."""
    return batch_losses(config, params, *batch_of(rules, config, rows, symmetries))[1]


def batch_of(
    rules: Rules | Game, config: LearnerConfig, rows: Rows, symmetries: jax.Array
) -> tuple[jax.Array | Inputs, Targets]:
    """(inputs, targets) for `update`, of rows [B] transformed by symmetries i32[B]."""
    of_row = lambda row, k: replay.example(
        rules, config.network.features, row, k, config.outcome_share
    )
    return jax.vmap(of_row)(rows, symmetries)
