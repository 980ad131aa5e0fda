"""The value of a node by its children: the operators of `SearchConfig.backup`.

An operator is a hashable callable ``Edges -> f32[]``. It sees a node's children (an entry without
visits is none) with their own backup values as Q, and as V the mean of the node's own evaluation
and all its simulations. Gelly & Silver (2011) have the mean; Coulom (2006), "Efficient Selectivity
and Backup Operators in Monte-Carlo Tree Search", compares it with others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from gozero.runs.settings import AT_LEAST_0, check_ranges
from gozero.search.edges import Edges

Operator = Callable[[Edges], jax.Array]


def max_backup(edges: Edges) -> jax.Array:
    """f32[]: max Q, as in minimax. Right in the end, but the luckiest child decides until then."""
    return jnp.max(jnp.where(edges.visits > 0, edges.q, -1.0))


@dataclasses.dataclass(frozen=True)
class MixBackup:
    """From the mean towards the most visited child's value as its simulations grow.

    (K V + N_max Q_max) / (K + N_max), written V + N_max / (K + N_max) (Q_max - V): N_max and Q_max
    are those of the most visited child, the earliest among equals. Coulom (2006), section 4, the
    "Mix" operator, where K is MeanWeight. (There K grows in a node of very many simulations, and
    the second child is looked at too; here neither.)

    Attributes:
      mean_weight: K, simulations that the mean counts for; 0: robust max, the most visited
        child's value alone. Coulom has twice the points of the board.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    mean_weight: float = 128.0

    def __post_init__(self):
        check_ranges(self, mean_weight=AT_LEAST_0)

    def __call__(self, edges: Edges) -> jax.Array:
        most = jnp.max(edges.visits)
        is_it = jnp.arange(edges.visits.shape[0]) == jnp.argmax(edges.visits)
        q = jnp.sum(jnp.where(is_it, edges.q, 0.0))
        count = most.astype(jnp.float32)
        weight = count / jnp.maximum(self.mean_weight + count, 1.0)
        return edges.value + weight * (q - edges.value)
