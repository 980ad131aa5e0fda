"""Games that are solved: what the search proves of a position is what plain Python says of it."""

from __future__ import annotations

import functools
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import rules as go
from gozero.players.go_game import go_game
from gozero.search import proofs, reuse
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluation
from gozero.search.search import search
from gozero.search.selection import Puct
from tests.reference import solved_go
from tests.search import connect_four, tictactoe
from tests.search.test_games import (
    connect_four_positions,
    one_of_each_eight,
    stacked,
    tictactoe_children,
    tictactoe_positions,
    tictactoe_value,
)

LOSS, DRAW, WIN = proofs.LOSS, proofs.DRAW, proofs.WIN


def compiled(game, evaluate, config, roots, goes_on=False):
    """(key, roots) -> SearchResult, or (key, roots, tree)."""
    count = jax.tree.leaves(roots)[0].shape[0]

    def run(key, roots, *tree):
        return search(game, evaluate, None, key, jnp.zeros(count), roots, config, *tree)

    more = (reuse.empty(roots, game.num_actions, config),) if goes_on else ()
    return jax.jit(run).lower(jax.random.key(0), roots, *more).compile()


def tictactoe_roots(positions):
    has = lambda stones: np.array([p in stones for p in range(9)])
    return stacked([tictactoe.Board(has(own), has(other)) for own, other in positions])


def as_position(diagram):
    cells = diagram.replace(" ", "")
    return tuple(frozenset(p for p in range(9) if cells[p] == who) for who in "XO")


ENDGAMES = {
    # X to move: what is proven, and what may be played
    "XX. OO. ...": (WIN, {2}),
    "O.O XXO X..": (LOSS, {1, 7, 8}),  # 1 and 8 are both threatened
    "XOX XOO O.X": (DRAW, {7}),
    "X.. .O. ..X": (DRAW, {1, 3, 5, 7}),  # with 2 or 6 he loses
}


def test_tictactoe():
    """All positions up to symmetry, and endgames by hand."""
    classes = one_of_each_eight(tictactoe_positions(), random.Random(0))
    positions = [as_position(diagram) for diagram in ENDGAMES] + classes
    roots = tictactoe_roots(positions)
    run = compiled(
        tictactoe.GAME, tictactoe.even, SearchConfig(400, max_depth=9, prove=True), roots
    )
    found = run(jax.random.key(0), roots)
    for (proven, moves), got, move in zip(ENDGAMES.values(), found.proven, found.action):
        assert (int(got), int(move) in moves) == (proven, True)
    value = np.array([tictactoe_value(*position) for position in positions])
    proven = np.asarray(found.proven)
    known = proven != proofs.UNKNOWN
    np.testing.assert_array_equal(proven[known] - DRAW, value[known])
    np.testing.assert_array_equal(found.value[known], value[known])
    assert known.mean() > 0.9 and set(proven.tolist()) == {0, LOSS, DRAW, WIN}
    for (own, other), move in zip(np.array(positions, object)[known], found.action[known]):
        assert -tictactoe_children(own, other)[int(move)] == tictactoe_value(own, other)
    assert bool(found.ok.all())
