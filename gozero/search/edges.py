"""The edges of one node, the rules that score them, and the choice of the best edge.

A selection rule is a hashable callable ``Edges -> f32[K]``; a higher score is better. Any function
will do: its scores of illegal actions do not count, and one that is not a number counts as the
lowest. A `SelectionRule`, usually a frozen dataclass, also declares what it needs from the search,
in which order it tries actions, and what to play and learn at a finished root.
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
    """The statistics of K actions of one node, for the player to move there.

    While the search descends, these are the visited actions and the best of the others.
    """

    prior: jax.Array  # P, f32[K]: -inf where illegal
    visits: jax.Array  # N, i32[K]; a heuristic's counts included
    q: jax.Array  # Q, f32[K] in [-1, 1]: the mean value, 0 where not visited. For a rule that needs
    # score utilities, Q, V and the raw value include them, and may lie outside [-1, 1]
    value: jax.Array  # V, f32[]: the mean of the node's own evaluation and all its visits
    total: jax.Array  # sum N, i32[]: over all actions of the node, whether among the K or not
    raw_value: jax.Array | None = None  # f32[]: the node's own evaluation, if the rule needs it
    amaf_visits: jax.Array | None = None  # N~, i32[K], if the search keeps them
    amaf_q: jax.Array | None = None  # Q~, f32[K] in [-1, 1], 0 where N~ is 0
    above_visits: jax.Array | None = None  # i32[K]: N~ of the same actions two plies above,
    above_q: jax.Array | None = None  # f32[K]: and Q~ there, if the rule needs them
    variance: jax.Array | None = None  # f32[K]: of the values averaged in Q, if kept
    proven: jax.Array | None = None  # i8[K]: the action's proven result, see `proofs`, if kept

    @property
    def legal(self) -> jax.Array:
        """bool[K]."""
        return self.prior >= 0


class Needs(NamedTuple):
    """What a rule needs in addition to the priors, visits and values of the edges."""

    amaf: bool = False  # all-moves-as-first statistics
    above: bool = False  # and those two plies above
    variance: bool = False  # `Edges.variance`
    raw_value: bool = False  # `Edges.raw_value`
    siblings: bool = False  # an action's score depends on which other actions were visited
    own_visits: bool = False  # at a root: only this search's visits, one per simulation, from 0
    score: Any = None  # a `score.ScoreUtility`, to be added to all values that the rule sees


class SelectionRule:
    """Base class of rules that declare what they need; hashable, usually frozen dataclasses.

    Attributes:
      needs: the inputs that the rule needs.
      final_action: at a root: ``(edges, gumbel) -> i32[]``, the action to play; None: by
        `SearchConfig.final_move`.
      policy_target: at a root: ``edges -> f32[A]``; None: the visit shares.
      in_kernel: whether a GPU kernel can compute the rule: it uses only elementwise operations,
        sums and maxima, and illegal edges, with which a kernel pads a node's, change nothing. Of a
        subclass, too, unless it says otherwise.
      root_in_kernel: likewise for `score_root`, which is given `root_table` there.
      in_lanes: whether a TPU kernel can, see `lanes`: it uses only those operations, and ones that
        move whole actions.
    """

    needs: Needs = Needs()
    final_action: Callable[[Edges, jax.Array], jax.Array] | None = None
    policy_target: Callable[[Edges], jax.Array] | None = None
    in_kernel: bool = False
    root_in_kernel: bool = False
    in_lanes: bool = False

    @property
    def decides_at_root(self) -> bool:
        """Whether the rule, at a root, also chooses the move or the policy target."""
        return self.final_action is not None or self.policy_target is not None

    def __call__(self, edges: Edges) -> jax.Array:
        """f32[K]: the scores, -inf where illegal."""
        raise NotImplementedError(f"{type(self).__name__} does not define scores of edges")

    def evaluation(self, edges: Edges) -> jax.Array:
        """f32[K]: the score without exploration; -inf where illegal, or nothing is known.

        Gelly & Silver (2011), Algorithms 1 and 2, choose the final move by it, see
        `SearchConfig.final_move`. The default is Q.
        """
        return jnp.where(edges.legal & (edges.visits > 0), edges.q, -jnp.inf)

    def rank_untried(self, prior: jax.Array) -> jax.Array:
        """f32[A]: the rank of untried actions, the highest is considered first; -inf if illegal.

        Of the actions without visits, a rule sees only the best one: the one with the highest
        prior, unless this method ranks them differently.
        """
        return prior

    def score_root(
        self, edges: Edges, gumbel: jax.Array, num_simulations: int, table: Any = None
    ) -> jax.Array:
        """f32[A]: scores of a root's actions, of which the highest is visited; -inf where illegal.

        Args:
          edges: all actions of the root.
          gumbel: f32[A], samples of Gumbel(0, 1), the same in every simulation.
          num_simulations: of the search.
          table: `root_table` as a kernel's input; None: outside kernels.
        """
        del gumbel, num_simulations, table
        return self(edges)

    def root_table(self, num_simulations: int) -> np.ndarray:
        """The table that `score_root` looks up: a kernel cannot contain constant arrays."""
        del num_simulations
        return np.zeros((1, 1), np.int32)


@dataclasses.dataclass(frozen=True)
class _FunctionRule(SelectionRule):
    """A plain function as a rule without needs."""

    function: Callable[[Edges], jax.Array]

    def __call__(self, edges: Edges) -> jax.Array:
        scores = self.scores(edges)
        return jnp.where(edges.legal & ~jnp.isnan(scores), scores, -jnp.inf)

    def scores(self, edges: Edges) -> jax.Array:
        """f32[K]: as the function returns them.

        Raises:
          ValueError: it returns anything else.
        """
        scores = self.function(edges)
        check_scores(self.function, scores, edges.visits.shape)
        return scores


Rule = SelectionRule | Callable[[Edges], jax.Array]


def as_rule(rule: Rule) -> SelectionRule:
    """The rule itself, or a plain function wrapped as a `SelectionRule`."""
    return rule if isinstance(rule, SelectionRule) else _FunctionRule(rule)


def check_scores(rule: Rule, scores: Any, shape: tuple[int, ...]) -> None:
    """Check what a rule returned.

    Args:
      rule: the rule.
      scores: what it returned.
      shape: that of the actions, [K], or [B, K].

    Raises:
      ValueError: anything but a number for each action.
    """
    if getattr(scores, "shape", None) != shape:
        name = getattr(rule, "__qualname__", repr(rule))
        kind = f"f32{list(scores.shape)}" if hasattr(scores, "shape") else repr(scores)
        raise ValueError(
            f"rule: {name} returned {kind}; expected f32{list(shape)}, a score for each action"
        )


def has_no_number(rule: Callable[[Edges], jax.Array], edges: Edges) -> jax.Array:
    """bool[]: whether a plain function, as a rule, gives a legal action a score that is not a
    number, though some action was visited."""
    is_missing = edges.legal & jnp.isnan(_FunctionRule(rule).scores(edges))
    return jnp.any(is_missing) & jnp.any(edges.visits > 0)


def check_inner(rule: Rule) -> None:
    """Check a rule that another one wraps.

    Raises:
      ValueError: at a root, it also chooses the move or the policy target, which would be lost.
    """
    if as_rule(rule).decides_at_root:
        raise ValueError(
            f"rule: {rule!r} also chooses the move or the policy target of a root, which the "
            "other rule would leave out; expected a rule that only scores actions"
        )


def random_order(prior: jax.Array) -> jax.Array:
    """f32[A]: `SelectionRule.rank_untried` for rules that rank all legal actions equally."""
    return jnp.where(prior >= 0, 0.0, -jnp.inf)


def any_of(flags: jax.Array) -> jax.Array:
    """bool[]: whether any of bool[K] is True; works inside kernels too."""
    return jnp.max(flags.astype(jnp.int32)) > 0 if mode.for_triton() else jnp.any(flags)


def softmax_beside(logits: jax.Array, other: jax.Array) -> jax.Array:
    """f32[K]: the first K entries of the softmax of K logits and one other f32[].

    Works inside kernels too.
    """
    if not mode.for_triton():
        return jax.nn.softmax(jnp.concatenate([logits, other[None]]))[:-1]
    highest = jnp.maximum(jnp.max(logits), other)
    shares = jnp.exp(logits - highest)
    return shares / (jnp.sum(shares) + jnp.exp(other - highest))


def score_edges(rule: Rule, edges: Edges) -> jax.Array:
    """f32[M, K]: a rule's scores at M nodes, with Edges [M, ...]."""
    rule = as_rule(rule)
    edge_types = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), edges)
    scores = jax.vmap(rule)(edges)
    check_scores(rule, scores, edges.visits.shape)
    return indexing.all_used(rule, edge_types, scores, edges)


