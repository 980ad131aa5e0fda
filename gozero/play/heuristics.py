"""Heuristics beside an evaluator of Go, by name: what new nodes begin with (Eq. 48-52).

Gelly & Silver (2011), section 5.1, compares four. Three are here; the fourth, of the grandfather,
is the search's own (`SearchConfig.grandfather`).
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gozero.go.branch import last_move
from gozero.go.rules import GameState, Position, Rules
from gozero.play.evaluators import Evaluator
from gozero.playouts.policies.mogo import handcrafted
from gozero.playouts.policies.mogo.move_rules import PLAIN, MogoConfig
from gozero.search.game import Evaluation, Heuristic, Trail
from gozero.search.prior_counts import with_heuristic
from gozero.td import local_shape
from gozero.td import weights as shape_weights

NAMES = ("even", "mogo", "shape")


class Seen(NamedTuple):
    """What an evaluator and a heuristic beside it see of a position."""

    by_evaluator: Any
    position: Position
    last: jax.Array  # i32[]: the opponent's last move, or no point


class Params(NamedTuple):
    """Parameters of both."""

    evaluator: Any
    table: jax.Array | None  # f32[E]: what local shapes are worth


def beside(
    rules: Rules,
    evaluator: Evaluator,
    name: str,
    visits: int = 0,
    amaf_visits: int = 0,
    mogo: MogoConfig = PLAIN,
    good_visits: int = 0,
    shapes: pathlib.Path | None = None,
) -> Evaluator:
    """The evaluator with a heuristic beside it.

    Own eyes and the pass begin as lost, whatever the others are worth: playouts hardly play them,
    so that the all-moves-as-first values do not hear of them, and what is said of them would stand
    while the other moves' values fall. ("mogo" holds an eye for good where that saves a chain.)

    Args:
      rules: the rules.
      evaluator: what judges positions.
      name: "even", every action wins as often as it loses; "mogo", see `handcrafted`; "shape",
        by the weights of local shapes (`local_shape`).
      visits: C, what that counts for beside the simulations through an action.
      amaf_visits: M, what it counts for beside those that played it later.
      mogo: the rules of "mogo", and of good moves.
      good_visits: what MoGo's good moves count for besides, as all-moves-as-first simulations that
        were won.
      shapes: the file of these weights, of `gozero.td.weights`; None for those in
        the package.

    Raises:
      ValueError: an unknown name, confidences that are negative or both 0, good moves without
        amaf_visits, or weights that are missing, damaged, of another size or of no use.
    """
    if name not in NAMES:
        raise ValueError(f"heuristic: {name!r} is not one of {', '.join(NAMES)}")
    if good_visits < 0 or (good_visits > 0 and amaf_visits == 0):
        raise ValueError(
            f"good_visits: {good_visits} is negative, or without amaf_visits, to which they add"
        )
    if shapes is not None and name != "shape":
        raise ValueError(f"shapes: {shapes} is of no use to the heuristic {name!r}")
    table, value, learnt = _named(rules, name, mogo, shapes)
    good_moves = handcrafted.heuristic(rules, mogo, lambda seen: (seen.position, seen.last))

    def observe(state: GameState, position: Position, trail: Trail) -> Seen:
        last = last_move(rules, state, position, *trail)
        return Seen(evaluator.observe(state, position, trail), position, last)

    def believed(params: Params, key: jax.Array, seen: Seen) -> jax.Array:
        found = value(params.table, key, seen)
        if name == "mogo":  # which has its own word on eyes and the pass
            return found
        return jnp.where(handcrafted.unheard(rules, seen.position), -1.0, found)

    def judge(params: Params, key: jax.Array, seen: Seen) -> Evaluation:
        return evaluator.evaluate(params.evaluator, key, seen.by_evaluator)

    evaluate = with_heuristic(judge, believed, visits, amaf_visits)

    def with_good(params: Params, key: jax.Array, seen: Seen) -> Evaluation:
        judged = evaluate(params, key, seen)
        assert judged.heuristic is not None
        good = good_moves(None, key, seen) > 0
        return judged._replace(heuristic=_won_besides(judged.heuristic, good, good_visits))

    about = {"name": name, "visits": visits, "amaf_visits": amaf_visits}
    about |= {"good_visits": good_visits} if good_visits else {}
    return evaluator._replace(
        observe=observe,
        evaluate=with_good if good_visits else evaluate,
        params=Params(evaluator.params, table),
        about={**evaluator.about, "heuristic": about, **learnt},
    )


def _won_besides(heuristic: Heuristic, good: jax.Array, count: int) -> Heuristic:
    """The all-moves-as-first values, good moves bool[M, A] with so many more that were won."""
    value, visits = heuristic.amaf_value, heuristic.amaf_visits
    assert value is not None
    assert visits is not None
    more = jnp.where(good, count, 0)
    value = (value * visits + more) / (visits + more)
    return heuristic._replace(amaf_value=value, amaf_visits=visits + more)


def _named(
    rules: Rules, name: str, mogo: MogoConfig, shapes: pathlib.Path | None
) -> tuple[jax.Array | None, Callable, dict]:
    """(the table, ``(table, key, Seen [M]) -> f32[M, A]``, where the table is from)."""
    if name == "even":
        return None, lambda table, key, seen: jnp.zeros((*seen.last.shape, rules.num_actions)), {}
    if name == "mogo":
        seen_by_mogo = lambda seen: (seen.position, seen.last)
        return None, handcrafted.heuristic(rules, mogo, seen_by_mogo), {}
    learnt, about = shape_weights.given(rules.size, shapes)
    table = local_shape.table(learnt.shapes, learnt.weights)
    value = local_shape.heuristic(rules, learnt.shapes, positions_of=lambda seen: seen.position)
    return table, value, about
