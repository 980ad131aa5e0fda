"""Openings of matches: a few random plies, no two to the same position."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go.rules import GameState, Rules, init, legal_actions, play, stones
from gozero.play.arena import KOMI
from gozero.play.openings import any_of

_ROUND = 512
"""Openings that are drawn at once. When none of them is new, they have run out."""


def distinct(rules: Rules, plies: int, key: jax.Array, most: int) -> np.ndarray:
    """Openings of which each leads to other stones on the board, each ply any legal play.

    Args:
      rules: the rules.
      plies: of each, at least 1.
      key: PRNG key.
      most: as many as are wanted; with more of them the first stay the same.

    Returns:
      i32[n, plies]: actions, n at most `most`, and fewer where there are no more.
    """
    found: dict[bytes, np.ndarray] = {}
    before, number = -1, 0
    while before < len(found) < most:
        before = len(found)
        actions, boards = jax.device_get(_draw(rules, plies, jax.random.fold_in(key, number)))
        number += 1
        for opening, board in zip(actions, boards, strict=True):
            found.setdefault(board.tobytes(), opening)
    return np.stack([*found.values()][:most])


@functools.partial(jax.jit, static_argnames="rules")
def after(rules: Rules, openings: jax.Array) -> GameState:
    """[n] games after openings i32[n, plies]."""

    def one(opening):
        step = lambda state, action: (play(rules, state, action), None)
        return jax.lax.scan(step, init(rules, KOMI), opening)[0]

    return jax.vmap(one)(openings)


@functools.partial(jax.jit, static_argnames=("rules", "plies"))
def _draw(rules: Rules, plies: int, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(actions i32[_ROUND, plies], stones after them i8[_ROUND, size, size])."""
    states = jax.vmap(lambda _: init(rules, KOMI))(jnp.arange(_ROUND))

    def ply(states, key):
        legal = jax.vmap(lambda state: legal_actions(rules, state))(states)
        action = any_of(key, legal[:, :-1])
        return jax.vmap(lambda state, a: play(rules, state, a))(states, action), action

    states, actions = jax.lax.scan(ply, states, jax.random.split(key, plies))
    return actions.T, jax.vmap(lambda state: stones(rules, state))(states)
