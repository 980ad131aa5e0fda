"""Policy improvement by planning with Gumbel: Danihelka et al. (2022), with their equations.

`GumbelRoot` samples actions without replacement by the Gumbel-top-k trick and distributes the
simulations among them by sequential halving. `GumbelInterior` visits the actions of all other nodes
in the proportions of the improved policy. Both complete the values of unvisited actions. Unlike in
AlphaZero, even a search with few simulations improves the policy.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gozero.runs.settings import AT_LEAST_0, COUNT, check_ranges
from gozero.search.edges import (
    Edges,
    Needs,
    SelectionRule,
    any_of,
    best_by_sample,
    softmax_beside,
)

_TINY = np.finfo(np.float32).tiny
_LEAST_LOGIT = -1e9
_LEAST_RANGE = 1e-8
_SIGMA_RANGES = {"value_scale": AT_LEAST_0, "max_visit_init": AT_LEAST_0}


def mixed_value(edges: Edges) -> jax.Array:
    """v_mix, the value of unvisited actions.

    Appendix D, Eq. (33): v_mix = (v + sum N * q_P) / (1 + sum N), where q_P is the mean of Q over
    the visited actions, weighted by their priors, and v the node's own evaluation. Written as v
    plus a correction, so that it is exactly v if every Q is v.

    Args:
      edges: all actions of a node, or at least the visited ones.

    Returns:
      f32[].
    """
    if edges.raw_value is None:
        raise ValueError("raw_value: None, but v_mix needs the node's own evaluation")
    visited = edges.visits > 0
    total = jnp.sum(edges.visits).astype(jnp.float32)
    weight = jnp.where(visited, jnp.maximum(edges.prior, _TINY), 0.0)
    # (Not 0 / tiny without visits: that is a nan on XLA:CPU with jaxlib 0.7.2.)
    mass = jnp.where(total > 0, jnp.sum(weight), 1.0)
    gain = jnp.sum(weight * (edges.q - edges.raw_value)) / mass
    return edges.raw_value + total / (1.0 + total) * gain


def completed_q(edges: Edges) -> jax.Array:
    """f32[K]: Q of the visited actions and v_mix for the others. Eq. (10), with Eq. (33)."""
    return jnp.where(edges.visits > 0, edges.q, mixed_value(edges))


def value_of_policy(policy: jax.Array, edges: Edges) -> jax.Array:
    """f32[] in [-1, 1]: the mean of the completed Q by a policy f32[K], such as the policy target.

    The value of playing by the improved policy, which Danihelka et al. (2022) show to be at least
    the network's if Q is exact. Unlike the mean of the simulations, it is not lowered by the
    actions that a `GumbelRoot` visits in order to compare them.
    """
    return jnp.clip(jnp.sum(policy * completed_q(edges)), -1.0, 1.0)


def sigma(
    edges: Edges, value_scale: float, max_visit_init: float, rescale: bool = True
) -> jax.Array:
    """The completed Q on the scale of logits.

    Eq. (8): sigma(q) = (c_visit + max N) c_scale q. With `rescale`, the completed Q of the legal
    actions is first rescaled to [0, 1], the default in mctx; a c_scale of 0.1 suits this. Without,
    for values that are results of games, small differences stay small; a c_scale of 1 suits this.

    Args:
      edges: all actions of a node; or the visited ones and any one of the others, if there is one.
      value_scale: c_scale.
      max_visit_init: c_visit.
      rescale: whether to rescale the completed Q.

    Returns:
      f32[K]; undefined where illegal.
    """
    q = completed_q(edges)
    max_visits = jnp.max(edges.visits).astype(jnp.float32)
    if not rescale:
        return (max_visit_init + max_visits) * value_scale * q
    low = jnp.min(jnp.where(edges.legal, q, jnp.inf))
    high = jnp.max(jnp.where(edges.legal, q, -jnp.inf))
    rescaled = (q - low) / jnp.maximum(high - low, _LEAST_RANGE)
    return (max_visit_init + max_visits) * value_scale * rescaled


def logits(prior: jax.Array) -> jax.Array:
    """f32[K]: log P; -inf where illegal. A legal action whose prior underflows to 0 has -1e9, which
    no sigma makes up for: mctx gives this logit to actions that a model does not have."""
    log_prior = jnp.where(prior > 0, jnp.log(jnp.maximum(prior, _TINY)), _LEAST_LOGIT)
    return jnp.where(prior >= 0, log_prior, -jnp.inf)


def considered_visits(num_considered: int, num_simulations: int) -> np.ndarray:
    """For each simulation, the visit count of the actions among which it chooses.

    Sequential halving, Karnin et al. (2013) as in Algorithm 2: each of m actions gets
    n / (log2(m) m) visits, then the better half shares as many simulations in total, and so on;
    each action gets at least one visit per phase, and two actions remain to the end.

    Args:
      num_considered: m.
      num_simulations: n.

    Returns:
      i32[n].
    """
    if num_considered <= 1:
        return np.arange(num_simulations, dtype=np.int32)
    num_phases = math.ceil(math.log2(num_considered))
    num_left, visits, phases, length = num_considered, 0, [], 0
    while length < num_simulations:
        extra_visits = max(1, num_simulations // (num_phases * num_left))
        phases.append(np.repeat(np.arange(visits, visits + extra_visits, dtype=np.int32), num_left))
        length += extra_visits * num_left
        visits += extra_visits
        num_left = max(2, num_left // 2)
    return np.concatenate(phases)[:num_simulations]


@functools.cache
def _visits_table(max_considered: int, num_simulations: int) -> np.ndarray:
    """i32[m + 1, n]: `considered_visits` for up to m actions."""
    counts = range(max_considered + 1)
    return np.stack([considered_visits(count, num_simulations) for count in counts])


@dataclasses.dataclass(frozen=True)
class GumbelRoot(SelectionRule):
    """The root's rule: sequential halving over the actions with the highest g + logits.

    Its scores are g + logits + sigma(completed Q), for the actions whose visits are those of
    `considered_visits`. The action to play is the one with the highest score among the most
    visited. The policy target is the improved policy, Eq. (11). It needs no noise on the priors and
    no temperature.

    Attributes:
      max_considered: m, the number of sampled actions; fewer if fewer are legal.
      scale: of the Gumbel noise g; 0 makes play deterministic, for matches.
      value_scale, max_visit_init, rescale: of `sigma`.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    max_considered: int = 16
    scale: float = 1.0
    value_scale: float = 0.1
    max_visit_init: float = 50.0
    rescale: bool = True

    needs = Needs(own_visits=True)
    root_in_kernel = True

    def __post_init__(self):
        check_ranges(self, max_considered=COUNT, scale=AT_LEAST_0, **_SIGMA_RANGES)

    def root_table(self, num_simulations: int) -> np.ndarray:
        """i32[m + 1, n]: row i is `considered_visits` of i actions."""
        return _visits_table(self.max_considered, num_simulations)

    def score_root(
        self, edges: Edges, gumbel: jax.Array, num_simulations: int, table: Any = None
    ) -> jax.Array:
        """f32[A]: the scores; -inf for actions that sequential halving does not consider now."""
        if table is None:
            table = jnp.asarray(self.root_table(num_simulations))
        count = jnp.minimum(jnp.sum(edges.legal), self.max_considered)
        turn = jnp.minimum(jnp.sum(edges.visits), num_simulations - 1)
        considered = edges.legal & (edges.visits == table[count, turn])
        # After the last simulation there may be no such action.
        considered = jnp.where(any_of(considered), considered, edges.legal)
        return jnp.where(considered, self._score(edges, gumbel), -jnp.inf)

    def final_action(self, edges: Edges, gumbel: jax.Array) -> jax.Array:
        """i32[]: the best of the most visited actions; without visits, a sample of the policy.
        `gumbel` also decides among equals, where `scale` is 0."""
        finalist = edges.legal & (edges.visits == jnp.max(edges.visits))
        score = jnp.where(finalist, self._score(edges, gumbel), -jnp.inf)
        return best_by_sample(score, gumbel)

    def policy_target(self, edges: Edges) -> jax.Array:
        """f32[A]: Eq. (11), pi' = softmax(logits + sigma(completed Q)); 0 where illegal."""
        improved = logits(edges.prior) + _sigma_of(self, edges)
        pi = jax.nn.softmax(jnp.where(edges.legal, improved, -jnp.inf))
        return jnp.where(edges.legal, pi, 0.0)

    def _score(self, edges: Edges, gumbel: jax.Array) -> jax.Array:
        chex.assert_equal_shape([edges.prior, gumbel])
        value = _sigma_of(self, edges)
        return self.scale * gumbel + logits(edges.prior) + value


