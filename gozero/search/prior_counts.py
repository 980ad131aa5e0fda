"""The prior counts of a new node, before any of its actions is tried: a heuristic's values.

Gelly & Silver (2011), section 5: Q(s, a) and Q~(s, a) of a new node begin with the heuristic's
value, counted as so many simulations, Eq. 48-52, Algorithm 2. The evaluator may have a heuristic,
see `with_heuristic`; the grandfather is another: a new node begins with what its player knew two
plies before, section 5.1: Q_grand(s_t, a) = Q(s_{t-2}, a).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gozero.search import rows, values
from gozero.search import tree as trees
from gozero.search.evaluate import Evaluated
from gozero.search.game import Evaluate, Evaluation, Heuristic
from gozero.search.tree import ROOT, Path, Tree
from gozero.search.values import CONFIDENCE

Confidence = int | Callable[[Any, jax.Array, Any], jax.Array]
"""A number of simulations, or a function ``(params, key, observations[M]) -> i32[M, A]``."""


def with_heuristic(
    evaluate: Evaluate,
    value: Callable[[Any, jax.Array, Any], jax.Array],
    visits: Confidence = 0,
    amaf_visits: Confidence = 0,
) -> Evaluate:
    """An evaluator that says what `evaluate` does, and the values of a heuristic.

    Args:
      evaluate: the evaluator.
      value: ``(params, key, observations[M]) -> f32[M, A]`` in [-1, 1]: each action's value for
        the player to move, who would take it. It has the evaluator's params and a key of its own.
      visits: C, what it counts for beside the simulations through an action; at 0 the search
        keeps no such counts.
      amaf_visits: M, what it counts for beside those that played the action later; at 0 none.

    Raises:
      ValueError: a confidence that is negative, or more than a value sum holds, or none at all.
    """
    for name, confidence in (("visits", visits), ("amaf_visits", amaf_visits)):
        if not (callable(confidence) or CONFIDENCE.holds(confidence)):
            raise ValueError(f"{name}: {confidence!r} is not {CONFIDENCE.limits()}, nor a function")
    if not callable(visits) and not callable(amaf_visits) and visits == amaf_visits == 0:
        raise ValueError("visits, amaf_visits: both 0; then the heuristic counts for nothing")

    return WithHeuristic(evaluate, functools.partial(_counted, value, visits, amaf_visits))


@dataclasses.dataclass(frozen=True)
class WithHeuristic:
    """An `Evaluate` whose heuristic may be computed by itself."""

    evaluate: Evaluate
    heuristic: Callable[[Any, jax.Array, Any], Heuristic]

    def __call__(self, params: Any, key: jax.Array, observations: Any) -> Evaluation:
        own_key, key = jax.random.split(key)
        own = self.heuristic(params, own_key, observations)
        return together(own, self.evaluate(params, key, observations))


def _counted(
    value: Callable, visits: Confidence, amaf_visits: Confidence, params, key, observations
) -> Heuristic:
    found = value(params, key, observations)

    def pair(confidence):
        if isinstance(confidence, int):
            count = jnp.full(found.shape, confidence, jnp.int32)
            return (found, count) if confidence > 0 else (None, None)
        return found, confidence(params, key, observations)

    return Heuristic(*pair(visits), *pair(amaf_visits))


def tried_once(action: jax.Array, value: jax.Array, num_actions: int) -> Heuristic:
    """One visit of each action i32[M], with a value f32[M]; none where it is no action."""
    is_it = action[:, None] == jnp.arange(num_actions)[None]
    return Heuristic(jnp.where(is_it, value[:, None], 0.0), is_it.astype(jnp.int32))


def together(one: Heuristic, evaluation: Evaluation) -> Evaluation:
    """The evaluation with this heuristic and its own, each counted as often as it says."""
    other = evaluation.heuristic
    if other is None:
        return evaluation._replace(heuristic=one)

    def pair(*pairs):
        pairs = [(value, count) for value, count in pairs if count is not None]
        if len(pairs) < 2:
            return pairs[0] if pairs else (None, None)
        (a, n), (b, m) = pairs
        return (a * n + b * m) / jnp.maximum(n + m, 1), n + m

    both = Heuristic(
        *pair((one.value, one.visits), (other.value, other.visits)),
        *pair((one.amaf_value, one.amaf_visits), (other.amaf_value, other.amaf_visits)),
    )
    return evaluation._replace(heuristic=both)


def evaluation_fields(
    tree: Tree, row: jax.Array, evaluated: Evaluated, *others: Heuristic
) -> dict[str, Any]:
    """The arrays in which an evaluation of nodes at rows i32[B] is kept, but for the priors.

    Other heuristics than the evaluator's are `others`.
    """
    return {
        "value": rows.write(tree.value, row, evaluated.value),
        "over": rows.write(tree.over, row, evaluated.over),
        **_own_utility(tree, row, evaluated),
        **_counts(tree, row, evaluated, *others),
    }


def _own_utility(tree: Tree, row: jax.Array, evaluated: Evaluated) -> dict[str, Any]:
    if tree.scores is None:
        return {}
    return {"scores": tree.scores._replace(own=rows.write(tree.scores.own, row, evaluated.utility))}


def _counts(tree: Tree, row: jax.Array, evaluated: Evaluated, *others: Heuristic) -> dict[str, Any]:
    """What new nodes at rows i32[B] begin with: the arrays of actions that are tried or not.

    The counts of other heuristics than the evaluator's are added. Gelly & Silver (2011), Eq. 48-52.
    Rows are used again, so they begin with zeros at least.
    """
    said = [evaluated.heuristic or Heuristic(), *others]
    none = jnp.zeros(evaluated.prior.shape, jnp.int32)
    new: dict[str, Any] = {}

    def put(counts, *pairs):
        visits = [none if count is None else count.astype(jnp.int32) for _, count in pairs]
        sums = [
            none if value is None else values.to_fixed(value) * count
            for (value, _), count in zip(pairs, visits, strict=True)
        ]
        visits, sums = (functools.reduce(jnp.add, x) for x in (visits, sums))
        sums = values.sum_of(sums, like=counts.sums)
        return trees.Counts(
            rows.write(counts.visits, row, visits), rows.write(counts.sums, row, sums)
        )

    if tree.prior_counts is not None:
        new["prior_counts"] = put(tree.prior_counts, *[(x.value, x.visits) for x in said])
    if tree.amaf is not None:
        pairs = [(x.amaf_value, x.amaf_visits) for x in said]
        new["amaf"] = put(tree.amaf, *pairs)
        if tree.last_sync is not None and tree.last_sync.amaf is not None:
            # What the trees of a game begin with counts once, not once for each of them.
            initial = put(tree.last_sync.amaf, *pairs)
            new["last_sync"] = tree.last_sync._replace(amaf=initial)
    return new


class Known(NamedTuple):
    """What the grandfathers of new nodes know of the actions, for the player to move at both."""

    value: jax.Array  # f32[B, A]
    is_known: jax.Array  # bool[B, A]

    @property
    def is_sound(self) -> jax.Array:
        """bool[B]: the values are no larger than 2; always so, but the compiler does not know."""
        return jnp.all(jnp.abs(self.value) <= 2, axis=1)

    def heuristic(self, visits: int, amaf_visits: int, legal: jax.Array) -> Heuristic:
        """What the nodes begin with, where bool[B, A] is legal; counts are `Grandfather`'s."""
        count = lambda most: jnp.where(self.is_known & legal, most, 0)
        return Heuristic(self.value, count(visits), self.value, count(amaf_visits))


def known_above(tree: Tree, path: Path) -> Known:
    """What is known two plies above nodes that would be added where paths end; at a root nothing.

    Args:
      tree: the trees, without the nodes.
      path: the paths, to the parents of the nodes.
    """
    level = jnp.maximum(path.length - 1, 0)
    node = jnp.take_along_axis(path.nodes, level[None], axis=0)[0]
    edges = trees.all_edges(tree, jnp.maximum(node, ROOT))
    value, is_known = edges.q, edges.visits > 0
    if edges.amaf_visits is not None and edges.amaf_q is not None:
        value = jnp.where(is_known, value, edges.amaf_q)
        is_known |= edges.amaf_visits > 0
    return Known(value, is_known & (path.length >= 1)[:, None])
