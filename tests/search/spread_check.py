"""Run by test_spread.py in a process of its own, with four devices."""

from __future__ import annotations

import functools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import mode
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluation, Evaluator
from gozero.search.over_devices import divided_evaluator
from gozero.search.search import search
from tests.search import random_tree
from tests.search.evaluators import hash_evaluate

CONFIG = SearchConfig(num_simulations=48, leaves=8, dirichlet_fraction=0.25)
EVALUATE = hash_evaluate(random_tree.NUM_ACTIONS, 1.0, 0.3)


def run(evaluate, codes, key):
    roots = random_tree.Position(codes)
    return search(random_tree.GAME, Evaluator(evaluate), key, roots, CONFIG)


def keyed(params, key, codes):
    """Evaluations drawn from the key."""
    value = jax.random.uniform(key, codes.shape)
    return Evaluation(jnp.zeros((*codes.shape, 2)) + params, value)


def main():
    assert jax.device_count() == 4
    mesh = jax.make_mesh((4,), ("leaves",))
    spread = divided_evaluator(EVALUATE, mesh)
    codes, key = jnp.uint32([7919]), jax.random.key(5)
    one = jax.jit(functools.partial(run, EVALUATE))(codes, key)
    many = jax.jit(functools.partial(run, spread))(codes, key)
    assert len(many.visits.sharding.device_set) == 4
    assert int(one.visits.sum()) == 48
    for name in ("action", "visits", "q", "policy_target", "value", "ok", "simulations"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name))
    jax.tree.map(np.testing.assert_array_equal, one.tree, many.tree)

    # Counts that are not multiples of four; each device has its own key.
    evaluate = jax.jit(divided_evaluator(keyed, mesh))
    for count in (1, 4, 6, 8):
        result = evaluate(1.0, key, jnp.arange(count, dtype=jnp.uint32))
        share = -(-count // 4)
        parts = [jax.random.uniform(jax.random.fold_in(key, i), (share,)) for i in range(4)]
        np.testing.assert_array_equal(result.value, jnp.concatenate(parts)[:count])
        assert result.prior_logits.shape == (count, 2)
    with pytest.raises(ValueError, match=r"leading axes \[2, 3\]"):
        divided_evaluator(keyed, mesh)(1.0, key, (jnp.zeros(2), jnp.zeros(3)))
    with pytest.raises(ValueError, match=r"mesh: its axes are \{'a': 2, 'b': 2\}"):
        divided_evaluator(keyed, jax.make_mesh((2, 2), ("a", "b")))

    bits = jax.random.key_data(key)
    lowered = lambda bits: jax.tree.leaves(run(spread, codes, jax.random.wrap_key_data(bits)))
    with mode.every_platform():
        assert jax.export.export(jax.jit(lowered), platforms=["tpu"])(bits).nr_devices == 4


if __name__ == "__main__":
    main()
    print("all is as on one device")
