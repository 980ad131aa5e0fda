"""Rules that mix the value of an action with its all-moves-as-first value.

Gelly & Silver (2011), section 4. As in the paper, values and the bias b are probabilities of
winning here, (1 + q) / 2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

import chex
import jax
import jax.numpy as jnp

from gozero.runs.settings import ABOVE_0, AT_LEAST_0, SHARE, check_choice, check_ranges
from gozero.search.edges import Edges, Needs, SelectionRule


def _amaf(edges: Edges) -> tuple[jax.Array, jax.Array]:
    """(N~, Q~) of a node's actions.

    Raises:
      ValueError: the search does not keep these statistics.
    """
    if edges.amaf_visits is None or edges.amaf_q is None:
        raise ValueError(
            "amaf: the search keeps no all-moves-as-first statistics; set SearchConfig(amaf=Amaf())"
        )
    return edges.amaf_visits, edges.amaf_q


Schedule = Callable[[Edges], jax.Array]
"""The weight of the all-moves-as-first value, ``Edges -> f32[K]`` in [0, 1]."""


@dataclasses.dataclass(frozen=True)
class AmafOnly:
    """beta = 1: pure RAVE."""

    def __call__(self, edges: Edges) -> jax.Array:
        return jnp.ones(edges.prior.shape)


@dataclasses.dataclass(frozen=True)
class HandSelected:
    """beta = sqrt(k / (3 N(s) + k)), Eq. 19: one half after k simulations at the node.

    Attributes:
      k: the equivalence parameter.
      per_action: whether to use the visits of the action, N(s, a), instead of the node's.

    Raises:
      ValueError: k is not above 0.
    """

    k: float = 1000.0
    per_action: bool = False

    def __post_init__(self):
        check_ranges(self, k=ABOVE_0)

    def __call__(self, edges: Edges) -> jax.Array:
        total = (edges.visits if self.per_action else edges.total).astype(jnp.float32)
        return jnp.broadcast_to(jnp.sqrt(self.k / (3.0 * total + self.k)), edges.prior.shape)


Mean = Literal["even", "amaf", "mixture"]


@dataclasses.dataclass(frozen=True)
class MinimumMse:
    """The beta with the least mean squared error, if the all-moves-as-first value has a bias of b.

    Eq. 46: beta = N~ / (N + N~ + N N~ b^2 / (mu* (1 - mu*))), where mu* is the true value; near 0
    and 1 it gives the all-moves-as-first value less weight.

    Attributes:
      bias: b. The default suits playouts on 9x9; `learnt_bias` estimates it.
      mean: mu*: "even": one half, which gives Eq. 47; "amaf": the all-moves-as-first value;
        "mixture": the mixture itself, (1 - beta) Q + beta Q~, by four iterations from Eq. 47.

    Raises:
      ValueError: a bias outside [0, 1]; another mean.
    """

    bias: float = 0.01
    mean: Mean = "even"

    def __post_init__(self):
        check_ranges(self, bias=SHARE)
        check_choice(self, "mean", Mean)

    def __call__(self, edges: Edges) -> jax.Array:
        amaf_visits, amaf_q = _amaf(edges)
        n, amaf = edges.visits.astype(jnp.float32), amaf_visits.astype(jnp.float32)

        def beta(precision):
            scale = n + amaf + precision * n * amaf * self.bias**2
            return amaf / jnp.maximum(scale, 1.0)

        if self.mean == "amaf":
            return beta(_precision(amaf_q))
        weight = beta(4.0)
        for _ in range(_STEPS if self.mean == "mixture" else 0):
            weight = beta(_precision(edges.q + weight * (amaf_q - edges.q)))
        return weight


_STEPS = 4


def _precision(q: jax.Array) -> jax.Array:
    """1 / (mu (1 - mu)) for values q in [-1, 1], mu = (1 + q) / 2."""
    mu = jnp.clip((1.0 + q) / 2, 0.01, 0.99)
    return 1.0 / (mu * (1.0 - mu))


Bonus = Literal["finite", "plain"]


@dataclasses.dataclass(frozen=True)
class Rave(SelectionRule):
    """MC-RAVE: (1 - beta) Q + beta Q~, Eq. 12-17; with a bonus UCT-RAVE, Eq. 18.

    The score of an action without all-moves-as-first statistics is its value alone, and of one
    without visits either, `first_play`.

    Attributes:
      schedule: beta.
      c: the weight of the bonus.
      first_play: a probability of winning; above 1, actions without any statistics are tried first.
      initial: Q before the first visit, a probability of winning; it enters the mixture with weight
        1 - beta like any other Q. With a beta that depends on the node's visits, Eq. 19,
        all-moves-as-first values then do little more than order the untried actions. With a value
        above 1, as in MoGo's first-play urgency, all actions are tried once all-moves-as-first
        values have little weight. It has no effect with schedules that are 1 for an action without
        visits: the others here, and Eq. 19 by the action's own visits. None: the score of an action
        without visits is its all-moves-as-first value alone.
      bonus: "plain": c sqrt(log N(s) / N), Eq. 18, infinite before the first visit: untried
        actions come first, ordered by their mixture. "finite": with 1 + N instead of N.

    Raises:
      ValueError: a negative c or initial value; another bonus; a plain bonus without c.
    """

    schedule: Schedule = MinimumMse()
    c: float = 0.0
    first_play: float = 2.0
    initial: float | None = None
    bonus: Bonus = "finite"

    needs = Needs(amaf=True)
    in_kernel = True

    def __post_init__(self):
        check_ranges(self, c=AT_LEAST_0, initial=AT_LEAST_0._replace(optional=True))
        check_choice(self, "bonus", Bonus)
        if self.bonus == "plain" and self.c == 0:
            raise ValueError("bonus: 'plain' has no effect with c = 0; set c above 0")

    def __call__(self, edges: Edges) -> jax.Array:
        value, _ = self._mixed(edges)
        if self.c > 0:
            total = jnp.maximum(edges.total, 1).astype(jnp.float32)
            visits = edges.visits.astype(jnp.float32)
            if self.bonus == "finite":
                value += self.c * jnp.sqrt(jnp.log(total) / (1.0 + visits))
            else:
                bonus = self.c * jnp.sqrt(jnp.log(total) / jnp.maximum(visits, 1.0))
                value += jnp.where(visits > 0, bonus, _FIRST)
        return jnp.where(edges.legal, value, -jnp.inf)

    def evaluation(self, edges: Edges) -> jax.Array:
        value, is_known = self._mixed(edges)
        return jnp.where(edges.legal & is_known, value, -jnp.inf)

    def _mixed(self, edges: Edges) -> tuple[jax.Array, jax.Array]:
        """(f32[K]: the mixture, a probability of winning; bool[K]: whether it has statistics)."""
        amaf_visits, amaf_q = _amaf(edges)
        chex.assert_equal_shape([edges.prior, edges.visits, edges.q, amaf_visits, amaf_q])
        visited, has_amaf = edges.visits > 0, amaf_visits > 0
        # Written so that mixing equal values gives exactly that value, whatever beta is: after a
        # simulation most actions tie.
        q = edges.q if self.initial is None else jnp.where(visited, edges.q, 2 * self.initial - 1.0)
        mixed = q + self.schedule(edges) * (amaf_q - q)
        untried = amaf_q if self.initial is None else mixed
        value = jnp.where(visited, jnp.where(has_amaf, mixed, edges.q), untried)
        is_known = visited | has_amaf
        return jnp.where(is_known, (1.0 + value) / 2, self.first_play), is_known


_FIRST = 1e3
"""A bonus that is practically infinite, and still separates mixtures that differ by 2^-14."""


def learnt_bias(edges: Edges, least: int) -> tuple[jax.Array, jax.Array]:
    """Statistics for estimating the bias of `MinimumMse` from a node's actions.

    Late in a search both values have converged, and the difference that remains is bias: b^2 is the
    mean of (Q~ - Q)^2 over well visited actions. Sum the results over many nodes, and divide.

    Args:
      edges: a node's actions.
      least: the visits of each kind that an action needs in order to count.

    Returns:
      (sum of (Q~ - Q)^2 as probabilities of winning f32[], number of actions i32[]).
    """
    amaf_visits, amaf_q = _amaf(edges)
    counts = (edges.visits >= least) & (amaf_visits >= least)
    difference = jnp.where(counts, (amaf_q - edges.q) / 2, 0.0)
    return jnp.sum(difference**2), jnp.sum(counts, dtype=jnp.int32)


def sampling_error(edges: Edges, least: int) -> jax.Array:
    """The part of `learnt_bias`'s sum that is expected without any bias.

    N of the N~ simulations of an action are those of its own value, so Q~ - Q has the variance
    mu (1 - mu) (1 / N - 1 / N~) if simulations are won independently with the probability mu.

    Args:
      edges: a node's actions.
      least: as for `learnt_bias`.

    Returns:
      f32[], the sum over the same actions, with mu = Q~.
    """
    amaf_visits, amaf_q = _amaf(edges)
    counts = (edges.visits >= least) & (amaf_visits >= least)
    n, amaf = (jnp.maximum(x, 1).astype(jnp.float32) for x in (edges.visits, amaf_visits))
    mu = (1.0 + amaf_q) / 2
    variance = mu * (1.0 - mu) * jnp.maximum(1.0 / n - 1.0 / amaf, 0.0)
    return jnp.sum(jnp.where(counts, variance, 0.0))
