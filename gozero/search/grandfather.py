"""The grandfather heuristic: a new node begins with what its player knew two plies before.

Gelly & Silver (2011), section 5.1: Q_grand(s_t, a) = Q(s_{t-2}, a).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gozero.search import tree as trees
from gozero.search.backup import Path
from gozero.search.config import Grandfather
from gozero.search.game import Heuristic
from gozero.search.tree import ROOT, Tree


class Known(NamedTuple):
    """What the grandfathers of new nodes know of the actions, for the player to move at both."""

    value: jax.Array  # f32[B, A]
    is_known: jax.Array  # bool[B, A]

    @property
    def is_sound(self) -> jax.Array:
        """bool[B]: the values are no larger than 2; always so, but the compiler does not know."""
        return jnp.all(jnp.abs(self.value) <= 2, axis=1)

    def believed(self, grandfather: Grandfather, legal: jax.Array) -> Heuristic:
        """What the nodes begin with, where bool[B, A] is legal."""
        count = lambda most: jnp.where(self.is_known & legal, most, 0)
        visits, amaf_visits = count(grandfather.visits), count(grandfather.amaf_visits)
        return Heuristic(self.value, visits, self.value, amaf_visits)


def known(tree: Tree, path: Path) -> Known:
    """What is known two plies above nodes that would be added where paths end; at a root nothing.

    Args:
      tree: the trees, without the nodes.
      path: the paths, to the parents of the nodes.
    """
    level = jnp.maximum(path.length - 1, 0)
    node = jnp.take_along_axis(path.nodes, level[None], axis=0)[0]
    edges = trees.all_edges(tree, jnp.maximum(node, ROOT))
    value, is_known = edges.q, edges.visits > 0
    if edges.amaf_visits is not None and edges.amaf_q is not None:
        value = jnp.where(is_known, value, edges.amaf_q)
        is_known |= edges.amaf_visits > 0
    return Known(value, is_known & (path.length >= 1)[:, None])
