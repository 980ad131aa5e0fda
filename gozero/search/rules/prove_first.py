"""A rule for solving positions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from gozero.search import proofs
from gozero.search.edges import Edges, rank_untried
from gozero.search.rules.puct import Puct


@dataclasses.dataclass(frozen=True)
class ProveFirst:
    """A selection rule that visits actions proven drawn only if it has no others.

    For solving positions: nothing is learnt from another visit to a draw, and a rule that likes
    its value spends most of its visits there. What the visits say of a node whose best action is
    a draw is worth less for it, so not for play.

    Attributes:
      rule: for the other actions.
    """

    rule: Callable[[Edges], jax.Array] = Puct()  # noqa: RUF009 (frozen)

    def __call__(self, edges: Edges) -> jax.Array:
        scores = self.rule(edges)
        if edges.proven is None:
            return scores
        return jnp.where(edges.proven == proofs.DRAW, proofs.LEAST / 2, scores)

    @property
    def needs_raw_value(self) -> bool:
        return getattr(self.rule, "needs_raw_value", False)

    @property
    def needs_amaf(self) -> bool:
        return getattr(self.rule, "needs_amaf", False)

    @property
    def needs_siblings(self) -> bool:
        return getattr(self.rule, "needs_siblings", False)

    def rank_untried(self, prior: jax.Array) -> jax.Array:
        return rank_untried(self.rule, prior)