@dataclasses.dataclass(frozen=True)
class GumbelInterior(SelectionRule):
    """A selection rule: choose the action whose visit share is furthest below the improved policy.

    Eq. (14): argmax of pi' - N / (1 + sum N). A rule sees only the visited actions and the best of
    the others; pi' is exact all the same, because all the others have the value v_mix, and their
    total prior is 1 minus that of the actions seen. (Up to the rounding of 1 in f32, some 1e-7.)

    Attributes:
      value_scale, max_visit_init, rescale: of `sigma`.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    value_scale: float = 0.1
    max_visit_init: float = 50.0
    rescale: bool = True

    needs = Needs(raw_value=True, siblings=True)
    in_kernel = in_lanes = True

    def __post_init__(self):
        check_ranges(self, **_SIGMA_RANGES)

    def __call__(self, edges: Edges) -> jax.Array:
        visits = edges.visits.astype(jnp.float32)
        shortfall = self.improved_policy(edges) - visits / (1.0 + jnp.sum(visits))
        return jnp.where(edges.legal, shortfall, -jnp.inf)

    def improved_policy(self, edges: Edges) -> jax.Array:
        """f32[K]: pi' of Eq. (11) for these actions, which must include all visited ones."""
        value = _sigma_of(self, edges)
        mass = jnp.where(edges.legal, edges.prior, 0.0)
        untried = edges.legal & (edges.visits == 0)
        rest = jnp.where(any_of(untried), jnp.maximum(1.0 - jnp.sum(mass), 0.0), 0.0)
        rest_value = jnp.max(jnp.where(untried, value, -jnp.inf))
        rest_logit = jnp.where(rest > 0, jnp.log(jnp.maximum(rest, _TINY)) + rest_value, -jnp.inf)
        scores = jnp.where(edges.legal, logits(edges.prior) + value, -jnp.inf)
        return softmax_beside(scores, rest_logit)


def _sigma_of(rule: GumbelRoot | GumbelInterior, edges: Edges) -> jax.Array:
    return sigma(edges, rule.value_scale, rule.max_visit_init, rule.rescale)
