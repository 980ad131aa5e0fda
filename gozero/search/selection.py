"""Selection rules: scores of one node's actions, the choice among them, and policy targets.

A selection rule is a hashable callable ``Edges -> f32[K]``; a higher score is better. Rules
are passed in the search's configuration, and a frozen dataclass makes one with parameters.
Of the actions of a node that have not been visited the rule sees the best one only: the one with
the highest prior, unless the rule has a method ``rank_untried(prior f32[A]) -> f32[A]``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

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


def scores(rule: Rule, edges: Edges) -> jax.Array:
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


FirstPlay = Literal["zero", "parent", "loss"]


def puct(
    edges: Edges,
    c_puct: float,
    c_base: float | None = None,
    first_play: FirstPlay = "zero",
    reduction: float = 0.0,
) -> jax.Array:
    """Q + U, the rule of AlphaGo Zero.

    Silver et al. (2017), Methods: U = c P sqrt(1 + sum N) / (1 + N). The 1 under the root lets
    the priors decide the first visit. Illegal actions get -inf.

    Args:
      edges: the node's actions.
      c_puct: c, the weight of the prior.
      c_base: lets c grow: c = c_puct + log((1 + sum N + c_base) / c_base). AlphaZero (Silver et
        al. 2018, supplement) has 1.25 and 19,652. None: c is constant.
      first_play: Q of an action not visited. "zero", as in the paper; "parent": V - reduction
        sqrt(sum of P over the visited), as in KataGo (Wu 2019), so that a player ahead or behind
        still compares like with like; "loss": -1.
      reduction: of "parent".

    Returns:
      f32[K].
    """
    chex.assert_equal_shape([edges.prior, edges.visits, edges.q])
    visited = edges.visits > 0
    q = jnp.where(visited, edges.q, 0.0)
    if first_play == "parent":
        visited_prior = jnp.sum(jnp.where(visited, edges.prior, 0.0))
        q = jnp.where(visited, q, edges.value - reduction * jnp.sqrt(visited_prior))
    elif first_play == "loss":
        q = jnp.where(visited, q, -1.0)
    score = q + exploration(edges, c_puct, c_base) * edges.prior / (
        1.0 + edges.visits.astype(jnp.float32)
    )
    return jnp.where(edges.legal, score, -jnp.inf)


def exploration(edges: Edges, c_puct: float, c_base: float | None) -> jax.Array:
    """f32[]: c sqrt(1 + sum N), what `puct` gives a prior of 1 before its first visit."""
    total = edges.total.astype(jnp.float32)
    growth = 0.0 if c_base is None else jnp.log((1.0 + total + c_base) / c_base)
    return (c_puct + growth) * jnp.sqrt(1.0 + total)


@dataclasses.dataclass(frozen=True)
class Puct:
    """`puct` as a selection rule.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    c_puct: float = 1.5
    c_base: float | None = None
    first_play: FirstPlay = "zero"
    reduction: float = 0.0

    def __post_init__(self):
        if not self.c_puct >= 0:
            raise ValueError(f"c_puct: {self.c_puct} is not at least 0")
        if self.c_base is not None and not self.c_base > 0:
            raise ValueError(f"c_base: {self.c_base} is not above 0; None keeps c constant")
        if self.first_play not in get_args(FirstPlay):
            allowed = ", ".join(get_args(FirstPlay))
            raise ValueError(f"first_play: {self.first_play!r} is not one of {allowed}")
        if self.reduction and self.first_play != "parent":
            raise ValueError('reduction: of no meaning without first_play="parent"')

    @property
    def needs_siblings(self) -> bool:
        """A score depends on which other actions were visited; see `full_rows`."""
        return self.reduction != 0

    def __call__(self, edges: Edges) -> jax.Array:
        return puct(edges, self.c_puct, self.c_base, self.first_play, self.reduction)


