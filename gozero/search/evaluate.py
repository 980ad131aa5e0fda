"""Evaluation of the positions that a search reaches: legality, outcome, prior and value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gozero.search import proofs, score, values
from gozero.search.game import Ancestors, Evaluation, Evaluator, Heuristic, History
from gozero.search.score import ScoreUtility


class Evaluated(NamedTuple):
    prior: jax.Array  # f32[B, A]: -inf where illegal
    value: jax.Array  # i32[B], fixed point: exact where the game is over
    over: jax.Array  # bool[B]
    ok: jax.Array  # bool[B]
    played: jax.Array | None  # bool[B, 2, A], see `Evaluation`
    heuristic: Heuristic | None
    proven: jax.Array  # i8[B]: the result that the end of the game proves, see `proofs`
    positions: Any = None  # [B], see `Evaluation`; None: unchanged
    score: jax.Array | None = None  # f32[B, 2], see `Evaluation`: exact where the game is over
    utility: jax.Array | None = None  # i32[B], fixed point: of the score, if a rule needs it

    @property
    def credited(self) -> jax.Array:
        """bool[B, 2, A]: `played`; all False without a playout, or where the game is over."""
        if self.played is not None:
            return self.played & ~self.over[:, None, None]
        num_trees, num_actions = self.prior.shape
        return jnp.zeros((num_trees, 2, num_actions), bool)


class RulesResult(NamedTuple):
    """The rules of the game applied to B positions."""

    legal: jax.Array  # bool[B, A]
    over: jax.Array  # bool[B]
    exact: jax.Array  # f32[B]: the result where the game is over, for the player to move
    score: jax.Array | None = None  # f32[B, 2]: its score in points, as `Evaluation.score`


class ExternalEvaluator(NamedTuple):
    """Replaces an evaluator where other programs apply the rules and evaluate (`compile.split`)."""

    evaluate: Callable[..., tuple[RulesResult, Evaluation]]
    """(key, contexts, positions, ancestors) -> the results of `apply_rules` and `evaluation_of`."""
    observe: Callable | None
    """The evaluator's own, which the other programs call; it decides what `ancestors` are."""

    def prepared(self) -> ExternalEvaluator:
        return self


def evaluate_positions(
    game: History,
    evaluator: Evaluator | ExternalEvaluator,
    key,
    contexts,
    positions,
    ancestors: Ancestors,
    counts_left: int,
) -> Evaluated:
    """Legality, result and evaluation of B positions; see `SearchConfig.counts_left`."""
    if isinstance(evaluator, ExternalEvaluator):
        rules_result, evaluation = evaluator.evaluate(key, contexts, positions, ancestors)
        check_evaluation(evaluation, rules_result.legal.shape)
    else:
        rules_result = apply_rules(game, contexts, positions, ancestors)
        evaluation = evaluation_of(game, evaluator, key, contexts, positions, ancestors)
        check_evaluation(evaluation, rules_result.legal.shape)
        if evaluation.positions is not None:
            rules_result = apply_rules(game, contexts, evaluation.positions, ancestors)
    return combined_evaluation(rules_result, evaluation, counts_left)


def with_utility(
    evaluated: Evaluated, utility: ScoreUtility | None, center: jax.Array | None, plies: jax.Array
) -> Evaluated:
    """The evaluations with score utilities, if they are needed; non-finite ones count as 0.

    Args:
      evaluated: of positions [B].
      utility: the utility of a score; None: not needed.
      center: f32[B]; see `ScoreUtility.center`, for the players to move at the roots.
      plies: i32[B]: how far the positions are below their roots.
    """
    if utility is None or center is None or evaluated.score is None:
        return evaluated
    amount = utility(evaluated.score, values.opponent(center, plies))
    amount = jnp.where(jnp.isfinite(amount), amount, 0.0)
    return evaluated._replace(utility=values.to_fixed(amount))


def apply_rules(game: History, contexts, positions, ancestors: Ancestors) -> RulesResult:
    """Apply the rules of the game to B positions."""
    legal = jax.vmap(game.legal)(contexts, positions, ancestors)
    if game.scored is None:
        return RulesResult(legal, *jax.vmap(game.outcome)(contexts, positions))
    over, exact, points = jax.vmap(game.scored)(contexts, positions)
    return RulesResult(legal, over, exact, score.final(points))


def evaluation_of(
    game: History, evaluator: Evaluator, key, contexts, positions, ancestors: Ancestors
) -> Evaluation:
    """The evaluator's output for B positions."""
    observations = jax.vmap(game.observe)(contexts, positions, ancestors)
    return evaluator.evaluate(evaluator.params, key, observations)


def combined_evaluation(
    rules_result: RulesResult, evaluation: Evaluation, counts_left: int = 0
) -> Evaluated:
    """Combine the rules and the evaluation of B positions; see `SearchConfig.counts_left`."""
    legal, over, exact, points = rules_result
    prior, value, ok = jax.vmap(checked)(legal, evaluation)
    heuristic = evaluation.heuristic
    if heuristic is not None:
        heuristic, is_sound = _checked_heuristic(heuristic, legal, counts_left)
        ok &= is_sound
    value = values.to_fixed(jnp.where(over, exact, value))
    ok = jnp.where(over, jnp.abs(exact) <= _MOST_VALUE, ok & legal.any(axis=1))
    proven = proofs.of_result(over, exact)
    expected = evaluation.score
    if expected is not None and points is not None:
        expected = jnp.where(over[:, None], points, expected)
    optional = evaluation.played, heuristic, proven, evaluation.positions, expected
    return Evaluated(prior, value, over, ok, *optional)


