"""Go on solved boards: the search finds the best moves, and which side wins.

The boards are played under simple ko with a move limit, so that games end and every value is
exact; `tests/reference/solved_go.py` computes them. A batch has many seeds of a few openings.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.go import go_game
from gozero.games.rollouts import ROLLOUT_RULE
from gozero.go import rules as go
from gozero.play.evaluators import playout_evaluator
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluation, Evaluator
from gozero.search.search import search
from tests.reference import solved_go

solved = functools.cache(solved_go.solve)
CORNER_3X3, EDGE_3X3, CENTRE_3X3 = 0, 1, 4
CENTRE_4X4 = {5, 6, 9, 10}
EMPTY = None


def test_the_solver_on_3x3():
    """The values that `tests/go/test_solved.py` gets from the library's rules."""
    small = solved(3)
    assert (small.low[0], small.high[0]) == (9, 9)
    corner, edge, centre = (-9, -9), (3, 9), (9, 9)
    expected = [corner, edge, corner, edge, centre, edge, corner, edge, corner]
    assert list(map(tuple, small.first_moves().tolist())) == expected


@pytest.mark.slow
def test_the_solver_on_4x4():
    board = solved(4)
    assert len(board.ranks) == 3_180_440
    assert (board.low[0], board.high[0]) == (1, 16)
    for point, (low, high) in enumerate(board.first_moves().tolist()):
        assert (low, high) == ((1, 16) if point in CENTRE_4X4 else (-16, -16)), point
    for plies, value in ((32, 1), (33, 2)):
        moves = solved_go.first_moves_with_limit(board, plies)
        assert {p for p in range(16) if moves[p] == value} == CENTRE_4X4
        assert set(np.delete(moves, sorted(CENTRE_4X4)).tolist()) == {-16}


def openings(rules, *cases, seeds):
    """States [len(cases) * seeds]: each case is (first play or EMPTY, komi)."""
    states = []
    for first, komi in cases:
        state = go.init(rules, komi)
        states += [state if first is EMPTY else go.play(rules, state, jnp.int32(first))] * seeds
    return jax.tree.map(lambda *x: np.stack(x), *states)


def played(rules, states, num_simulations, evaluator=None):
    """(actions, values) of one batched search, each flat over [case, seed]."""
    observe = evaluator.observe if evaluator else lambda state, position, ancestors: position.ply
    evaluate = evaluator.evaluate if evaluator else even(rules)
    game = go_game(rules, observe)
    config = SearchConfig(
        num_simulations=num_simulations, max_depth=rules.move_limit, select=ROLLOUT_RULE
    )

    def run(key, states):
        result = search(game, Evaluator(evaluate), key, states, config)
        return result.action, result.value, result.ok

    actions, values, ok = jax.jit(run)(jax.random.key(0), states)
    assert np.asarray(ok).all()
    return np.asarray(actions), np.asarray(values)


def even(rules):
    """A constant evaluator, so that the search learns only from finished games."""

    def evaluate(params, key, plies):
        del params, key
        count = plies.shape[0]
        return Evaluation(jnp.zeros((count, rules.num_actions)), jnp.zeros(count))

    return evaluate


@pytest.mark.slow
def test_3x3_with_playouts():
    """Black's score is 9 with the centre, -9 with a corner, 3 with an edge point; where White is to
    move the value is White's."""
    rules, seeds = go.Rules(size=3, ko="simple", max_moves=18), 2
    exact = solved_go.first_moves_with_limit(solved(3), 18)
    assert exact.tolist() == [-9, 3, -9, 3, 9, 3, -9, 3, -9]
    states = openings(
        rules,
        (EMPTY, 8.5),
        (EMPTY, 3.5),
        (EMPTY, 9.5),
        (CORNER_3X3, -8.5),
        (CORNER_3X3, -9.5),
        (EDGE_3X3, 2.5),
        (EDGE_3X3, 3.5),
        seeds=seeds,
    )
    actions, values = played(rules, states, 16_000, playout_evaluator(rules))
    actions, values = actions.reshape(-1, seeds), values.reshape(-1, seeds)
    assert (actions[:2] == CENTRE_3X3).all()
    # Black wins, Black wins, White wins; then for White: wins, loses, loses, wins.
    signs = [1, 1, -1, 1, -1, -1, 1]
    assert np.sign(values).tolist() == [[sign] * seeds for sign in signs]


@pytest.mark.slow
def test_3x3_without_an_evaluator():
    """Five plies: only the centre gets 2. Values come from finished games alone."""
    rules, seeds = go.Rules(size=3, ko="simple", max_moves=5), 8
    exact = solved_go.first_moves_with_limit(solved(3), 5)
    assert exact.tolist() == [1, 1, 1, 1, 2, 1, 1, 1, 1]
    states = openings(rules, (EMPTY, 1.5), (EMPTY, 2.5), seeds=seeds)
    actions, values = played(rules, states, 16_000)
    assert (actions[:seeds] == CENTRE_3X3).all()
    assert np.sign(values).tolist() == [1] * seeds + [-1] * seeds


@pytest.mark.slow
def test_4x4_opens_in_the_centre():
    """In 33 plies the four centre points get 2, all others lose every point."""
    rules = go.Rules(size=4, ko="simple", max_moves=33)
    states = openings(rules, (EMPTY, 1.5), seeds=8)
    actions, values = played(rules, states, 4000, playout_evaluator(rules))
    assert set(actions.tolist()) <= CENTRE_4X4
    assert (values > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("ko", ["simple", "positional"])
def test_4x4_opens_in_the_centre_in_long_games(ko):
    rules = go.Rules(size=4, ko=ko, max_moves=33)
    states = openings(rules, (EMPTY, 0.5), (EMPTY, 1.5), seeds=32)
    actions, values = played(rules, states, 16_000, playout_evaluator(rules))
    assert set(actions.tolist()) <= CENTRE_4X4
    assert (values > 0).all()