def ucb1(edges: Edges, c: float, first_play: float = math.inf) -> jax.Array:
    """The mean and a bonus for what has been tried little.

    Gelly & Silver (2011), Eq. 7-8, after Auer et al. (2002): Q + c sqrt(log sum N / N), where Q
    is a probability of winning, (1 + q) / 2. With c = 0 the search is greedy.

    Args:
      edges: the node's actions; priors say no more than what is legal.
      c: the weight of the bonus.
      first_play: the score of what has not been tried, which by the paper comes first. About 1, it
        leaves the rest untried as long as something tried is good enough: first-play urgency, Gelly
        & Wang (2006), section 4.

    Returns:
      f32[K]: -inf for illegal actions.
    """
    chex.assert_equal_shape([edges.prior, edges.visits, edges.q])
    total = edges.total.astype(jnp.float32)
    visits = jnp.maximum(edges.visits, 1).astype(jnp.float32)
    bonus = c * jnp.sqrt(jnp.log(jnp.maximum(total, 1.0)) / visits)
    score = jnp.where(edges.visits > 0, (1.0 + edges.q) / 2 + bonus, first_play)
    return jnp.where(edges.legal, score, -jnp.inf)


@dataclasses.dataclass(frozen=True)
class Flat:
    """The action with the fewest visits; untried actions come in random order.

    Under ``SearchConfig(max_depth=1)`` this is flat Monte-Carlo: all of the root's actions have as
    many simulations, but for one, and q is the mean of their outcomes (Gelly & Silver 2011, Eq. 3).
    """

    def __call__(self, edges: Edges) -> jax.Array:
        return jnp.where(edges.legal, -edges.visits.astype(jnp.float32), -jnp.inf)

    def rank_untried(self, prior: jax.Array) -> jax.Array:
        """f32[A]: all legal actions alike."""
        return jnp.where(prior >= 0, 0.0, -jnp.inf)


@dataclasses.dataclass(frozen=True)
class Ucb1:
    """`ucb1` as a selection rule; untried actions come in random order.

    Raises:
      ValueError: a c or a first play that is negative.
    """

    c: float
    first_play: float = math.inf

    def __post_init__(self):
        for name in ("c", "first_play"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: {getattr(self, name)} is not at least 0")

    def __call__(self, edges: Edges) -> jax.Array:
        return ucb1(edges, self.c, self.first_play)

    def rank_untried(self, prior: jax.Array) -> jax.Array:
        """f32[A]: all legal actions alike."""
        return jnp.where(prior >= 0, 0.0, -jnp.inf)


def num_forced(edges: Edges, k: float) -> jax.Array:
    """f32[K]: the visits that a root's visited actions are to have, sqrt(k P sum N).

    Wu (2019), section 3.2, with k = 2.
    """
    total = edges.total.astype(jnp.float32)
    wanted = jnp.sqrt(k * jnp.maximum(edges.prior, 0.0) * total)
    return jnp.where(edges.visits > 0, wanted, 0.0)


@dataclasses.dataclass(frozen=True)
class ForcedPlayouts:
    """A root's rule: actions that have been visited are visited `num_forced` times, then `rule`.

    Noise then shows what an action is worth, and `pruned_visits` takes the forced visits
    out of the policy target again, which is the rule's `policy_target`. Wu (2019), section 3.2.

    Raises:
      ValueError: a k that is not above 0.
    """

    rule: Puct = Puct()
    k: float = 2.0

    def __post_init__(self):
        if not self.k > 0:
            raise ValueError(f"k: {self.k} is not above 0")

    def __call__(self, edges: Edges) -> jax.Array:
        forced = edges.visits.astype(jnp.float32) < num_forced(edges, self.k)
        return jnp.where(forced, jnp.inf, self.rule(edges))

    @property
    def needs_siblings(self) -> bool:
        return self.rule.needs_siblings

    def policy_target(self, edges: Edges) -> jax.Array:
        """f32[A]: the shares of the visits that were not only forced; see `config.RootRule`."""

        return visit_policy(pruned_visits(edges, self), edges.prior)


def rank_untried(rule: Callable, prior: jax.Array) -> jax.Array:
    """f32[A]: the order in which a rule tries actions, best first; -inf where illegal.

    By their priors f32[A], or as the rule's own `rank_untried` says.
    """
    return rule.rank_untried(prior) if hasattr(rule, "rank_untried") else prior


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
