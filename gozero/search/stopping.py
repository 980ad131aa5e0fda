"""When a search may end: no simulation that is left can change what is played.

A simulation gives one visit to one action of the root. So the most visited one stays it when it
is more visits ahead of the second than simulations are left.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.search import rows
from gozero.search import tree as trees
from gozero.search.tree import ROOT, Tree

_WIDTHS = 8, 32
"""Children: where no root has more than these, no more are looked at."""


def decided(tree: Tree, left: jax.Array | int) -> jax.Array:
    """bool[B]: the most visited action of the root cannot be overtaken, nor reached.

    Args:
      tree: the trees.
      left: i32[], simulations that each of them may still do.

    Returns:
      True also where the game is over.
    """
    counted = tree.replace(guess=None)
    lanes = jnp.arange(tree.num_trees, dtype=jnp.int32)

    def lead(width):
        visits = trees.children(counted, lanes, jnp.zeros_like(lanes), width).edges.visits
        is_best = jnp.arange(width)[None] == jnp.argmax(visits, axis=1)[:, None]
        return jnp.max(visits, axis=1) - jnp.max(jnp.where(is_best, 0, visits), axis=1)

    widths = np.array([*(width for width in _WIDTHS if width < tree.num_actions), tree.num_actions])
    most = jnp.max(rows.read(tree.num_children, tree.row(ROOT)))
    branches = [functools.partial(lead, int(width)) for width in widths]
    ahead = lax.switch(jnp.sum(most > widths), branches)
    return (ahead > left) | rows.read(tree.over, tree.row(ROOT))


def while_open(
    start: jax.Array,
    end: jax.Array | int,
    simulate: Callable[[jax.Array, Any], Any],
    grown: Any,
    is_open: Callable[[Tree, jax.Array], jax.Array],
) -> tuple[jax.Array, Any]:
    """``fori_loop(start, end, simulate, grown)`` that ends where nothing is open.

    Args:
      start, end: i32[].
      simulate: (i, grown) -> grown; the trees are the first of `grown`.
      grown: what the loop carries.
      is_open: (tree, i) -> bool[]: whether step i is to be done. One for all trees: a loop must
        not carry a tree under a batched predicate.

    Returns:
      (the step that was not done, grown). Trip bound: end - start.
    """

    def step(carry):
        i, _, grown = carry
        grown = simulate(i, grown)
        return i + 1, is_open(grown[0], i + 1), grown

    start = jnp.asarray(start, jnp.int32)
    carry = start, is_open(grown[0], start), grown
    i, _, grown = lax.while_loop(lambda carry: (carry[0] < end) & carry[1], step, carry)
    return i, grown
