"""Several estimators of an action's value, weighted by their inverse mean squared errors.

Gelly & Silver (2011), section 4.6, weight two estimators, the mean of an action's simulations and
its all-moves-as-first value, by the error of each: variance over visits, and for the second also a
squared bias. Fuego combines any number of estimators like this (Enzenberger & Müller 2009).
"""

from __future__ import annotations

import dataclasses

import chex
import jax
import jax.numpy as jnp

from gozero.runs.settings import AT_LEAST_0, SHARE, check_ranges
from gozero.search.edges import Edges, Needs, SelectionRule


@dataclasses.dataclass(frozen=True)
class Estimators(SelectionRule):
    """sum of w Q over sum of w, w = N / (1 + 4 N b^2), of three estimators.

    They are the action's simulations, which have no bias; its all-moves-as-first value at the node;
    and that at the node two plies above, where the same player was to move. 1 / w is a mean squared
    error, 1 / (4 N) + b^2, times 4. With the first two alone this is Eq. 47. The third shares
    simulations with the second, so their errors are not independent, as the formula assumes; its
    value is the one at the time of the last simulation through the node.

    Attributes:
      bias: b of the node's all-moves-as-first values, a probability of winning.
      above_bias: b of those two plies above.
      first_play: the score of an action without any statistics, a probability of winning.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    bias: float = 0.01
    above_bias: float = 0.05
    first_play: float = 2.0

    needs = Needs(amaf=True, above=True)

    def __post_init__(self):
        check_ranges(self, bias=SHARE, above_bias=SHARE, first_play=AT_LEAST_0)

    def __call__(self, edges: Edges) -> jax.Array:
        value, weight = self._mixed(edges)
        value = jnp.where(weight > 0, (1.0 + value) / 2, self.first_play)
        return jnp.where(edges.legal, value, -jnp.inf)

    def evaluation(self, edges: Edges) -> jax.Array:
        value, weight = self._mixed(edges)
        return jnp.where(edges.legal & (weight > 0), (1.0 + value) / 2, -jnp.inf)

    def _mixed(self, edges: Edges) -> tuple[jax.Array, jax.Array]:
        """(the value in [-1, 1], the sum of the weights), f32[K] each."""
        estimators = [
            (edges.visits, edges.q, 0.0),
            (edges.amaf_visits, edges.amaf_q, self.bias),
            (edges.above_visits, edges.above_q, self.above_bias),
        ]
        value, total = jnp.zeros(edges.prior.shape), jnp.zeros(edges.prior.shape)
        for visits, q, bias in estimators:
            if visits is None or q is None:
                continue
            chex.assert_equal_shape([edges.prior, visits, q])
            n = visits.astype(jnp.float32)
            weight = n / (1.0 + 4.0 * bias**2 * n)
            total = total + weight
            # Written so that mixing equal values gives exactly that value.
            value = value + weight / jnp.maximum(total, 1e-6) * (q - value)
        return value, total
