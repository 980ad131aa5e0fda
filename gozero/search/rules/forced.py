"""Forced playouts at the root, and their removal from policy targets: Wu (2019), section 3.2."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from gozero.runs.settings import ABOVE_0, check_ranges
from gozero.search.edges import Edges, Needs, SelectionRule
from gozero.search.move_choice import visit_policy
from gozero.search.rules.puct import Puct, exploration


def num_forced(edges: Edges, k: float) -> jax.Array:
    """f32[K]: the fewest visits that each visited action of a root should have, sqrt(k P sum N).

    Wu (2019), section 3.2, with k = 2.
    """
    total = edges.total.astype(jnp.float32)
    forced = jnp.sqrt(k * jnp.maximum(edges.prior, 0.0) * total)
    return jnp.where(edges.visits > 0, forced, 0.0)


@dataclasses.dataclass(frozen=True)
class ForcedPlayouts(SelectionRule):
    """A root's rule: every visited action first gets `num_forced` visits, then `rule` chooses.

    So an action that noise has led to is explored enough to show its value. The forced visits are
    removed from the policy target by `pruned_visits`. Wu (2019), section 3.2.

    Raises:
      ValueError: k is not above 0, or the rule is not a `Puct`, whose bonus decides how many visits
        were only forced.
    """

    rule: Puct = Puct()  # noqa: RUF009 (frozen)
    k: float = 2.0

    def __post_init__(self):
        check_ranges(self, k=ABOVE_0)
        if type(self.rule) is not Puct:
            raise ValueError(f"rule: {self.rule!r} is not a Puct")

    def __call__(self, edges: Edges) -> jax.Array:
        forced = edges.visits.astype(jnp.float32) < num_forced(edges, self.k)
        return jnp.where(forced, jnp.inf, self.rule(edges))

    @property
    def needs(self) -> Needs:
        return self.rule.needs

    def policy_target(self, edges: Edges) -> jax.Array:
        """f32[A]: the visit shares, without visits that were only forced."""
        return visit_policy(pruned_visits(edges, self), edges.prior)


def pruned_visits(edges: Edges, rule: ForcedPlayouts) -> jax.Array:
    """A root's visits without those that were only forced.

    Wu (2019), section 3.2: from each action but the most visited one, up to `num_forced` visits are
    removed, as long as the rule would still not prefer it to that one; if a single visit is left,
    it is removed too. Of several most visited actions the one with the highest value counts as that
    one, which the paper leaves open.

    Args:
      edges: the root's actions, with the statistics of the finished search; values of actions
        without visits do not matter.
      rule: the root's rule.

    Returns:
      i32[A].
    """
    visits, puct = edges.visits, rule.rule
    best = jnp.argmax(jnp.where(visits == jnp.max(visits), edges.q, -jnp.inf))
    bar = puct(edges)[best]
    weight = exploration(edges, puct.c_puct, puct.c_base) * jnp.maximum(edges.prior, 0.0)
    # The smallest n with Q + weight / (1 + n) < bar; infinite if Q alone reaches the bar.
    margin = bar - edges.q
    needed = jnp.floor(weight / jnp.where(margin > 0, margin, 1.0) - 1.0) + 1.0
    needed = jnp.where(margin > 0, jnp.maximum(needed, 0.0), jnp.inf)
    unforced = visits.astype(jnp.float32) - jnp.floor(num_forced(edges, rule.k))
    kept_visits = jnp.minimum(visits.astype(jnp.float32), jnp.maximum(unforced, needed))
    kept_visits = jnp.where(kept_visits <= 1, 0.0, kept_visits).astype(jnp.int32)
    return jnp.where(jnp.arange(visits.shape[0]) == best, visits, kept_visits)
