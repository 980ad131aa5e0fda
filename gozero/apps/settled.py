"""Boards of finished games: which stones are dead, and whose the points are without them."""

from __future__ import annotations

import functools
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from gozero.compile import executables
from gozero.go import bitboard as bb
from gozero.go import scoring
from gozero.go.rules import GameState, Rules, with_to_play
from gozero.playouts import engine
from gozero.playouts.policies.mogo import playouts as mogo_playouts

_PLAYOUTS = 256
_DEAD = -0.5
"""A chain is dead if the mean ownership of its points, for its own colour, is below this."""


def dead_chains(stones: np.ndarray, ownership: np.ndarray) -> np.ndarray:
    """bool[size, size]: stones of chains whose points the opponent is expected to own.

    Args:
      stones: i8[size, size]: +1 Black, -1 White, 0 empty.
      ownership: f32[size, size] in [-1, 1]: the expected owners; +1 Black.
    """
    from scipy import ndimage  # importing it takes an eighth of a second

    dead = np.zeros(stones.shape, bool)
    for colour in (1, -1):
        chains, number = cast(tuple[np.ndarray, int], ndimage.label(stones == colour))
        mean_ownership = ndimage.mean(colour * ownership, chains, range(1, number + 1))
        dead |= np.isin(chains, 1 + np.flatnonzero(np.asarray(mean_ownership) < _DEAD))
    return dead


def by_playouts(rules: Rules, state: GameState) -> np.ndarray:
    """f32[size, size] in [-1, 1]: the mean owners at the end of playouts, +1 Black; each player
    begins half of them."""
    return np.asarray(_mean_ownership(rules, state))


@functools.partial(executables.jit, static_argnums=(0,))
def _mean_ownership(rules: Rules, state: GameState) -> jax.Array:
    movers = jnp.arange(_PLAYOUTS) % 2
    start = lambda mover: with_to_play(state, mover).position.replace(passes=jnp.int8(0))
    positions = jax.vmap(start)(movers)
    policy = mogo_playouts.policy(rules.layout)
    playouts = engine.play_out(policy, rules, positions, jax.random.key(0), ends=True)
    return engine.ownership(rules, playouts).astype(jnp.float32).mean(0)


def owners(rules: Rules, stones: np.ndarray, dead: np.ndarray) -> np.ndarray:
    """i8[size, size]: +1 Black's area, -1 White's, 0 neither's, once the dead stones are removed.

    Args:
      rules: the rules.
      stones: i8[size, size]: +1 Black, -1 White, 0 empty.
      dead: bool[size, size].
    """
    return np.asarray(_owners(rules, np.where(dead, 0, stones).astype(np.int8)))


@functools.partial(executables.jit, static_argnums=(0,))
def _owners(rules: Rules, stones: jax.Array) -> jax.Array:
    black, white = (bb.pack(rules.layout, stones == colour) for colour in (1, -1))
    return scoring.owners(rules, black, white)
