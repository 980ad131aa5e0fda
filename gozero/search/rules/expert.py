"""A bias towards the moves that priors prefer, which fades as a move is simulated."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from gozero.runs.settings import AT_LEAST_0, check_ranges
from gozero.search.edges import Edges, Needs, SelectionRule
from gozero.search.rules.estimators import Estimators
from gozero.search.rules.rave import Rave


@dataclasses.dataclass(frozen=True)
class ExpertBias(SelectionRule):
    """rule + (C / log(2 + N) + w / (1 + N~)) H: MoGo's expert knowledge.

    After Chaslot, Fiter, Hoock, Rimmel & Teytaud (2010), "Adding expert knowledge and exploration
    in Monte-Carlo tree search", whose text was not available: the details may differ. H is what
    experts and patterns think of a move, here its prior. The first part fades very slowly and takes
    the place of an exploration bonus; the second fades with the all-moves-as-first visits.

    Attributes:
      rule: the values of moves, as probabilities of winning.
      bonus: C.
      visits: w. These two values are the only ones that were tried, see experiments/surveyed.

    Raises:
      ValueError: naming the field, what it was and what is allowed; both are 0.
    """

    rule: Rave | Estimators = Rave()  # noqa: RUF009 (frozen)
    bonus: float = 0.1
    visits: float = 1.0

    def __post_init__(self):
        check_ranges(self, bonus=AT_LEAST_0, visits=AT_LEAST_0)
        if self.bonus == self.visits == 0:
            raise ValueError("bonus, visits: both are 0, so there is no bias; use the rule")

    @property
    def needs(self) -> Needs:
        return self.rule.needs

    def __call__(self, edges: Edges) -> jax.Array:
        assert edges.amaf_visits is not None  # `needs` includes them
        amaf_visits = edges.amaf_visits.astype(jnp.float32)
        lasting = self.bonus / jnp.log(2.0 + edges.visits.astype(jnp.float32))
        fading = self.visits / (1.0 + amaf_visits)
        score = self.rule(edges) + (lasting + fading) * edges.prior
        return jnp.where(edges.legal, score, -jnp.inf)

    def evaluation(self, edges: Edges) -> jax.Array:
        return self.rule.evaluation(edges)
