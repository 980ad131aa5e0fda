"""Prior counts: a heuristic's values, with which a new node begins before any action is tried.

Gelly & Silver (2011), section 5: Q(s, a) and Q~(s, a) of a new node begin with the heuristic's
value, counted as a number of simulations, Eq. 48-52, Algorithm 2. The evaluator may have a
heuristic, see `with_heuristic`; the grandfather is another: a new node begins with the values that
its player had two plies before, section 5.1: Q_grand(s_t, a) = Q(s_{t-2}, a).
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
    """An evaluator that adds the values of a heuristic to the results of `evaluate`.

    Args:
      evaluate: the evaluator.
      value: ``(params, key, observations[M]) -> f32[M, A]`` in [-1, 1]: each action's value for
        the player to move, who would take it. It gets the evaluator's params, which are those of
        `evaluate`, and a key of its own.
      visits: C, the simulations through an action that its value counts for; with 0, the search
        stores no such counts.
      amaf_visits: M, likewise for simulations that played the action later; 0 for none.

    Raises:
      ValueError: a confidence that is negative, or more than a value sum can hold; both 0.
    """
    for name, confidence in (("visits", visits), ("amaf_visits", amaf_visits)):
        if not (callable(confidence) or CONFIDENCE.holds(confidence)):
            raise ValueError(
                f"{name}: {confidence!r} is neither {CONFIDENCE.limits()} nor a function"
            )
    if not callable(visits) and not callable(amaf_visits) and visits == amaf_visits == 0:
        raise ValueError(
            "visits, amaf_visits: both are 0, so the heuristic has no effect; set one above 0"
        )

    return WithHeuristic(evaluate, functools.partial(_counted, value, visits, amaf_visits))


@dataclasses.dataclass(frozen=True)
class WithHeuristic:
    """An `Evaluate` whose heuristic can also be computed separately."""

    evaluate: Evaluate
    heuristic: Callable[[Any, jax.Array, Any], Heuristic]

    def __call__(self, params: Any, key: jax.Array, observations: Any) -> Evaluation:
        own_key, key = jax.random.split(key)
        own = self.heuristic(params, own_key, observations)
        return add_heuristic(own, self.evaluate(params, key, observations))


def _counted(
    value: Callable, visits: Confidence, amaf_visits: Confidence, params, key, observations
) -> Heuristic:
    value_key, visits_key, amaf_key = jax.random.split(key, 3)
    initial_value = value(params, value_key, observations)

    def pair(confidence, key):
        if not callable(confidence):
            count = jnp.full(initial_value.shape, confidence, jnp.int32)
            return (initial_value, count) if confidence > 0 else (None, None)
        return initial_value, confidence(params, key, observations)

    return Heuristic(*pair(visits, visits_key), *pair(amaf_visits, amaf_key))


def one_visit(action: jax.Array, value: jax.Array, num_actions: int) -> Heuristic:
    """A heuristic of one visit to the action i32[M], with value f32[M]; none if out of range."""
    is_tried = action[:, None] == jnp.arange(num_actions)[None]
    return Heuristic(jnp.where(is_tried, value[:, None], 0.0), is_tried.astype(jnp.int32))


def add_heuristic(one: Heuristic, evaluation: Evaluation) -> Evaluation:
    """The evaluation with this heuristic added to its own; values are weighted by their counts."""
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
    """The arrays that store an evaluation, except the priors, written at rows i32[B].

    `others` are heuristics in addition to the evaluator's.
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
    """The count arrays of all actions, with the initial counts of new nodes at rows i32[B].

    The counts of all heuristics are added up. Gelly & Silver (2011), Eq. 48-52. Without any, zeros
    are written, because rows are reused.
    """
    heuristics = [evaluated.heuristic or Heuristic(), *others]
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
        new["prior_counts"] = put(tree.prior_counts, *[(x.value, x.visits) for x in heuristics])
    if tree.amaf is not None:
        pairs = [(x.amaf_value, x.amaf_visits) for x in heuristics]
        new["amaf"] = put(tree.amaf, *pairs)
        if tree.last_sync is not None and tree.last_sync.amaf is not None:
            # The initial counts count once for a game, not once for each of its trees.
            initial = put(tree.last_sync.amaf, *pairs)
            new["last_sync"] = tree.last_sync._replace(amaf=initial)
    return new


class ValuesAbove(NamedTuple):
    """The values of actions at new nodes' grandparents, for the player to move at both."""

    value: jax.Array  # f32[B, A]
    is_known: jax.Array  # bool[B, A]

    @property
    def is_sound(self) -> jax.Array:
        """bool[B]: whether values are at most 2; always True, but the compiler cannot know."""
        return jnp.all(jnp.abs(self.value) <= 2, axis=1)

    def heuristic(self, visits: int, amaf_visits: int, legal: jax.Array) -> Heuristic:
        """The nodes' initial values, where legal, bool[B, A]; counts are those of `Grandfather`."""
        masked = lambda confidence: jnp.where(self.is_known & legal, confidence, 0)
        return Heuristic(self.value, masked(visits), self.value, masked(amaf_visits))


def values_above(tree: Tree, path: Path) -> ValuesAbove:
    """The values two plies above the nodes to be added; none for children of the root.

    Args:
      tree: the trees, without the new nodes.
      path: the paths, which end at the parents of the new nodes.
    """
    level = jnp.maximum(path.length - 1, 0)
    node = jnp.take_along_axis(path.nodes, level[None], axis=0)[0]
    edges = trees.all_edges(tree, jnp.maximum(node, ROOT))
    value, is_known = edges.q, edges.visits > 0
    if edges.amaf_visits is not None and edges.amaf_q is not None:
        value = jnp.where(is_known, value, edges.amaf_q)
        is_known |= edges.amaf_visits > 0
    return ValuesAbove(value, is_known & (path.length >= 1)[:, None])
