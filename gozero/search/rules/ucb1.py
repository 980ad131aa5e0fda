"""UCB1, and flat Monte-Carlo: rules that ignore priors."""

from __future__ import annotations

import dataclasses
import math

import chex
import jax
import jax.numpy as jnp

from gozero.runs.settings import AT_LEAST_0, check_ranges
from gozero.search.edges import Edges, SelectionRule, random_order


def ucb1(edges: Edges, c: float, first_play: float = math.inf, tuned: bool = False) -> jax.Array:
    """The mean value plus a bonus for actions with few visits.

    Gelly & Silver (2011), Eq. 7-8, after Auer et al. (2002): Q + c sqrt(log sum N / N), where Q
    is a probability of winning, (1 + q) / 2. With c = 0 the search is greedy.

    UCB1-TUNED, the rule of Auer et al., section 4, and of the first MoGo (Gelly et al. 2006),
    multiplies log sum N by min(1/4, V), where V = Q (1 - Q) + sqrt(2 log sum N / N) bounds the
    variance of an outcome that is 0 or 1 (of one with draws, from above): actions that nearly
    always win or lose are explored less.

    Args:
      edges: the node's actions; priors are used only for legality.
      c: the weight of the bonus.
      first_play: the score of untried actions, which in the paper are tried first. With a value of
        about 1, other actions stay untried as long as a tried one is good enough: first-play
        urgency, Gelly & Wang (2006), section 4.
      tuned: whether the bonus is that of UCB1-TUNED.

    Returns:
      f32[K]: -inf for illegal actions.
    """
    chex.assert_equal_shape([edges.prior, edges.visits, edges.q])
    total = edges.total.astype(jnp.float32)
    visits = jnp.maximum(edges.visits, 1).astype(jnp.float32)
    value = (1.0 + edges.q) / 2
    share = jnp.log(jnp.maximum(total, 1.0)) / visits
    if tuned:
        variance = value * (1.0 - value) + jnp.sqrt(2.0 * share)
        share = share * jnp.minimum(variance, 0.25)
    score = jnp.where(edges.visits > 0, value + c * jnp.sqrt(share), first_play)
    return jnp.where(edges.legal, score, -jnp.inf)


@dataclasses.dataclass(frozen=True)
class Flat(SelectionRule):
    """The action with the fewest visits; untried actions come in random order.

    With ``SearchConfig(max_depth=1)`` this is flat Monte-Carlo: the root's actions have equal
    numbers of simulations, up to one, and q is the mean of their outcomes (Gelly & Silver 2011,
    Eq. 3).
    """

    def __call__(self, edges: Edges) -> jax.Array:
        return jnp.where(edges.legal, -edges.visits.astype(jnp.float32), -jnp.inf)

    def rank_untried(self, prior: jax.Array) -> jax.Array:
        return random_order(prior)


@dataclasses.dataclass(frozen=True)
class Ucb1(SelectionRule):
    """`ucb1` as a selection rule; untried actions come in random order.

    Raises:
      ValueError: a negative c or first_play.
    """

    c: float
    first_play: float = math.inf
    tuned: bool = False

    in_kernel = True
    in_lanes = True

    def __post_init__(self):
        check_ranges(self, c=AT_LEAST_0, first_play=AT_LEAST_0)

    def __call__(self, edges: Edges) -> jax.Array:
        return ucb1(edges, self.c, self.first_play, self.tuned)

    def rank_untried(self, prior: jax.Array) -> jax.Array:
        return random_order(prior)
