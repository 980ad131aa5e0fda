"""The learner with all heads: it overfits, averages, stops at a nan, and runs on many devices."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import mode
from gozero.go import symmetry
from gozero.nets import network
from gozero.nets.network import NetworkConfig
from tests import several_devices
from tests.train import batches
from tests.train.batches import CONFIG, SIZE
from train import learner, losses


@functools.cache
def one_step():
    return jax.jit(functools.partial(learner.update, CONFIG))


def start():
    return learner.start(CONFIG, batches.params(), jax.random.key(1))


@pytest.mark.slow
def test_one_batch_overfits_with_every_head():
    inputs, targets = batches.batch(16)
    floor = jax.vmap(losses.entropy)(targets.policy_target).mean()
    state = start()
    state, first = one_step()(state, inputs, targets)
    for _ in range(200):
        state, last = one_step()(state, inputs, targets)
    assert bool(state.ok)
    excess = [np.asarray(m.losses) - np.array([floor, 0, 0, 0]) for m in (first, last)]
    assert np.all(excess[1] < 0.1 * excess[0]), (first, last)


@pytest.mark.thorough
def test_the_average_is_the_recursion():
    """It averages parameters whose loss and gradient are known, so not yet the newest."""
    state = start()
    expected = seen = jax.tree.map(np.asarray, state.params)
    for step in range(12):
        state, _ = one_step()(state, *batches.batch(16))
        decay = min(CONFIG.optimizer.ema_decay, (1 + step) / (10 + step))
        mix = lambda old, new, decay=decay: decay * old + (1 - decay) * new
        expected = jax.tree.map(mix, expected, seen)
        jax.tree.map(np.testing.assert_array_equal, state.good, seen)
        seen = jax.tree.map(np.asarray, state.params)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), state.ema, expected
    )
    assert any(
        np.any(np.abs(a - b) > 1e-3)
        for a, b in zip(jax.tree.leaves(state.ema), jax.tree.leaves(state.params), strict=True)
    )


@pytest.mark.thorough
@pytest.mark.parametrize("field", ["score", "ownership"])
def test_a_nan_in_any_target_stops_learning(field):
    inputs, targets = batches.batch(16)
    good, _ = one_step()(start(), inputs, targets)
    broken = getattr(targets, field).at[3].set(jnp.nan)
    state, _ = one_step()(good, inputs, targets.replace(**{field: broken}))
    state, _ = one_step()(state, inputs, targets)
    assert not state.ok
    assert state.step == 1
    for name in ("params", "good", "ema", "optimizer"):
        jax.tree.map(np.testing.assert_array_equal, getattr(state, name), getattr(good, name))
    ignored = targets.replace(**{field: broken, "weight": jnp.ones(16).at[3].set(0)})
    assert one_step()(good, inputs, ignored)[0].ok


@pytest.mark.thorough
def test_an_overflowing_gradient_changes_nothing():
    """Each number is finite, but the sum of squares overflows: clipping would make it 0."""
    good, (inputs, targets) = start(), batches.batch(16)
    planes = jax.tree.map(lambda x: x * np.float32(1e21), inputs)
    state, metrics = one_step()(good, planes, targets)
    assert np.isinf(metrics.gradient_norm)
    assert not state.ok
    assert state.step == 0


@pytest.mark.slow
def test_shards_on_an_axis_take_the_same_step():
    """Rows, and so shards, have different weights, some of them 0."""
    inputs, targets = batches.batch(16)
    targets = targets.replace(weight=jnp.arange(16.0), value_weight=jnp.float32(np.arange(16) > 4))
    whole, metrics = one_step()(start(), inputs, targets)
    shards = jax.tree.map(lambda x: x.reshape(4, 4, *x.shape[1:]), (inputs, targets))
    each = functools.partial(learner.update, CONFIG, axis="devices")
    mapped = jax.jit(jax.vmap(each, in_axes=(None, 0, 0), axis_name="devices"))
    states, seen = mapped(start(), *shards)
    for i in (0, 3):
        one = jax.tree.map(lambda x, i=i: x[i], (states, seen))
        close = functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-5)
        jax.tree.map(close, one[0].params, whole.params)
        jax.tree.map(close, one[1], metrics)


@pytest.mark.thorough
@pytest.mark.parametrize("cores", [1, 2])
def test_slices_of_a_batch_give_its_gradient(cores, monkeypatch):
    """A CPU sums it slice by slice, in another order: equal to 1e-4 of the largest number."""
    monkeypatch.setattr(mode, "cores_of_a_device", lambda: cores)
    shape = dataclasses.replace(CONFIG.network, channels=64)
    config = dataclasses.replace(CONFIG, network=shape)
    inputs, targets = batches.batch(768)
    params = network.init(shape, jax.random.key(0))
    params = jax.tree.map(
        lambda x: x + 0.02 * jax.random.normal(jax.random.key(1), x.shape), params
    )
    assert network.num_gradient_slices(shape, inputs) > 1
    assert network.num_gradient_slices(CONFIG.network, inputs) == 0
    of_batch = functools.partial(learner.batch_losses, config)
    expected = jax.jit(jax.value_and_grad(of_batch, has_aux=True))(params, inputs, targets)
    (mean, sums), gradient = jax.jit(functools.partial(learner._gradient, config))(
        params, inputs, targets
    )
    seen = (mean, learner._means(sums, None)), gradient
    for got, right in zip(*map(jax.tree.leaves, (seen, expected)), strict=True):
        np.testing.assert_allclose(got, right, atol=1e-4 * float(np.abs(right).max()))


def test_every_target_is_equivariant():
    """With an equivariant network, all losses are the same for all 8 symmetries of a row."""
    plain = batches.params(scale=0.5)

    def turned_kernel(kernel, k):
        return symmetry.map_planes(kernel.reshape(*kernel.shape[:2], -1), k).reshape(kernel.shape)

    def all_sides(x):
        return sum(turned_kernel(x, k) for k in range(8)) / 8 if x.ndim == 4 else x

    params = jax.tree.map(all_sides, plain)
    inputs, targets = batches.batch(4)

    def turn(inputs, targets, k):
        actions = functools.partial(symmetry.map_actions, SIZE)
        return symmetry.map_planes(inputs, k), targets.replace(
            legal=actions(targets.legal, k),
            policy_target=actions(targets.policy_target, k),
            ownership=symmetry.map_points(SIZE, targets.ownership, k),
        )

    @jax.jit
    def each_part(params, k):
        turned = jax.vmap(turn, in_axes=(0, 0, None))(inputs, targets, k)
        return jnp.stack(learner.batch_losses(CONFIG, params, *turned)[1])

    sides = np.stack([each_part(params, k) for k in range(8)])
    np.testing.assert_allclose(sides, np.broadcast_to(sides[:1], sides.shape), rtol=1e-4)
    unlike = np.stack([each_part(plain, k) for k in range(8)])
    assert np.all(np.ptp(unlike, axis=0) > 1e-3 * np.abs(sides[0]))  # a test that can fail


def test_a_bf16_trunk_learns_in_f32():
    config = learner.LearnerConfig(NetworkConfig(1, 4, pool_every=1, dtype="bfloat16"))
    params = network.init(config.network, jax.random.key(0))
    state = learner.start(config, params, jax.random.key(1))
    shapes = jax.eval_shape(functools.partial(learner.update, config), state, *batches.batch(4))
    floats = {x.dtype for x in jax.tree.leaves(shapes) if jnp.issubdtype(x.dtype, jnp.inexact)}
    assert floats == {jnp.dtype("float32")}


@pytest.mark.slow
def test_four_devices_take_the_step_of_one():
    line = several_devices.last_line("tests.train.learner_devices_check")
    assert line == "all is as on one device"
