"""Run by test_over_devices.py in a process of its own, with three devices."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.search import over_devices, reuse
from gozero.search.config import Ensemble, SearchConfig
from gozero.search.game import Evaluation, Evaluator
from gozero.search.rules.puct import Puct
from gozero.search.runner import Budget, Runner
from gozero.search.search import search
from tests.search import random_tree, test_ensemble

FIELDS = "action", "visits", "q", "policy_target", "value", "ok", "simulations"


def run(config, evaluate, codes, key, mesh=None, tree=None):
    args = random_tree.GAME, Evaluator(evaluate), key, random_tree.Position(codes), config
    return search(*args, tree) if mesh is None else over_devices.search(*args, mesh, tree)


def by_device(tree, num_games, devices):
    """Arrays [B K ...] of a search on one device, in the order of `over_devices.search`."""

    def ordered(x):
        shape = num_games, devices, -1, *x.shape[1:]
        return np.asarray(x).reshape(shape).swapaxes(0, 1).reshape(x.shape)

    return jax.tree.map(ordered, tree)


def equal_to_one_device(config, evaluate, mesh):
    codes, key = test_ensemble.CODES, test_ensemble.KEY
    one = jax.jit(functools.partial(run, config, evaluate))(codes, key)
    many = jax.jit(functools.partial(run, config, evaluate, mesh=mesh))(codes, key)
    assert len(many.tree.visits.sharding.device_set) == mesh.size
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name), err_msg=name)
    np.testing.assert_allclose(one.prior, many.prior, rtol=1e-6)  # means over the trees
    expected = by_device(one.tree, len(codes), mesh.size)
    jax.tree.map(np.testing.assert_array_equal, expected, many.tree)
    return many


def keyed(params, key, codes):
    """Evaluations drawn from the key."""
    value = jax.random.uniform(key, codes.shape, minval=-1.0)
    return Evaluation(jnp.zeros((*codes.shape, random_tree.NUM_ACTIONS)), value)


def main():
    assert jax.device_count() == 3
    mesh = jax.make_mesh((3,), ("machine",))
    six = dataclasses.replace(test_ensemble.TOGETHER, trees=6)
    proving = dataclasses.replace(test_ensemble.CONFIG, ensemble=six, prove=True)
    equal_to_one_device(proving, test_ensemble.PUCT_EVALUATE, mesh)
    rave = test_ensemble.RAVE_CONFIG  # one tree a device
    equal_to_one_device(rave, test_ensemble.RAVE_EVALUATE, mesh)

    # Trees are searched on from; each device has a key of its own.
    config = SearchConfig(40, capacity=101, select=Puct(2.0), ensemble=Ensemble(6, every=10))
    codes, key = test_ensemble.CODES, test_ensemble.KEY
    again = jax.jit(functools.partial(run, config, keyed, mesh=mesh), donate_argnames="tree")
    first = jax.jit(functools.partial(run, config, keyed, mesh=mesh))(codes, key)
    kept = jax.tree.map(np.asarray, first._replace(tree=None))
    drawn = np.asarray(first.tree.value).reshape(3, -1)
    assert (drawn != 0).any(axis=1).all()
    assert (drawn[0] != drawn[1]).mean() > 0.9 * (drawn[0] != 0).mean()
    second = again(codes, jax.random.key(1), tree=first.tree)
    assert second.ok.all()
    assert second.visits.sum(axis=1).tolist() == [2 * 6 * 40] * len(codes)
    reroot = jax.jit(over_devices.reroot_on(mesh), donate_argnums=0)
    third = again(codes, key, tree=reroot(second.tree, jnp.full(len(codes), -1)))
    assert third.visits.sum(axis=1).tolist() == [6 * 40] * len(codes)
    on_three = over_devices.divided(config, mesh)
    divide = over_devices.dividing(mesh)
    runner = Runner(random_tree.GAME, Evaluator(keyed), on_three, chunk=7, divide=divide)
    in_chunks = runner.search(key, random_tree.Position(codes), Budget(seconds=1e6))
    jax.tree.map(np.testing.assert_array_equal, in_chunks._replace(tree=None), kept)
    empty = reuse.empty(random_tree.Position(codes), random_tree.NUM_ACTIONS, config)
    assert again(codes, key, tree=empty).visits.sum(axis=1).tolist() == [6 * 40] * len(codes)

    with pytest.raises(ValueError, match=r"devices: 3 does not divide the 4 trees"):
        over_devices.divided(dataclasses.replace(config, ensemble=Ensemble(4)), mesh)
    with pytest.raises(ValueError, match=r"ensemble: None; .* such as Ensemble\(trees=3\)"):
        over_devices.divided(SearchConfig(40), mesh)
    with pytest.raises(ValueError, match=r"mesh: its axes are \{'a': 3, 'b': 1\}"):
        over_devices.divided(config, jax.make_mesh((3, 1), ("a", "b")))
    print("the trees are those of one device")


if __name__ == "__main__":
    main()
