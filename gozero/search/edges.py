"""The edges of one node, as a selection rule sees them, and the choice among them.

A selection rule is a hashable callable ``Edges -> f32[K]``; a higher score is better. Rules
are passed in the search's configuration, and a frozen dataclass makes one with parameters.
Of the actions of a node that have not been visited the rule sees the best one only: the one with
the highest prior, unless the rule has a method ``rank_untried(prior f32[A]) -> f32[A]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval

from gozero.hashing import mix


class Edges(NamedTuple):
    """What is known of K actions of one node, seen from the player to move there.

    While the search descends, they are the visited actions and the best of the others.
    """

    prior: jax.Array  # P, f32[K]: -inf where illegal
    visits: jax.Array  # N, i32[K]; with what a heuristic's guess counts for
    q: jax.Array  # Q, f32[K] in [-1, 1]: the mean value, 0 where not visited
    value: jax.Array  # V, f32[]: the mean of the node's own evaluation and all its visits
    total: jax.Array  # sum N, i32[]: over all actions of the node, be they among the K or not
    raw_value: jax.Array | None = None  # f32[]: the node's own evaluation, for a rule that asks
    amaf_visits: jax.Array | None = None  # N~, i32[K], if the search keeps them
    amaf_q: jax.Array | None = None  # Q~, f32[K] in [-1, 1], 0 where N~ is
    proven: jax.Array | None = None  # i8[K]: what the action comes to, see `proofs`, if it is kept

    @property
    def legal(self) -> jax.Array:
        """bool[A]."""
        return self.prior >= 0


Rule = Callable[[Edges], jax.Array]


def score_edges(rule: Rule, edges: Edges) -> jax.Array:
    """f32[M, K]: what a rule says of M nodes, of Edges [M, ...].

    What the rule does not look at is made to look needed: XLA:CPU stops the process where it finds
    an array of a kernel of the search to be useless (jaxlib 0.10.1; `compile.stages.one_kernel`).
    """
    found = jax.vmap(rule)(edges)
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), edges)
    said = jax.make_jaxpr(rule)(one).jaxpr
    _, used = partial_eval.dce_jaxpr(said, [True])
    for x, is_used in zip(jax.tree.leaves(edges), used, strict=True):
        if x.ndim == 2 and not is_used:
            is_whole = jnp.issubdtype(x.dtype, jnp.integer)
            is_number = x > jnp.iinfo(x.dtype).min if is_whole else x == x
            found = jnp.where(is_number, found, -jnp.inf)
    return found


def rank_untried(rule: Callable, prior: jax.Array) -> jax.Array:
    """f32[A]: the order in which a rule tries actions, best first; -inf where illegal.

    By their priors f32[A], or as the rule's own `rank_untried` says.
    """
    return rule.rank_untried(prior) if hasattr(rule, "rank_untried") else prior


def best_edge(scores: jax.Array, priority: jax.Array) -> jax.Array:
    """i32[]: the action with the highest score; among equals the highest priority.

    Args:
      scores: f32[A], -inf for actions that may not be chosen.
      priority: u32[A], as `tie_break` gives it. Among equals in both, the lowest action.
    """
    chex.assert_equal_shape([scores, priority])
    best = scores == jnp.max(scores)
    top = jnp.max(jnp.where(best, priority, 0))
    action = jnp.arange(scores.shape[0], dtype=jnp.int32)
    first = jnp.where(best & (priority == top), action, scores.shape[0])
    # If every score is nan nothing is best: stay inside the row all the same.
    return jnp.minimum(jnp.min(first), scores.shape[0] - 1)


def tie_break(salt: jax.Array, node: jax.Array, choices: jax.Array) -> jax.Array:
    """u32[K]: a random order of what may be chosen at a node, the same at every visit.

    Args:
      salt: u32[]; one a tree and search.
      node: i32[].
      choices: i32[K], a number for each: actions, or child nodes.
    """
    seed = mix(salt + node.astype(jnp.uint32) * np.uint32(0x9E3779B9))
    return mix(seed ^ (choices.astype(jnp.uint32) * np.uint32(0x85EBCA6B)))
