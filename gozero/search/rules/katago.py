"""KataGo's rule of selection."""

from __future__ import annotations

import dataclasses

import chex
import jax
import jax.numpy as jnp

from gozero.runs.settings import ABOVE_0, AT_LEAST_0, check_ranges
from gozero.search.edges import Edges, Needs, SelectionRule


@dataclasses.dataclass(frozen=True)
class KataGoPuct(SelectionRule):
    """Q + U as KataGo 1.17 has it, with the numbers of its GTP engine.

    U = c P sqrt(n + 0.01) / (1 + N), n = sum N, c = c_puct + c_log log((n + c_base) / c_base).
    An action without visits has Q = w V + (1 - w) v - reduction sqrt(p): p is the prior mass of the
    visited actions, w = min(1, p^power), V the mean of all visits and v the node's own evaluation.

    Of KataGo's search this leaves out the factor of the spread of utilities, the weights of visits
    by uncertainty, and the shared nodes of its graph. For its root see `at_root`.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    c_puct: float = 1.0
    c_log: float = 0.45
    c_base: float = 500.0
    reduction: float = 0.2
    power: float = 2.0

    needs = Needs(raw_value=True, siblings=True)
    in_kernel = True
    in_lanes = True

    def __post_init__(self):
        check_ranges(self, c_puct=AT_LEAST_0, c_log=AT_LEAST_0, c_base=ABOVE_0)
        check_ranges(self, reduction=AT_LEAST_0, power=AT_LEAST_0)

    @property
    def at_root(self) -> KataGoPuct:
        """The rule of a root, for `SearchConfig.root_select`: half the reduction."""
        return dataclasses.replace(self, reduction=self.reduction / 2)

    def __call__(self, edges: Edges) -> jax.Array:
        """f32[K]: -inf where illegal."""
        chex.assert_equal_shape([edges.prior, edges.visits, edges.q])
        assert edges.raw_value is not None  # it is asked for
        visited = edges.visits > 0
        mass = jnp.clip(jnp.sum(jnp.where(visited, edges.prior, 0.0)), 0.0, 1.0)
        share = mass**self.power
        first = share * edges.value + (1.0 - share) * edges.raw_value
        q = jnp.where(visited, edges.q, first - self.reduction * jnp.sqrt(mass))
        total = edges.total.astype(jnp.float32)
        c = self.c_puct + self.c_log * jnp.log((total + self.c_base) / self.c_base)
        bonus = c * jnp.sqrt(total + 0.01) * edges.prior / (1.0 + edges.visits.astype(jnp.float32))
        return jnp.where(edges.legal, q + bonus, -jnp.inf)
