"""Forecasts of how games will end: the score, and the owner of each point."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gozero.go.rules import GameState, Rules
from gozero.playouts.engine import ownership
from gozero.playouts.policies.mogo.playouts import mogo_playouts

Forecast = Callable[[jax.Array, GameState], tuple[jax.Array, jax.Array]]
"""(key, games [B]) -> (Black's lead, f32[B] points after komi; ownership f32[B, size * size], +1
Black's, -1 White's)."""


def forecast(rules: Rules, path: pathlib.Path | None, playouts: int) -> Forecast:
    """A forecast by the network, if it was trained to predict both; otherwise by playouts.

    Args:
      rules: the rules.
      path: the network's weights, if there are any.
      playouts: the number of playouts per position, by MoGo's playout policy.

    Raises:
      ValueError: the weights are missing, damaged or for another size.
    """
    if path is not None:
        from gozero.apps import network_forecast  # it imports flax

        network = network_forecast.by_network(rules, path)
        if network is not None:
            return network
    return functools.partial(_by_playouts, rules, playouts)


def _by_playouts(rules: Rules, count: int, key: jax.Array, states: GameState) -> tuple[Any, Any]:
    positions = jax.tree.map(lambda x: jnp.repeat(x, count, axis=0), states.position)
    playouts = mogo_playouts(rules, positions, key, ends=True)
    mean = lambda x: jnp.mean(x.reshape(-1, count, *x.shape[1:]).astype(jnp.float32), axis=1)
    owners = ownership(rules, playouts).reshape(len(playouts.score), rules.num_points)
    return mean(playouts.score) - states.komi, mean(owners)
