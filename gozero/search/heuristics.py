"""A heuristic beside an evaluator: what is believed of actions before any is tried.

Gelly & Silver (2011), section 5: Q(s, a) and Q~(s, a) of a new node begin with the heuristic's
value, counted as so many simulations (Eq. 48-52, Algorithm 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gozero.search.config import MAX_VISITS
from gozero.search.game import Evaluate, Evaluation, Heuristic

Confidence = int | Callable[[Any, jax.Array, Any], jax.Array]
"""A number of simulations, or a function ``(params, key, observations[M]) -> i32[M, A]``."""


def with_heuristic(
    evaluate: Evaluate,
    value: Callable[[Any, jax.Array, Any], jax.Array],
    visits: Confidence = 0,
    amaf_visits: Confidence = 0,
) -> Evaluate:
    """An evaluator that says what `evaluate` does, and what a heuristic believes.

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
        if isinstance(confidence, int) and not 0 <= confidence <= MAX_VISITS:
            raise ValueError(
                f"{name}: {confidence} is not from 0 to {MAX_VISITS} "
                "(the most that a fixed-point value sum holds, the simulations included)"
            )
    if not callable(visits) and not callable(amaf_visits) and visits == amaf_visits == 0:
        raise ValueError("visits, amaf_visits: both 0; then the heuristic counts for nothing")

    def evaluate_both(params: Any, key: jax.Array, observations: Any) -> Evaluation:
        own_key, key = jax.random.split(key)
        believed = value(params, own_key, observations)

        def pair(confidence):
            if isinstance(confidence, int):
                count = jnp.full(believed.shape, confidence, jnp.int32)
                return (believed, count) if confidence > 0 else (None, None)
            return believed, confidence(params, own_key, observations)

        judged = evaluate(params, key, observations)
        return judged._replace(heuristic=Heuristic(*pair(visits), *pair(amaf_visits)))

    return evaluate_both
