"""Named heuristics for Go, added to an evaluator: initial values of new nodes (Eq. 48-52).

Gelly & Silver (2011), section 5.1, compares four. Three are here; the search itself implements the
fourth, the grandfather heuristic (`SearchConfig.grandfather`).
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gozero.go.branch import last_move
from gozero.go.rules import GameState, Position, Rules
from gozero.playouts.policies.mogo import handcrafted
from gozero.playouts.policies.mogo.move_rules import PLAIN, MogoConfig
from gozero.search.game import Ancestors, Evaluation, Evaluator, Heuristic
from gozero.search.prior_counts import with_heuristic
from gozero.td import local_shape
from gozero.td import weights as shape_weights

NAMES = ("even", "mogo", "shape")


class Observation(NamedTuple):
    """The inputs of an evaluator and of the heuristic added to it, for a position."""

    by_evaluator: Any
    position: Position
    last: jax.Array  # i32[]: the opponent's last move, or NO_POINT


class HeuristicParams(NamedTuple):
    """The parameters of the evaluator and of the heuristic."""

    evaluator: Any
    table: jax.Array | None  # f32[E]: the values of local shapes


def add_heuristic(
    rules: Rules,
    evaluator: Evaluator,
    name: str,
    visits: int = 0,
    amaf_visits: int = 0,
    mogo: MogoConfig = PLAIN,
    good_visits: int = 0,
    shapes: pathlib.Path | None = None,
    lost_eyes: bool = True,
) -> Evaluator:
    """The evaluator with a heuristic added.

    Unless `lost_eyes` is False, own eyes and the pass begin as lost whatever the heuristic's value:
    playouts hardly ever play them, so they gain no all-moves-as-first statistics, and their initial
    values would persist while those of the other moves fall. ("mogo" values an eye as good where
    filling it saves a chain.)

    Args:
      rules: the rules.
      evaluator: evaluates positions.
      name: "even": every action wins as often as it loses; "mogo": see `handcrafted`; "shape": by
        the weights of local shapes (`local_shape`).
      visits: C, the heuristic's weight in simulations through an action.
      amaf_visits: M, its weight in all-moves-as-first simulations.
      mogo: the rules of "mogo" and of good moves.
      good_visits: extra won all-moves-as-first simulations with which MoGo's good moves begin.
      shapes: the weights file for "shape", see `gozero.td.weights`; None: that of the package.
      lost_eyes: False: own eyes and the pass take the heuristic's values; "even" is then the
        paper's even game.

    Raises:
      ValueError: an unknown name, confidences that are negative or both 0, good_visits without
        amaf_visits, or weights that are missing, damaged, for another size or unused.
    """
    _check(name, amaf_visits, good_visits, shapes)
    table, shape_values, about = (
        _local_shapes(rules, shapes) if name == "shape" else (None, None, {})
    )
    mogo_values = handcrafted.heuristic(rules, mogo, lambda obs: (obs.position, obs.last))

    def observe(state: GameState, position: Position, ancestors: Ancestors) -> Observation:
        last = last_move(rules, state, position, *ancestors)
        assert evaluator.observe is not None  # evaluators of Go have their own
        return Observation(evaluator.observe(state, position, ancestors), position, last)

    def value(params: HeuristicParams, key: jax.Array, observation: Observation) -> jax.Array:
        if name == "mogo":
            return mogo_values(None, key, observation)
        values = jnp.zeros((*observation.last.shape, rules.num_actions))
        if shape_values is not None:
            values = shape_values(params.table, key, observation)
        if not lost_eyes:
            return values
        return jnp.where(handcrafted.never_played(rules, observation.position), -1.0, values)

    def by_evaluator(
        params: HeuristicParams, key: jax.Array, observation: Observation
    ) -> Evaluation:
        return evaluator.evaluate(params.evaluator, key, observation.by_evaluator)

    with_values = with_heuristic(by_evaluator, value, visits, amaf_visits)

    def evaluate(params: HeuristicParams, key: jax.Array, observation: Observation) -> Evaluation:
        evaluation = with_values(params, key, observation)
        assert evaluation.heuristic is not None
        good = mogo_values(None, key, observation) > 0
        return evaluation._replace(
            heuristic=_add_won_visits(evaluation.heuristic, good, good_visits)
        )

    description = {"name": name, "visits": visits, "amaf_visits": amaf_visits}
    description |= {"good_visits": good_visits} if good_visits else {}
    description |= {} if lost_eyes else {"lost_eyes": False}
    prepare = evaluator.prepare

    def prepared(params: HeuristicParams) -> HeuristicParams:
        assert prepare is not None  # used only if it is given
        return params._replace(evaluator=prepare(params.evaluator))

    return evaluator._replace(
        observe=observe,
        evaluate=evaluate if good_visits else with_values,
        params=HeuristicParams(evaluator.params, table),
        prepare=prepare and prepared,
        about={**evaluator.about, "heuristic": description, **about},
    )


def _check(name: str, amaf_visits: int, good_visits: int, shapes: pathlib.Path | None) -> None:
    if name not in NAMES:
        raise ValueError(f"heuristic: {name!r} is not one of {', '.join(NAMES)}")
    if good_visits < 0 or (good_visits > 0 and amaf_visits == 0):
        raise ValueError(
            f"good_visits: {good_visits}; expected at least 0, and 0 without amaf_visits, to which "
            "they are added"
        )
    if shapes is not None and name != "shape":
        raise ValueError(f"shapes: {shapes} is not used by the heuristic {name!r}; omit it")


def _add_won_visits(heuristic: Heuristic, good: jax.Array, count: int) -> Heuristic:
    """The heuristic with `count` more won all-moves-as-first visits of good moves bool[M, A]."""
    value, visits = heuristic.amaf_value, heuristic.amaf_visits
    assert value is not None
    assert visits is not None
    extra = jnp.where(good, count, 0)
    value = (value * visits + extra) / (visits + extra)
    return heuristic._replace(amaf_value=value, amaf_visits=visits + extra)


def _local_shapes(rules: Rules, file: pathlib.Path | None) -> tuple[jax.Array, Callable, dict]:
    """(the table, ``(table, key, Observation [M]) -> f32[M, A]``, a description of its file)."""
    learnt, about = shape_weights.for_board(rules.size, file)
    value = local_shape.heuristic(rules, learnt.shapes, positions_of=lambda obs: obs.position)
    return local_shape.table(learnt.shapes, learnt.weights), value, about
