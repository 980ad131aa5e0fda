"""The peers in the array-tree experiment build the same tree."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.array_tree import run
from experiments.array_tree.config import ArrayTreeConfig
from experiments.array_tree.numpy_tree import NumpyTree
from experiments.array_tree.object_tree import ObjectTree


@pytest.mark.parametrize("leaves", [1, 4])
def test_objects_and_arrays_grow_the_same_tree(leaves):
    num_actions, steps = 7, 120
    rng = np.random.RandomState(leaves)
    priors = rng.dirichlet(np.ones(num_actions), 50).astype(np.float32)
    values = (rng.rand(50) * 2 - 1).astype(np.float32)
    arguments = (num_actions, steps * leaves + 1, priors, values)
    objects, arrays = ObjectTree(*arguments), NumpyTree(*arguments)
    for _ in range(steps):
        objects.step(leaves)
        arrays.step(leaves)
    assert _seen(objects.root) == _rows(arrays, 0)
    assert objects.edges == arrays.edges > steps * leaves
    assert objects.evaluated == arrays.evaluations == steps * leaves + 1


@pytest.mark.parametrize("kind", ["objects", "numpy"])
def test_a_row_of_each_peer(kind):
    config = ArrayTreeConfig(20, actions=5, seconds=0.02, leaves=(4,), repeats=1)
    row = run.measure_peer(config, kind)
    assert (row.tree, row.leaves, row.simulations) == (kind, 4, 20)
    assert row.long_simulations % 4 == 0
    assert row.seconds > 0
    assert row.depth >= 1


def _seen(node):
    """{action: (visits, the same for its child)} of the visited children."""
    return {a: (c.visits, _seen(c)) for a, c in node.children.items() if c.visits}


def _rows(tree, node):
    return {
        int(a): (int(tree.visits[node, a]), _rows(tree, tree.child[node, a]))
        for a in np.flatnonzero(tree.visits[node])
    }
