"""The edges of one node, the rules that score them, and the choice of the best one.

A selection rule is a hashable callable ``Edges -> f32[K]``; a higher score is better. Any function
will do. A `SelectionRule`, a frozen dataclass in most cases, also declares what it needs of the
search, in which order it tries actions, and what it says of a finished root.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gozero.compile import indexing, mode
from gozero.hashing import mix


class Edges(NamedTuple):
    """What is known of K actions of one node, seen from the player to move there.

    While the search descends, they are the visited actions and the best of the others.
    """

    prior: jax.Array  # P, f32[K]: -inf where illegal
    visits: jax.Array  # N, i32[K]; with what a heuristic's value counts for
    q: jax.Array  # Q, f32[K] in [-1, 1]: the mean value, 0 where not visited; this, V and the raw
    # value may go beyond 1 for a rule that asks for utilities of scores, which are then in them
    value: jax.Array  # V, f32[]: the mean of the node's own evaluation and all its visits
    total: jax.Array  # sum N, i32[]: over all actions of the node, be they among the K or not
    raw_value: jax.Array | None = None  # f32[]: the node's own evaluation, for a rule that asks
    amaf_visits: jax.Array | None = None  # N~, i32[K], if the search keeps them
    amaf_q: jax.Array | None = None  # Q~, f32[K] in [-1, 1], 0 where N~ is
    above_visits: jax.Array | None = None  # i32[K]: N~ of the same actions two plies above,
    above_q: jax.Array | None = None  # f32[K]: and Q~ there, for a rule that asks
    variance: jax.Array | None = None  # f32[K]: of the values that Q is the mean of, if it is kept
    proven: jax.Array | None = None  # i8[K]: what the action comes to, see `proofs`, if it is kept

    @property
    def legal(self) -> jax.Array:
        """bool[A]."""
        return self.prior >= 0


class Needs(NamedTuple):
    """What a rule asks for beside the priors, visits and values of the edges."""

    amaf: bool = False  # all-moves-as-first statistics
    above: bool = False  # those of two plies above too
    variance: bool = False  # `Edges.variance`
    raw_value: bool = False  # `Edges.raw_value`
    siblings: bool = False  # a score depends on which other actions were visited
    own_visits: bool = False  # at a root: the visits of this search, counted one by one from none
    score: Any = None  # a `score.ScoreUtility`: it is in all values that the rule sees


class SelectionRule:
    """A rule with what it declares; base class of hashable rules, frozen dataclasses in most cases.

    Attributes:
      needs: what it asks for.
      final_action: of a root: ``(edges, gumbel) -> i32[]``, the action that is played; None: the
        visits or values decide.
      policy_target: of a root: ``edges -> f32[A]``; None: the share of the visits.
      in_kernel: a GPU's kernel may compute it: by elementwise operations, sums and maxima.
      root_in_kernel: so of `score_root`, which is given `root_table` there.
      in_lanes: a TPU's may, see `lanes`: by those, and by what moves whole actions.
    """

    needs: Needs = Needs()
    final_action: Callable[[Edges, jax.Array], jax.Array] | None = None
    policy_target: Callable[[Edges], jax.Array] | None = None
    in_kernel: bool = False
    root_in_kernel: bool = False
    in_lanes: bool = False

    def __call__(self, edges: Edges) -> jax.Array:
        """f32[K]: the scores, -inf where illegal."""
        raise NotImplementedError(f"{type(self).__name__} scores no edges")

    def evaluation(self, edges: Edges) -> jax.Array:
        """f32[K]: what an action is worth by itself; -inf where illegal, or nothing is known.

        Gelly & Silver (2011), Algorithms 1 and 2: the score without what explores, by which the
        move is chosen in the end, see `SearchConfig.final_move`. Here Q.
        """
        return jnp.where(edges.legal & (edges.visits > 0), edges.q, -jnp.inf)

    def rank_untried(self, prior: jax.Array) -> jax.Array:
        """f32[A]: the order in which untried actions are thought of, best first; -inf if illegal.

        Of the actions without visits a rule sees the best one only: that with the highest prior,
        unless the rule ranks them otherwise.
        """
        return prior

    def score_root(
        self, edges: Edges, gumbel: jax.Array, num_simulations: int, table: Any = None
    ) -> jax.Array:
        """f32[A]: what to visit next from a root has the highest score; -inf where illegal.

        Args:
          edges: all actions of the root.
          gumbel: f32[A], samples of Gumbel(0, 1), the same in every simulation.
          num_simulations: of the search.
          table: `root_table`, where it can be read; None: not by itself.
        """
        del gumbel, num_simulations, table
        return self(edges)

    def root_table(self, num_simulations: int) -> np.ndarray:
        """Numbers that `score_root` looks up: a kernel holds none by itself."""
        del num_simulations
        return np.zeros((1, 1), np.int32)


@dataclasses.dataclass(frozen=True)
class _FunctionRule(SelectionRule):
    """A plain function as a rule that needs nothing."""

    function: Callable[[Edges], jax.Array]

    def __call__(self, edges: Edges) -> jax.Array:
        return self.function(edges)


Rule = SelectionRule | Callable[[Edges], jax.Array]


def as_rule(rule: Rule) -> SelectionRule:
    """The rule, or a function as one."""
    return rule if isinstance(rule, SelectionRule) else _FunctionRule(rule)


def random_order(prior: jax.Array) -> jax.Array:
    """f32[A]: `SelectionRule.rank_untried` of rules for which all legal actions are alike."""
    return jnp.where(prior >= 0, 0.0, -jnp.inf)


def any_of(these: jax.Array) -> jax.Array:
    """bool[]: whether any of bool[K] holds, for a rule that may be in a kernel."""
    return jnp.max(these.astype(jnp.int32)) > 0 if mode.for_triton() else jnp.any(these)


def softmax_beside(logits: jax.Array, other: jax.Array) -> jax.Array:
    """f32[K]: of the softmax of K logits and one other f32[], the K; likewise."""
    if not mode.for_triton():
        return jax.nn.softmax(jnp.concatenate([logits, other[None]]))[:-1]
    most = jnp.maximum(jnp.max(logits), other)
    shares = jnp.exp(logits - most)
    return shares / (jnp.sum(shares) + jnp.exp(other - most))


def score_edges(rule: Rule, edges: Edges) -> jax.Array:
    """f32[M, K]: what a rule says of M nodes, of Edges [M, ...]."""
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), edges)
    return indexing.all_used(rule, one, jax.vmap(rule)(edges), edges)


def best_edge(scores: jax.Array, priority: jax.Array) -> jax.Array:
    """i32[]: the action with the highest score; among equals the highest priority.

    Args:
      scores: f32[A], -inf for actions that may not be chosen.
      priority: u32[A], as `tie_break` gives it. Among equals in both, the lowest action.
    """
    chex.assert_equal_shape([scores, priority])
    best = scores == indexing.highest(scores)
    best &= priority == indexing.highest(jnp.where(best, priority, 0))
    count = scores.shape[0]
    from_end = jnp.where(best, count - jnp.arange(count, dtype=jnp.int32), 0)
    # If every score is nan nothing is best: stay inside the row all the same.
    return count - jnp.maximum(indexing.highest(from_end), 1)


def tie_break(tie_seed: jax.Array, node: jax.Array, choices: jax.Array) -> jax.Array:
    """u32[K]: a random order of what may be chosen at a node, the same at every visit.

    Args:
      tie_seed: u32[]; one a tree and search.
      node: i32[].
      choices: i32[K], a number for each: actions, or child nodes.
    """
    seed = mix(tie_seed + node.astype(jnp.uint32) * np.uint32(0x9E3779B9))
    return mix(seed ^ (choices.astype(jnp.uint32) * np.uint32(0x85EBCA6B)))
