"""Rules that leave actions out: progressive widening, and pruning by confidence."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from gozero.limits import MOST_VISITS
from gozero.runs.settings import ABOVE_0, COUNT, Range, check_ranges
from gozero.search import proofs
from gozero.search.edges import Edges, Needs, Rule, SelectionRule, as_rule, check_inner
from gozero.search.rules.puct import Puct


@dataclasses.dataclass(frozen=True)
class Widening(SelectionRule):
    """Progressive widening: a node considers its best actions by prior, more with more visits.

    Coulom (2007), "Computing Elo ratings of move patterns in the game of Go", section 4: the second
    action is considered after t_1 visits of the node's actions, and t_(n+1) = t_n + 40 1.4^n. Among
    the considered actions, `rule` chooses. An action that is proven to lose does not count.

    Attributes:
      rule: the rule; untried actions come in the order of their priors, whatever its own order.
      first: t_1, 40 in the paper.
      growth: 1.4 in the paper.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    rule: Rule = Puct()  # noqa: RUF009 (frozen)
    first: float = 40.0
    growth: float = 1.4

    def __post_init__(self):
        check_ranges(self, first=ABOVE_0, growth=Range(1.01))
        check_inner(self.rule)

    def __call__(self, edges: Edges) -> jax.Array:
        untried = edges.visits == 0
        counts = ~untried & edges.legal
        if edges.proven is not None:
            counts &= edges.proven != proofs.LOSS
        considered = 1 + jnp.sum(edges.total >= _thresholds(self.first, self.growth))
        is_next = untried & edges.legal
        is_next &= edges.prior == jnp.max(jnp.where(is_next, edges.prior, -jnp.inf))
        is_open = is_next & (jnp.sum(counts) < considered)
        return jnp.where(untried & ~is_open, -jnp.inf, as_rule(self.rule)(edges))

    @property
    def needs(self) -> Needs:
        return as_rule(self.rule).needs._replace(siblings=True)


_MOST_ACTIONS = 1024


@functools.cache
def _thresholds(first: float, growth: float) -> np.ndarray:
    """i32[J]: t_1, t_2, ..., up to the most visits that a tree can have."""
    thresholds, t, step = [], 0.0, first
    while len(thresholds) < _MOST_ACTIONS and t + step <= MOST_VISITS:
        t, step = t + step, step * growth
        thresholds.append(int(np.ceil(t)))
    return np.array(thresholds, np.int32)


@dataclasses.dataclass(frozen=True)
class Pruning(SelectionRule):
    """Progressive pruning: skip actions whose upper bound is below another action's lower bound.

    Bouzy & Helmstetter (2003), "Monte-Carlo Go developments": the bounds are
    Q +- r sqrt(variance / N), for actions with at least `least` visits. In the paper, pruned
    actions stay pruned; here, one returns if the other's lower bound falls below its upper bound.

    Attributes:
      rule: chooses among the others.
      deviations: r.
      least: the visits that an action needs in order to prune or to be pruned.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    rule: Rule = Puct()  # noqa: RUF009 (frozen)
    deviations: float = 2.0
    least: int = 16

    def __post_init__(self):
        check_ranges(self, deviations=ABOVE_0, least=COUNT)
        check_inner(self.rule)

    def __call__(self, edges: Edges) -> jax.Array:
        return jnp.where(self.pruned(edges), -jnp.inf, as_rule(self.rule)(edges))

    def pruned(self, edges: Edges) -> jax.Array:
        """bool[K]: the pruned actions."""
        assert edges.variance is not None  # `needs` includes it
        n = jnp.maximum(edges.visits, 1).astype(jnp.float32)
        reach = self.deviations * jnp.sqrt(edges.variance / n)
        is_settled = edges.legal & (edges.visits >= self.least)
        bar = jnp.max(jnp.where(is_settled, edges.q - reach, -jnp.inf))
        return is_settled & (edges.q + reach < bar)

    @property
    def needs(self) -> Needs:
        return as_rule(self.rule).needs._replace(variance=True, siblings=True)

    def rank_untried(self, prior: jax.Array) -> jax.Array:
        return as_rule(self.rule).rank_untried(prior)
