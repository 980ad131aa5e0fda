"""Run by test_heads_learn.py in its own process, with four devices."""

from __future__ import annotations

import functools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from tests.train import batches
from train import learner

STEPS = 10


def take_steps(step):
    inputs, targets = batches.batch(16)
    targets = targets.replace(weight=jnp.arange(16.0))
    state = learner.start(batches.CONFIG, batches.params(), jax.random.key(1))
    for _ in range(STEPS):
        state, metrics = step(state, inputs, targets)
    return state, metrics


def main():
    assert jax.device_count() == 4
    mesh = jax.make_mesh((4,), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))
    everywhere, divided = PartitionSpec(), PartitionSpec("devices")
    update = functools.partial(learner.update, batches.CONFIG)
    expected = take_steps(jax.jit(update))
    for check_vma in (True, False):
        mapped = jax.shard_map(
            functools.partial(update, axis="devices"),
            mesh=mesh,
            in_specs=(everywhere, divided, divided),
            out_specs=everywhere,
            check_vma=check_vma,
        )
        state, metrics = take_steps(jax.jit(mapped))
        assert int(state.step) == STEPS
        close = functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4)
        jax.tree.map(close, (state.params, state.ema), (expected[0].params, expected[0].ema))
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-3), metrics, expected[1])
        for shards in jax.tree.map(lambda x: x.addressable_shards, jax.tree.leaves(state.params)):
            for shard in shards[1:]:
                np.testing.assert_array_equal(shard.data, shards[0].data)


if __name__ == "__main__":
    main()
    print("all is as on one device")
