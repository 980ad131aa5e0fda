"""A rule for solving positions."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from gozero.search import proofs
from gozero.search.edges import Edges, Needs, Rule, SelectionRule, as_rule, check_inner
from gozero.search.rules.puct import Puct


@dataclasses.dataclass(frozen=True)
class ProveFirst(SelectionRule):
    """A selection rule that visits actions proven to draw only if there are no others.

    For solving positions: another visit to a proven draw yields nothing, and a rule that prefers
    its value would spend most of its visits there. Not for play: at a node whose best action is a
    draw, the visits then say less about which action is best.

    Attributes:
      rule: for the other actions.

    Raises:
      ValueError: the rule also chooses the move or the policy target of a root.
    """

    rule: Rule = Puct()  # noqa: RUF009 (frozen)

    def __post_init__(self):
        check_inner(self.rule)

    def __call__(self, edges: Edges) -> jax.Array:
        scores = as_rule(self.rule)(edges)
        if edges.proven is None:
            return scores
        return jnp.where(edges.proven == proofs.DRAW, proofs.LEAST / 2, scores)

    def evaluation(self, edges: Edges) -> jax.Array:
        return as_rule(self.rule).evaluation(edges)

    @property
    def needs(self) -> Needs:
        return as_rule(self.rule).needs

    def rank_untried(self, prior: jax.Array) -> jax.Array:
        return as_rule(self.rule).rank_untried(prior)
