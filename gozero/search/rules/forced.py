"""Forced playouts at the root, and policy targets without them: Wu (2019), section 3.2."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from gozero.runs.settings import ABOVE_0, check_ranges
from gozero.search.edges import Edges, Needs, SelectionRule
from gozero.search.move_choice import visit_policy
from gozero.search.rules.puct import Puct, exploration


def num_forced(edges: Edges, k: float) -> jax.Array:
    """f32[K]: the visits that a root's visited actions are to have, sqrt(k P sum N).

    Wu (2019), section 3.2, with k = 2.
    """
    total = edges.total.astype(jnp.float32)
    wanted = jnp.sqrt(k * jnp.maximum(edges.prior, 0.0) * total)
    return jnp.where(edges.visits > 0, wanted, 0.0)


@dataclasses.dataclass(frozen=True)
class ForcedPlayouts(SelectionRule):
    """A root's rule: actions that have been visited are visited `num_forced` times, then `rule`.

    Noise then shows the value of an action, and `pruned_visits` takes the forced visits
    out of the policy target again, which is the rule's `policy_target`. Wu (2019), section 3.2.

    Raises:
      ValueError: a k that is not above 0.
    """

    rule: Puct = Puct()  # noqa: RUF009 (frozen)
    k: float = 2.0

    def __post_init__(self):
        check_ranges(self, k=ABOVE_0)

    def __call__(self, edges: Edges) -> jax.Array:
        forced = edges.visits.astype(jnp.float32) < num_forced(edges, self.k)
        return jnp.where(forced, jnp.inf, self.rule(edges))

    @property
    def needs(self) -> Needs:
        return self.rule.needs

    def policy_target(self, edges: Edges) -> jax.Array:
        """f32[A]: the shares of the visits that were not only forced."""
        return visit_policy(pruned_visits(edges, self), edges.prior)


def pruned_visits(edges: Edges, rule: ForcedPlayouts) -> jax.Array:
    """A root's visits without those that were only forced.

    Wu (2019), section 3.2: of each action but the most visited one, up to `num_forced` visits go
    as long as the rule would still not prefer it to that one; a single visit left goes too.

    Args:
      edges: the root's actions, with the statistics of the finished search; its values of the
        actions without visits do not matter.
      rule: the root's rule.

    Returns:
      i32[A].
    """
    visits, puct = edges.visits, rule.rule
    best = jnp.argmax(visits)
    bar = puct(edges)[best]
    weight = exploration(edges, puct.c_puct, puct.c_base) * jnp.maximum(edges.prior, 0.0)
    # Q + weight / (1 + n) < bar from the first n above this on; never, if Q alone reaches it.
    margin = bar - edges.q
    needed = jnp.floor(weight / jnp.where(margin > 0, margin, 1.0) - 1.0) + 1.0
    needed = jnp.where(margin > 0, jnp.maximum(needed, 0.0), jnp.inf)
    unforced = visits.astype(jnp.float32) - jnp.floor(num_forced(edges, rule.k))
    left = jnp.minimum(visits.astype(jnp.float32), jnp.maximum(unforced, needed))
    left = jnp.where(left <= 1, 0.0, left).astype(jnp.int32)
    return jnp.where(jnp.arange(visits.shape[0]) == best, visits, left)
