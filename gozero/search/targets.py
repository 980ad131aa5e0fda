"""Policy targets from the root's statistics."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gozero.search.selection import Edges, ForcedPlayouts, exploration, num_forced


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


def visit_policy(visits: jax.Array, prior: jax.Array) -> jax.Array:
    """The share of each action in the root's visits: pi = N / sum N.

    Silver et al. (2017). Without visits (a finished game) it is the prior over the legal
    actions.

    Args:
      visits: N, i32[A].
      prior: f32[A], -inf where illegal.

    Returns:
      f32[A], summing to 1.
    """
    chex.assert_equal_shape([visits, prior])
    total = jnp.sum(visits)
    share = visits.astype(jnp.float32) / jnp.maximum(total, 1).astype(jnp.float32)
    return jnp.where(total > 0, share, jnp.maximum(prior, 0.0))