_MOST_VALUE = 1 + 2**-10
"""The largest absolute value that is accepted: rounding may exceed 1 by a little."""


def check_evaluator(evaluator: Any) -> None:
    """Refuse anything but an evaluator.

    Raises:
      TypeError: another type.
    """
    if not isinstance(evaluator, Evaluator | ExternalEvaluator):
        hint = "gozero.Evaluator(evaluate, params)"
        if callable(evaluator):
            hint += ", with evaluate(params, key, observations) -> gozero.Evaluation"
        raise TypeError(
            f"evaluator: expected an Evaluator, not a {type(evaluator).__name__}; pass {hint}"
        )


def check_evaluation(evaluation: Any, shape: tuple[int, ...]) -> None:
    """Refuse anything but an evaluation of M positions with A actions, `shape` = (M, A).

    Raises:
      TypeError: a type other than `Evaluation`.
      ValueError: an array of the wrong shape.
    """
    if not isinstance(evaluation, Evaluation):
        raise TypeError(
            f"evaluate: it returned a {type(evaluation).__name__}; return "
            "gozero.Evaluation(prior_logits, value)"
        )
    count, num_actions = shape
    expected = {"prior_logits": (count, num_actions), "value": (count,)}
    if evaluation.played is not None:
        expected["played"] = (count, 2, num_actions)
    if evaluation.score is not None:
        expected["score"] = (count, 2)
    if evaluation.heuristic is not None:
        _check_heuristic(evaluation.heuristic, shape)
    for name, expected_shape in expected.items():
        if jnp.shape(getattr(evaluation, name)) != expected_shape:
            raise ValueError(
                f"evaluate: {name} has shape {jnp.shape(getattr(evaluation, name))}; "
                f"it must be {expected_shape} for {count} positions of a game with {num_actions} "
                "actions"
            )


def _check_heuristic(heuristic: Heuristic, shape: tuple[int, ...]) -> None:
    for name, array in heuristic._asdict().items():
        if array is None:
            continue
        is_count, dtype = name.endswith("visits"), jnp.result_type(array)
        if jnp.shape(array) != shape or is_count != jnp.issubdtype(dtype, jnp.integer):
            kind = "integers" if is_count else "floats"
            raise ValueError(
                f"evaluate: heuristic.{name} is {dtype}{list(jnp.shape(array))}; "
                f"it must be {kind} of shape {list(shape)}"
            )


def _checked_heuristic(
    heuristic: Heuristic, legal: jax.Array, counts_left: int
) -> tuple[Heuristic, jax.Array]:
    """(the heuristic, with 0 for non-finite values and counts clipped to 0..`counts_left`;
    bool[B]: no count was clipped, and values that count are in [-1, 1])."""
    ok = jnp.ones(legal.shape[0], bool)
    pairs = ("value", "visits"), ("amaf_value", "amaf_visits")
    for name, count_name in pairs:
        value, count = getattr(heuristic, name), getattr(heuristic, count_name)
        if value is None or count is None:
            continue
        is_sound = jnp.abs(value) <= _MOST_VALUE  # False for a nan
        clipped = jnp.clip(count, 0, counts_left)
        is_sound = (is_sound | (count == 0)) & (clipped == count)
        ok &= jnp.all(is_sound | ~legal, axis=1)
        value = jnp.where(jnp.isfinite(value), value, 0.0)
        heuristic = heuristic._replace(**{name: value, count_name: clipped})
    return heuristic, ok


def checked(legal: jax.Array, evaluation: Evaluation) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(prior f32[A], value f32[], ok bool[]) of one position.

    The prior is the softmax over the legal actions. An evaluation that is not finite is replaced
    by a uniform prior and a value of 0, so that one bad game does not affect the others. A value
    outside [-1, 1] is not ok either; it is clipped later. Nor is a score that is not finite; its
    utility is 0.
    """
    logits, value = evaluation.prior_logits, evaluation.value
    finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(logits) | ~legal)
    score = evaluation.score
    has_sound_score = True if score is None else jnp.all(jnp.isfinite(score))
    logits = jnp.where(finite, logits, 0.0).astype(jnp.float32)
    prior = jax.nn.softmax(jnp.where(legal, logits, -jnp.inf))
    ok = finite & has_sound_score & (jnp.abs(value) <= _MOST_VALUE)
    return jnp.where(legal, prior, -jnp.inf), jnp.where(finite, value, 0.0), ok


def pad(x: jax.Array, extra: int) -> jax.Array:
    """Pad [M, ...] to [M + extra, ...] with copies of the first entry."""
    if extra == 0:
        return x
    return jnp.concatenate([x, jnp.broadcast_to(x[:1], (extra, *x.shape[1:]))])
