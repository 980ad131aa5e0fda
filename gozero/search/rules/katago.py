"""KataGo's selection rule, and its choice of the move."""

from __future__ import annotations

import dataclasses

import chex
import jax
import jax.numpy as jnp

from gozero.runs.settings import ABOVE_0, AT_LEAST_0, check_ranges
from gozero.search.edges import Edges, Needs, SelectionRule, best_by_sample
from gozero.search.score import ScoreUtility

_USUAL_SPREAD, _USUAL_WEIGHT = 0.4, 2.0
"""The assumed standard deviation of a node's values, and the visits that it counts for."""


@dataclasses.dataclass(frozen=True)
class KataGoPuct(SelectionRule):
    """Q + U as in KataGo 1.17, with the parameters of its GTP engine.

    U = c f P sqrt(n + 0.01) / (1 + N), n = sum N, c = c_puct + c_log log((n + c_base) / c_base),
    f = 1 + spread (s / 0.4 - 1), where s is the standard deviation of all values below the node,
    including its own, see `deviation`. An action without visits has
    Q = w V + (1 - w) v - reduction sqrt(p), where p is the prior mass of the visited actions,
    w = min(1, p^power), V the mean of all visits and v the node's own evaluation.

    With `score`, all values include the score utility. Parts of KataGo's search that are left out:
    the weights of visits, and the shared nodes of its graph. For the root see `at_root`.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    c_puct: float = 1.0
    c_log: float = 0.45
    c_base: float = 500.0
    reduction: float = 0.2
    power: float = 2.0
    spread: float = 0.85
    score: ScoreUtility | None = None

    in_kernel = True
    in_lanes = True

    def __post_init__(self):
        check_ranges(self, c_puct=AT_LEAST_0, c_log=AT_LEAST_0, c_base=ABOVE_0)
        check_ranges(self, reduction=AT_LEAST_0, power=AT_LEAST_0, spread=AT_LEAST_0)

    @property
    def needs(self) -> Needs:
        return Needs(raw_value=True, siblings=True, variance=self.spread > 0, score=self.score)

    @property
    def at_root(self) -> KataGoRoot:
        """The rule for a root, for `SearchConfig.root_select`: with half the reduction."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return KataGoRoot(**{**fields, "reduction": self.reduction / 2})

    def __call__(self, edges: Edges) -> jax.Array:
        """f32[K]: -inf where illegal."""
        chex.assert_equal_shape([edges.prior, edges.visits, edges.q])
        assert edges.raw_value is not None  # `needs` includes it
        visited = edges.visits > 0
        mass = jnp.clip(jnp.sum(jnp.where(visited, edges.prior, 0.0)), 0.0, 1.0)
        share = mass**self.power
        first = share * edges.value + (1.0 - share) * edges.raw_value
        q = jnp.where(visited, edges.q, first - self.reduction * jnp.sqrt(mass))
        bonus = self._weight(edges) * edges.prior / (1.0 + edges.visits.astype(jnp.float32))
        return jnp.where(edges.legal, q + bonus, -jnp.inf)

    def _weight(self, edges: Edges) -> jax.Array:
        """f32[]: c f sqrt(n + 0.01)."""
        total = edges.total.astype(jnp.float32)
        c = self.c_puct + self.c_log * jnp.log((total + self.c_base) / self.c_base)
        if self.spread > 0:
            c *= 1.0 + self.spread * (deviation(edges) / _USUAL_SPREAD - 1.0)
        return c * jnp.sqrt(total + 0.01)


def deviation(edges: Edges) -> jax.Array:
    """f32[]: the standard deviation of the values below a node, including its own evaluation.

    A prior deviation of 0.4, which counts as two visits, is mixed in.
    """
    assert edges.variance is not None
    assert edges.raw_value is not None
    total, visits = edges.total.astype(jnp.float32), edges.visits.astype(jnp.float32)
    squares = jnp.where(edges.visits > 0, edges.variance + edges.q**2, 0.0)
    squares_sum = edges.raw_value**2 + jnp.sum(visits * squares)  # over 1 + n values
    mean = edges.value**2
    squares_sum = jnp.maximum(squares_sum, (1.0 + total) * mean)
    prior_squares = (mean + _USUAL_SPREAD**2) * _USUAL_WEIGHT
    variance = (prior_squares + squares_sum) / (_USUAL_WEIGHT + total) - mean
    return jnp.where(total > 0, jnp.sqrt(jnp.maximum(variance, 0.0)), _USUAL_SPREAD)


@dataclasses.dataclass(frozen=True)
class KataGoRoot(KataGoPuct):
    """`KataGoPuct` for a root, which also chooses the move; in KataGo `getPlaySelectionValues`.

    It plays the move with the highest lower bound among those with enough visits: 0.15 of the
    visits of the most visited one. Visits that the rule would not make again with the final values
    do not count here.
    """

    least_share = 0.15

    @property
    def needs(self) -> Needs:
        return super().needs._replace(variance=True)

    @property
    def radius(self) -> float:
        """The largest possible absolute value."""
        return 1.0 if self.score is None else 1.0 + self.score.most

    def final_action(self, edges: Edges, gumbel: jax.Array) -> jax.Array:  # pyright: ignore
        """i32[]: the action to play, of a root's [A]; without visits, the highest prior. `gumbel`
        decides among equals."""
        assert edges.variance is not None
        tried = edges.legal & (edges.visits > 0)
        visits = edges.visits.astype(jnp.float32)
        top = jnp.argmax(jnp.where(tried, visits - 1.0 + 2.0 * edges.prior, -jnp.inf))
        weight = self._weight(edges)
        best = edges.q[top] + weight * edges.prior[top] / (1.0 + visits[top])
        shortfall = jnp.maximum(best - edges.q, 1e-9)
        justified = jnp.maximum(weight * edges.prior / shortfall - 1.0, 0.0)
        counted = jnp.ceil(jnp.minimum(visits, justified)).at[top].set(visits[top])
        least = self.least_share * visits[top] - 1e-3  # visits are whole; 0.15 is inexact in f32
        enough = tried & (counted > 0) & (counted >= least)
        bounds = lower_bound(edges.visits, edges.q, edges.variance, radius=self.radius)
        bounds = jnp.where(enough, bounds, -jnp.inf)
        return best_by_sample(jnp.where(jnp.any(enough), bounds, edges.prior), gumbel)


def lower_bound(
    visits: jax.Array,
    q: jax.Array,
    variance: jax.Array,
    deviations: float = 5.0,
    radius: float = 1.0,
) -> jax.Array:
    """f32[A]: Q minus `deviations` standard errors.

    The largest possible variance is mixed in with weight 1 / N^2; 0 visits count as one.

    Args:
      visits: N, i32[A].
      q: Q, f32[A].
      variance: f32[A], of the values averaged in Q.
      deviations: the number of standard errors.
      radius: the largest possible |Q|.
    """
    chex.assert_equal_shape([visits, q, variance])
    n = jnp.maximum(visits, 1).astype(jnp.float32)
    prior_weight = 1.0 / n**2
    mixed_variance = jnp.maximum(variance, 1e-8) + radius**2 * prior_weight / (n + prior_weight)
    independent = (n + prior_weight) ** 2 / (n + prior_weight**2)
    return q - deviations * jnp.sqrt(mixed_variance / independent)
