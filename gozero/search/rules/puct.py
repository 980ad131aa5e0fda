"""Q + U: the rule of AlphaGo Zero, and its variants."""

from __future__ import annotations

import dataclasses
from typing import Literal

import chex
import jax
import jax.numpy as jnp

from gozero.runs.settings import ABOVE_0, AT_LEAST_0, check_choice, check_ranges
from gozero.search.edges import Edges, Needs, SelectionRule
from gozero.search.score import ScoreUtility

FirstPlay = Literal["zero", "parent", "loss"]


def puct(
    edges: Edges,
    c_puct: float,
    c_base: float | None = None,
    first_play: FirstPlay = "zero",
    reduction: float = 0.0,
) -> jax.Array:
    """Q + U, the rule of AlphaGo Zero.

    Silver et al. (2017), Methods: U = c P sqrt(sum N) / (1 + N). Here 1 is added to the sum, so
    that the priors decide the first visit. Illegal actions get -inf.

    Args:
      edges: the node's actions.
      c_puct: c, the weight of the prior.
      c_base: lets c grow: c = c_puct + log((1 + sum N + c_base) / c_base). AlphaZero (Silver et
        al. 2018, supplement) uses 1.25 and 19,652. None: c is constant.
      first_play: Q of an unvisited action. "zero", as in the paper; "parent": V - reduction
        sqrt(sum of P over the visited), as in KataGo (Wu 2019), so that unvisited actions compare
        fairly with visited ones also for a player far ahead or behind; "loss": -1.
      reduction: for "parent".

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
    """f32[]: c sqrt(1 + sum N), the U of an unvisited action with a prior of 1."""
    total = edges.total.astype(jnp.float32)
    growth = 0.0 if c_base is None else jnp.log((1.0 + total + c_base) / c_base)
    return (c_puct + growth) * jnp.sqrt(1.0 + total)


@dataclasses.dataclass(frozen=True)
class Puct(SelectionRule):
    """`puct` as a selection rule; with `score`, Q and V include the score utility.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    c_puct: float = 1.5
    c_base: float | None = None
    first_play: FirstPlay = "zero"
    reduction: float = 0.0
    score: ScoreUtility | None = None

    in_kernel = True
    in_lanes = True

    def __post_init__(self):
        check_ranges(self, c_puct=AT_LEAST_0, c_base=ABOVE_0._replace(optional=True))
        check_choice(self, "first_play", FirstPlay)
        if self.reduction and self.first_play != "parent":
            raise ValueError(
                f"reduction: {self.reduction} has no effect with first_play={self.first_play!r}; "
                'use first_play="parent", or reduction=0'
            )

    @property
    def needs(self) -> Needs:
        return Needs(siblings=self.reduction != 0, score=self.score)

    def __call__(self, edges: Edges) -> jax.Array:
        return puct(edges, self.c_puct, self.c_base, self.first_play, self.reduction)
