"""Tic-tac-toe as a `Game`, since the search knows nothing of Go."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.search.game import Evaluation, Game

LINES = np.array(
    [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]]
)


class Board(NamedTuple):
    own: jax.Array  # bool[9]: the player to move
    other: jax.Array  # bool[9]


def play(board, action):
    after = Board(board.other, board.own | (jnp.arange(9) == action))
    over = outcome(board)[0]
    return jax.tree.map(lambda new, old: jnp.where(over, old, new), after, board)


def outcome(board):
    """The player to move has lost if the opponent has three in a row."""
    lost = board.other[LINES].all(axis=1).any()
    over = lost | (board.own | board.other).all()
    return over, jnp.where(lost, np.float32(-1), np.float32(0))


def legal(board):
    return ~(board.own | board.other) & ~outcome(board)[0]


def init(key):
    del key
    return Board(jnp.zeros(9, bool), jnp.zeros(9, bool))


GAME = Game(9, init, play, legal, outcome, observe=lambda board: board, max_moves=9)


def even(params, rng, observations):
    """An evaluator with uniform priors and values of 0."""
    del params, rng
    count = observations.own.shape[0]
    return Evaluation(jnp.zeros((count, 9)), jnp.zeros(count))


def boards(*diagrams: str) -> Board:
    """Text diagrams with X to move, e.g. "XX. OO. ..."."""
    cells = np.array([list(d.replace(" ", "")) for d in diagrams])
    return Board(jnp.array(cells == "X"), jnp.array(cells == "O"))
