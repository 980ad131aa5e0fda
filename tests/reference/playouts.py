"""All playouts of a short softmax game, enumerated: their mean result and its gradient."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Hashable

from tests.reference import softmax_policy
from tests.reference.go import ReferenceGame


def expected_result(
    game: ReferenceGame, previous: int | None, left: int, komi: float, weigh: Callable
) -> tuple[float, Counter]:
    """(V, dV / d log strength of each feature): Black's mean result, by the product rule.

    V = sum over moves of p V', so dV = sum of p (dlog p V' + dV'), where dlog p of a move is its
    features less the expected features.

    Args:
      game: the position.
      previous: the point of the previous move, or None.
      left: the number of moves before the playout is truncated.
      komi: points for White.
      weigh: (game, previous) -> {action: (weight, its features)}.
    """
    if left == 0 or game.passes >= 2:
        score = game.area() - komi
        return float((score > 0) - (score < 0)), Counter()
    moves = weigh(game, previous)
    total = sum(weight for weight, _ in moves.values())
    expected: Counter[Hashable] = Counter()
    for weight, features in moves.values():
        for feature in features:
            expected[feature] += weight / total
    value, slope = 0.0, Counter()
    for action, (weight, features) in moves.items():
        after = copy.deepcopy(game)
        after.play(action)
        point = None if action == game.size**2 else action
        its_value, its_slope = expected_result(after, point, left - 1, komi, weigh)
        p = weight / total
        value += p * its_value
        for feature in features:
            slope[feature] += p * its_value
        for feature, share in expected.items():
            slope[feature] -= p * its_value * share
        for feature, amount in its_slope.items():
            slope[feature] += p * amount
    return value, slope


def by_features(shape_weight: Callable, feature_weights: dict[str, list[float]]) -> Callable:
    """The `weigh` of `softmax_policy`, with the features of each move.

    A feature is a canonical shape, or the (kind, number) of another one.
    """

    def weigh(game, previous):
        moves = {}
        found = softmax_policy.weights(game, previous, shape_weight, feature_weights)
        for action, weight in found.items():
            features = []
            if action != game.size**2:
                others = softmax_policy.features_at(game, previous, action)
                features = [softmax_policy.shape_at(game, action), *others.items()]
            moves[action] = weight, features
        return moves

    return weigh
