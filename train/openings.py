"""Openings of matches: a few random plies, no two to the same position."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from gozero.go.rules import Rules
from gozero.play.openings import any_play
from gozero.play.player import as_game
from gozero.search.game import Game

_ROUND = 512
"""Openings that are drawn at once. When none of them is new, they have run out."""


def distinct(rules: Rules | Game, plies: int, key: jax.Array, most: int) -> np.ndarray:
    """Openings of which each leads to another board, each ply any legal play.

    Args:
      rules: of Go, or another game.
      plies: of each, at least 1.
      key: PRNG key.
      most: as many as are wanted; with more of them the first stay the same.

    Returns:
      i32[n, plies]: actions, n at most `most`, and fewer where there are no more.
    """
    found: dict[bytes, np.ndarray] = {}
    game, before, number = as_game(rules), -1, 0
    while before < len(found) < most:
        before = len(found)
        actions, boards = jax.device_get(_draw(game, plies, jax.random.fold_in(key, number)))
        number += 1
        for i, opening in enumerate(actions):
            board = b"".join(x[i].tobytes() for x in jax.tree.leaves(boards))
            found.setdefault(board, opening)
    return np.stack([*found.values()][:most])


@functools.partial(jax.jit, static_argnames="rules")
def after(rules: Rules | Game, openings: jax.Array) -> Any:
    """States [n] after openings i32[n, plies]."""
    game = as_game(rules)

    def one(opening):
        step = lambda state, action: (game.play(state, action), None)
        return jax.lax.scan(step, game.init(jax.random.key(0)), opening)[0]

    return jax.vmap(one)(openings)


@functools.partial(jax.jit, static_argnames=("game", "plies"))
def _draw(game: Game, plies: int, key: jax.Array) -> tuple[jax.Array, Any]:
    """(actions i32[_ROUND, plies], the boards after them: of Go the stones)."""
    states = jax.vmap(game.init)(jax.random.split(key, _ROUND))

    def ply(states, key):
        action = any_play(game, key, jax.vmap(game.legal)(states))
        return jax.vmap(game.play)(states, action), action

    states, actions = jax.lax.scan(ply, states, jax.random.split(key, plies))
    if game.points is None:
        return actions.T, jax.vmap(game.observe)(states)
    return actions.T, (states.position.black, states.position.white)