def among_children(scores: jax.Array, visits: jax.Array, has_child: jax.Array) -> jax.Array:
    """f32[..., A]: the scores, of actions with a child only; if the rule considers none of these,
    the one with the fewest visits is next."""
    scores = jnp.where(has_child, scores, -jnp.inf)
    in_turn = jnp.where(has_child, -visits.astype(jnp.float32), -jnp.inf)
    considered = jnp.max(scores, axis=-1, keepdims=True) > -jnp.inf
    return jnp.where(considered, scores, in_turn)


def best_edge(scores: jax.Array, priority: jax.Array) -> jax.Array:
    """i32[]: the action with the highest score; ties go to the highest priority.

    Args:
      scores: f32[A], -inf for actions that may not be chosen.
      priority: u32[A], from `tie_break`. If both are equal, the lowest action is chosen.
    """
    chex.assert_equal_shape([scores, priority])
    best = scores == indexing.highest(scores)
    best &= priority == indexing.highest(jnp.where(best, priority, 0))
    count = scores.shape[0]
    from_end = jnp.where(best, count - jnp.arange(count, dtype=jnp.int32), 0)
    # If every score is nan, no action is best: still return an index inside the row.
    return count - jnp.maximum(indexing.highest(from_end), 1)


def best_by_sample(scores: jax.Array, sample: jax.Array) -> jax.Array:
    """i32[]: the action with the highest score; ties go to the highest number of a random sample.
    0 if none may be chosen.

    Args:
      scores: f32[A], -inf for actions that may not be chosen.
      sample: f32[A].
    """
    best = (scores == jnp.max(scores)) & (scores > -jnp.inf)
    return jnp.argmax(jnp.where(best, sample, -jnp.inf)).astype(jnp.int32)


def tie_break(tie_seed: jax.Array, node: jax.Array, choices: jax.Array) -> jax.Array:
    """u32[K]: random priorities of the choices at a node, the same at every visit.

    Args:
      tie_seed: u32[]; one for each tree and search.
      node: i32[].
      choices: i32[K], a number for each choice: actions, or child nodes.
    """
    seed = mix(tie_seed + node.astype(jnp.uint32) * np.uint32(0x9E3779B9))
    return mix(seed ^ (choices.astype(jnp.uint32) * np.uint32(0x85EBCA6B)))
