"""Rules that visit actions in proportion to weights: Pr(best) of Gaussians, and a softmax of Q.

Crazy Stone and Indigo draw an action at random with weights w. Here a choice is cached until
something changes at its node, so nothing is drawn: the next visit goes to the action with the
highest w / (1 + N). With constant weights, visits are then in proportion to them, as seats are to
votes in D'Hondt's method.
"""

from __future__ import annotations

import dataclasses
import math

import chex
import jax
import jax.numpy as jnp

from gozero.runs.settings import ABOVE_0, AT_LEAST_0, COUNT, check_ranges
from gozero.search.edges import Edges, Needs, SelectionRule, random_order


@dataclasses.dataclass(frozen=True)
class Gaussian(SelectionRule):
    """Crazy Stone's rule: roughly the probability that an action is best, for Gaussian values.

    Coulom (2006), section 3: w = exp(-2.4 (Q_0 - Q) / sqrt(2 (s_0^2 + s^2))) + e, where Q_0 is the
    highest value of the visited actions, and s^2 the variance of a mean: the variance of the
    simulations z, as if one more with a very high variance had been played,
    (sum z^2 - N Q^2 + V) / (N + 1), divided by N, or by 500 if N is larger. An untried action has
    the node's value, and V.

    In the paper, e is (0.1 + 2^-i + a) / A for the i-th of A actions by the playout policy's
    urgency, with a = 1 for a move in atari; here e is 0.1 times the prior, which can express all of
    that. Values are in [-1, 1] here; Coulom's are scores, whose V is (2 P)^2 on P points.

    Attributes:
      steepness: 2.4.
      prior_variance: V.
      floor: the weight of the prior in e.
      settled: 500.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    steepness: float = 2.4
    prior_variance: float = 4.0
    floor: float = 0.1
    settled: int = 500

    needs = Needs(variance=True, siblings=True)

    def __post_init__(self):
        check_ranges(self, steepness=ABOVE_0, prior_variance=ABOVE_0, floor=AT_LEAST_0)
        check_ranges(self, settled=COUNT)

    def __call__(self, edges: Edges) -> jax.Array:
        chex.assert_equal_shape([edges.prior, edges.visits, edges.q])
        visited = edges.visits > 0
        q, variance = jnp.where(visited, edges.q, edges.value), self.of_mean(edges)
        best = jnp.max(jnp.where(visited, q, -1.0))
        # If several are best, use the largest variance, so that their order does not matter.
        best_variance = jnp.max(jnp.where(visited & (q == best), variance, 0.0))
        distance = jnp.maximum(best - q, 0.0) / jnp.sqrt(2.0 * (best_variance + variance))
        weight = jnp.exp(-self.steepness * distance) + self.floor * edges.prior
        return jnp.where(edges.legal, weight / (1.0 + edges.visits.astype(jnp.float32)), -jnp.inf)

    def of_mean(self, edges: Edges) -> jax.Array:
        """s^2, f32[K]."""
        assert edges.variance is not None  # `needs` includes it
        n = edges.visits.astype(jnp.float32)
        variance = (n * edges.variance + self.prior_variance) / (n + 1.0)
        return variance / jnp.clip(n, 1.0, float(self.settled))


@dataclasses.dataclass(frozen=True)
class Boltzmann(SelectionRule):
    """w = exp(Q / T), a softmax of the values as probabilities of winning; untried actions first.

    As in Indigo, Bouzy & Helmstetter (2003), according to Gelly & Silver (2011), section 3.5. The
    score is the logarithm of w / (1 + N).

    Attributes:
      temperature: T.

    Raises:
      ValueError: the temperature is not above 0.
    """

    temperature: float = 0.1

    def __post_init__(self):
        check_ranges(self, temperature=ABOVE_0)

    def __call__(self, edges: Edges) -> jax.Array:
        chex.assert_equal_shape([edges.prior, edges.visits, edges.q])
        n = edges.visits.astype(jnp.float32)
        score = (1.0 + edges.q) / 2 / self.temperature - jnp.log(1.0 + n)
        return jnp.where(edges.legal, jnp.where(n > 0, score, math.inf), -jnp.inf)

    def rank_untried(self, prior: jax.Array) -> jax.Array:
        return random_order(prior)
