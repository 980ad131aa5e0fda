"""Solved games: what the search proves of a position agrees with a plain Python solver."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.connect_four import connect_four_game
from gozero.games.go import go_game
from gozero.games.rollouts import rollout_evaluator
from gozero.go import rules as go
from gozero.search import proofs, reuse
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluation, Evaluator
from gozero.search.rules import prove_first
from gozero.search.rules.puct import Puct
from gozero.search.search import search
from tests.reference import solved_go
from tests.search import tictactoe
from tests.search.test_games import (
    connect_four_positions,
    one_of_each_eight,
    stacked,
    tictactoe_children,
    tictactoe_positions,
    tictactoe_value,
)

LOSS, DRAW, WIN = proofs.LOSS, proofs.DRAW, proofs.WIN
EVEN = Evaluator(tictactoe.even)


def compiled(game, evaluator, config, roots, goes_on=False):
    """(key, roots) -> SearchResult, or (key, roots, tree)."""

    def run(key, roots, *tree):
        return search(game, evaluator, key, roots, config, *tree)

    more = (reuse.empty(roots, game.num_actions, config),) if goes_on else ()
    return jax.jit(run).lower(jax.random.key(0), roots, *more).compile()


def tictactoe_roots(positions):
    has = lambda stones: np.array([p in stones for p in range(9)])
    return stacked([tictactoe.Board(has(own), has(other)) for own, other in positions])


def as_position(diagram):
    cells = diagram.replace(" ", "")
    return tuple(frozenset(p for p in range(9) if cells[p] == who) for who in "XO")


ENDGAMES = {
    # X to move: the proven result, and the moves that may be played
    "XX. OO. ...": (WIN, {2}),
    "O.O XXO X..": (LOSS, {1, 7, 8}),  # 1 and 8 are both threatened
    "XOX XOO O.X": (DRAW, {7}),
    "O.. .X. ..O": (DRAW, {1, 3, 5, 7}),  # 2 and 6 lose
}


@pytest.mark.slow
def test_tictactoe():
    """All positions up to symmetry, and endgames worked by hand."""
    classes = one_of_each_eight(tictactoe_positions(), random.Random(0))
    positions = [as_position(diagram) for diagram in ENDGAMES] + classes
    roots = tictactoe_roots(positions)
    config = SearchConfig(600, max_depth=9, prove=True)
    run = compiled(tictactoe.GAME, EVEN, config, roots)
    result = run(jax.random.key(0), roots)
    for i, (proven, moves) in enumerate(ENDGAMES.values()):
        assert (int(result.proven[i]), int(result.action[i]) in moves) == (proven, True)
    check_tictactoe(positions, result)
    assert np.mean(result.proven != proofs.UNKNOWN) > 0.9


def check_tictactoe(positions, found):
    """Proven results are right, and the moves played there keep them."""
    value = np.array([tictactoe_value(*position) for position in positions])
    proven, moves = np.asarray(found.proven), np.asarray(found.action)
    known = np.flatnonzero(proven != proofs.UNKNOWN)
    np.testing.assert_array_equal(proven[known] - DRAW, value[known])
    np.testing.assert_array_equal(found.value[known], value[known])
    for i in known:
        assert -tictactoe_children(*positions[i])[int(moves[i])] == value[i]
    assert bool(found.ok.all())


@pytest.mark.slow
def test_tictactoe_is_a_draw():
    """From the empty board. (Without `ProveFirst` most visits go to proven draws.)"""
    positions = [(frozenset(), frozenset())] * 2
    roots = tictactoe_roots(positions)
    config = SearchConfig(60_000, max_depth=9, select=prove_first.ProveFirst(), prove=True)
    run = compiled(tictactoe.GAME, EVEN, config, roots)
    result = run(jax.random.key(0), roots)
    assert result.proven.tolist() == [DRAW] * 2
    assert result.value.tolist() == [0.0] * 2


@pytest.mark.slow
def test_proofs_survive_pruning():
    """Proofs survive pruning and rerooting, or are found again."""
    classes = one_of_each_eight(tictactoe_positions(), random.Random(0))
    roots = tictactoe_roots(classes)
    config = SearchConfig(300, capacity=450, max_depth=9, prove=True)
    run = compiled(tictactoe.GAME, EVEN, config, roots, goes_on=True)
    first = run(jax.random.key(0), roots, reuse.empty(roots, 9, config))
    check_tictactoe(classes, first)
    for most in (40, 2, 1):
        again = run(jax.random.key(most), roots, reuse.prune(first.tree, most))
        check_tictactoe(classes, again)
        won = np.asarray(first.proven) == WIN
        assert np.mean(np.asarray(again.proven)[won] == WIN) > 0.95
    # After the winner's move the opponent's position is proven lost.
    unfinished = [
        (other, own | {int(move)}) for (own, other), move in zip(classes, first.action, strict=True)
    ]
    after = tictactoe_roots(unfinished)
    moved = run(jax.random.key(5), after, reuse.reroot(first.tree, first.action))
    known = np.asarray(first.proven) != proofs.UNKNOWN
    np.testing.assert_array_equal(moved.proven[known], 4 - np.asarray(first.proven)[known])
    assert bool(moved.ok[known].all())


@pytest.mark.slow
def test_connect_four():
    """5x4, late in the game, against the exact values; most are proven."""
    positions = connect_four_positions(5, 4, range(11, 16), 128, seed=0)
    roots = stacked([board for board, _ in positions])
    game = connect_four_game(5, 4)
    rule = Puct(1.5, first_play="parent")
    config = SearchConfig(6000, max_depth=20, select=rule, prove=True)
    run = compiled(game, rollout_evaluator(game), config, roots)
    result = run(jax.random.key(0), roots)
    best = np.array([max(worth.values()) for _, worth in positions])
    proven = np.asarray(result.proven)
    known = proven != proofs.UNKNOWN
    np.testing.assert_array_equal(proven[known] - DRAW, best[known])
    assert known.mean() > 0.8
    moves = [worth[int(move)] for (_, worth), move in zip(positions, result.action, strict=True)]
    np.testing.assert_array_equal(np.array(moves)[known], best[known])


@pytest.mark.slow
def test_go_3x3():
    """Four plies at several komi, against the solver's values, draws among them."""
    rules, komis = go.Rules(size=3, ko="simple", max_moves=4), np.arange(-1.0, 4.5, 0.5)
    best = solved_go.with_limit(solved_go.solve(3), 4)[0]
    states = [go.init(rules, float(komi)) for komi in komis]
    states = jax.tree.map(lambda *x: np.stack(x), *states)
    game = go_game(rules, lambda state, position, ancestors: position.ply)

    def even(params, key, plies):
        return Evaluation(jnp.zeros((len(plies), rules.num_actions)), jnp.zeros(len(plies)))

    config = SearchConfig(20_000, max_depth=4, select=Puct(20.0), prove=True)
    run = jax.jit(lambda key, x: search(game, Evaluator(even), key, x, config))
    result = run(jax.random.key(0), states)
    proven = np.asarray(result.proven)
    known = proven != proofs.UNKNOWN
    np.testing.assert_array_equal(proven[known] - DRAW, np.sign(best - komis)[known])
    assert set(proven.tolist()) >= {LOSS, DRAW, WIN}
    assert known.mean() > 0.9
