"""The operators of `SearchConfig.backup`, which compute a node's value from its children.

An operator is a hashable callable ``Edges -> f32[]``. It sees a node's children (entries without
visits are padding) with their own backup values as Q, and as V the mean of the node's own
evaluation and all its simulations. Gelly & Silver (2011) use the mean; Coulom (2006), "Efficient
Selectivity and Backup Operators in Monte-Carlo Tree Search", compares it with others.
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
    """f32[]: max Q, as in minimax. Right in the limit; until then the luckiest child decides."""
    return jnp.max(jnp.where(edges.visits > 0, edges.q, -1.0))


@dataclasses.dataclass(frozen=True)
class MixBackup:
    """A mix of the mean and the most visited child's value, whose weight grows with its visits.

    (K V + N_max Q_max) / (K + N_max), written V + N_max / (K + N_max) (Q_max - V): N_max and Q_max
    are those of the most visited child, the earliest among equals. Coulom (2006), section 4, the
    "Mix" operator, where K is MeanWeight. (There, K grows at nodes with very many simulations, and
    the second child is considered too; neither is done here.)

    Attributes:
      mean_weight: K, the number of simulations that the mean counts for; 0: robust max, the most
        visited child's value alone. Coulom uses twice the number of points of the board.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    mean_weight: float = 128.0

    def __post_init__(self):
        check_ranges(self, mean_weight=AT_LEAST_0)

    def __call__(self, edges: Edges) -> jax.Array:
        max_visits = jnp.max(edges.visits)
        is_most_visited = jnp.arange(edges.visits.shape[0]) == jnp.argmax(edges.visits)
        q = jnp.sum(jnp.where(is_most_visited, edges.q, 0.0))
        count = max_visits.astype(jnp.float32)
        weight = count / jnp.maximum(self.mean_weight + count, 1.0)
        return edges.value + weight * (q - edges.value)
