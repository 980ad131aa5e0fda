"""Rules that mix the value of an action with its all-moves-as-first value.

Gelly & Silver (2011), section 4. Values and the bias b are probabilities of winning here,
(1 + q) / 2, as in the paper.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from gozero.runs.settings import ABOVE_0, AT_LEAST_0, SHARE, check_ranges
from gozero.search.edges import Edges, Needs, SelectionRule


def _amaf(edges: Edges) -> tuple[jax.Array, jax.Array]:
    """(N~, Q~) of a node's actions.

    Raises:
      ValueError: the search keeps none.
    """
    if edges.amaf_visits is None or edges.amaf_q is None:
        raise ValueError("amaf: the search keeps no such statistics; give SearchConfig(amaf=...)")
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

    Raises:
      ValueError: a k that is not above 0.
    """

    k: float = 1000.0

    def __post_init__(self):
        check_ranges(self, k=ABOVE_0)

    def __call__(self, edges: Edges) -> jax.Array:
        total = edges.total.astype(jnp.float32)
        return jnp.broadcast_to(jnp.sqrt(self.k / (3.0 * total + self.k)), edges.prior.shape)


@dataclasses.dataclass(frozen=True)
class MinimumMse:
    """The beta with the least mean squared error, if the all-moves-as-first value is biased by b.

    Eq. 47, for values near one half: beta = N~ / (N + N~ + 4 N N~ b^2). Eq. 46, `even` False,
    has 1 / (mu (1 - mu)) in place of the 4, mu the all-moves-as-first value: it trusts values near
    0 and 1 less. The b without one suits playouts on 9x9; `learnt_bias` finds another.

    Raises:
      ValueError: a bias that is not from 0 to 1.
    """

    bias: float = 0.01
    even: bool = True

    def __post_init__(self):
        check_ranges(self, bias=SHARE)

    def __call__(self, edges: Edges) -> jax.Array:
        amaf_visits, amaf_q = _amaf(edges)
        n, amaf = edges.visits.astype(jnp.float32), amaf_visits.astype(jnp.float32)
        precision = 4.0
        if not self.even:
            mu = jnp.clip((1.0 + amaf_q) / 2, 0.01, 0.99)
            precision = 1.0 / (mu * (1.0 - mu))
        scale = n + amaf + precision * n * amaf * self.bias**2
        return amaf / jnp.maximum(scale, 1.0)


@dataclasses.dataclass(frozen=True)
class Rave(SelectionRule):
    """MC-RAVE: (1 - beta) Q + beta Q~, Eq. 12-17; with a bonus UCT-RAVE, Eq. 18.

    An action without visits goes by its all-moves-as-first value alone, one that has none of
    that by its value alone, and one with neither by `first_play`. The bonus is
    c sqrt(log N(s) / (1 + N)), so that it is finite before the first visit.

    Attributes:
      schedule: beta.
      c: the weight of the bonus.
      first_play: a probability of winning; above 1: what nothing is known of comes first.

    Raises:
      ValueError: a c that is negative.
    """

    schedule: Schedule = MinimumMse()
    c: float = 0.0
    first_play: float = 2.0

    needs = Needs(amaf=True)
    in_kernel = True

    def __post_init__(self):
        check_ranges(self, c=AT_LEAST_0)

    def __call__(self, edges: Edges) -> jax.Array:
        amaf_visits, amaf_q = _amaf(edges)
        chex.assert_equal_shape([edges.prior, edges.visits, edges.q, amaf_visits, amaf_q])
        visited, has_amaf = edges.visits > 0, amaf_visits > 0
        # Written so that equal values mix to the same value to the last bit, whatever beta is:
        # after a simulation most actions tie.
        mixed = edges.q + self.schedule(edges) * (amaf_q - edges.q)
        value = jnp.where(visited, jnp.where(has_amaf, mixed, edges.q), amaf_q)
        value = jnp.where(visited | has_amaf, (1.0 + value) / 2, self.first_play)
        if self.c > 0:
            total = jnp.maximum(edges.total, 1).astype(jnp.float32)
            visits = 1.0 + edges.visits.astype(jnp.float32)
            value += self.c * jnp.sqrt(jnp.log(total) / visits)
        return jnp.where(edges.legal, value, -jnp.inf)


def learnt_bias(edges: Edges, least: int) -> tuple[jax.Array, jax.Array]:
    """How far apart the two values of a node's actions are, for `MinimumMse`.

    Late in a search both have settled, and what is left between them is bias: b^2 is the mean
    of (Q~ - Q)^2 over actions that are well visited. Sum what many nodes return, and divide.

    Args:
      edges: a node's actions.
      least: visits of both kinds that an action needs to count.

    Returns:
      (sum of (Q~ - Q)^2 as probabilities of winning f32[], number of actions i32[]).
    """
    amaf_visits, amaf_q = _amaf(edges)
    known = (edges.visits >= least) & (amaf_visits >= least)
    apart = jnp.where(known, (amaf_q - edges.q) / 2, 0.0)
    return jnp.sum(apart**2), jnp.sum(known, dtype=jnp.int32)
