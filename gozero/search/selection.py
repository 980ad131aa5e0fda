"""Scores of one node's actions, and the choice among them.

A selection rule is a hashable callable ``Edges -> f32[A]``; a higher score is better. Rules
are passed in the search's configuration, and a frozen dataclass makes one with parameters.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gozero.hashing import mix


class Edges(NamedTuple):
    """What is known of K actions of one node, seen from the player to move there.

    While the search descends, they are the visited actions and the best of the others.
    """

    prior: jax.Array  # P, f32[K]: -inf where illegal
    visits: jax.Array  # N, i32[K]
    q: jax.Array  # Q, f32[K] in [-1, 1]: the mean value, 0 where not visited
    value: jax.Array  # V, f32[]: the mean of the node's own evaluation and all its visits

    @property
    def legal(self) -> jax.Array:
        """bool[A]."""
        return self.prior >= 0


def puct(edges: Edges, c_puct: float, fpu_reduction: float | None = None) -> jax.Array:
    """Q + U, the rule of AlphaGo Zero.

    Silver et al. (2017), Methods: U = c_puct P sqrt(1 + sum N) / (1 + N). The 1 under the
    root lets the priors decide the first visit. Illegal actions get -inf.

    Args:
      edges: the node's actions.
      c_puct: the weight of the prior.
      fpu_reduction: first-play urgency. None: an action not visited has Q = 0, as in the
        paper. A number r: it has V - r sqrt(sum of P over the visited), as in KataGo (Wu
        2019), so that a player ahead or behind still compares like with like.

    Returns:
      f32[A].
    """
    chex.assert_equal_shape([edges.prior, edges.visits, edges.q])
    visited = edges.visits > 0
    q = edges.q
    if fpu_reduction is not None:
        visited_prior = jnp.sum(jnp.where(visited, edges.prior, 0.0))
        q = jnp.where(visited, q, edges.value - fpu_reduction * jnp.sqrt(visited_prior))
    total = jnp.sum(edges.visits).astype(jnp.float32)
    exploration = c_puct * jnp.sqrt(1.0 + total)
    score = q + exploration * edges.prior / (1.0 + edges.visits.astype(jnp.float32))
    return jnp.where(edges.legal, score, -jnp.inf)


@dataclasses.dataclass(frozen=True)
class Puct:
    """`puct` as a selection rule."""

    c_puct: float = 1.5
    fpu_reduction: float | None = None

    def __call__(self, edges: Edges) -> jax.Array:
        return puct(edges, self.c_puct, self.fpu_reduction)


def choose(scores: jax.Array, priority: jax.Array) -> jax.Array:
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
