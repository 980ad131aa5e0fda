"""A rule for solving positions."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from gozero.search import proofs
from gozero.search.edges import Edges, Needs, Rule, SelectionRule, as_rule
from gozero.search.rules.puct import Puct


@dataclasses.dataclass(frozen=True)
class ProveFirst(SelectionRule):
    """A selection rule that visits actions proven drawn only if it has no others.

    For solving positions: nothing is learnt from another visit to a draw, and a rule that likes
    its value spends most of its visits there. What the visits say of a node whose best action is
    a draw means less for it, so not for play.

    Attributes:
      rule: for the other actions.
    """

    rule: Rule = Puct()  # noqa: RUF009 (frozen)

    def __call__(self, edges: Edges) -> jax.Array:
        scores = self.rule(edges)
        if edges.proven is None:
            return scores
        return jnp.where(edges.proven == proofs.DRAW, proofs.LEAST / 2, scores)

    @property
    def needs(self) -> Needs:
        return as_rule(self.rule).needs

    def rank_untried(self, prior: jax.Array) -> jax.Array:
        return as_rule(self.rule).rank_untried(prior)
