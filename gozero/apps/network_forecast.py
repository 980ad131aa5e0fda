"""A network's outputs for single games, and its forecast of how games will end."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gozero.compile import executables
from gozero.go import symmetry
from gozero.go.rules import GameState, Rules
from gozero.nets import kinds, network, weights
from gozero.nets.features import Inputs
from gozero.search.game import Trail


def raw_network(
    rules: Rules, path: pathlib.Path
) -> Callable[[GameState, jax.Array], network.NetworkOutput]:
    """A function (a game, a symmetry i32[]) -> the network's output [1] for it. The input is
    transformed by the symmetry, and the output back. (A KataGo network returns a `KataGoOutput`.)

    Raises:
      ValueError: the weights are missing, damaged or for another size.
    """
    shape, params, _ = weights.load(path, rules.size)
    size = rules.size

    def said(state: GameState, k: jax.Array) -> network.NetworkOutput:
        seen, turn = _see(rules, shape, state), lambda planes: symmetry.map_planes(planes, k)[None]
        if isinstance(seen, Inputs):
            found = kinds.apply(shape, params, Inputs(turn(seen[0]), seen[1][None]))
        else:
            found = kinds.apply(shape, params, turn(seen))
        back, owned = symmetry.inverse(k), found.ownership_logits
        return found._replace(
            policy_logits=symmetry.map_actions(size, found.policy_logits[0], back)[None],
            ownership_logits=(
                None if owned is None else symmetry.map_points(size, owned[0], back)[None]
            ),
        )

    return executables.jit(said)


def _see(rules: Rules, shape: kinds.Config, state: GameState) -> Any:
    """The network's input features for a game."""
    alone = Trail(jax.tree.map(lambda x: x[None], state.position), jnp.int32(0))
    return kinds.observer(shape, rules)(state, state.position, alone)


def by_network(rules: Rules, path: pathlib.Path) -> Callable | None:
    """The network's forecast, as for `forecast.forecast`; None if it was not trained for that.

    Raises:
      ValueError: the weights are missing, damaged or for another size.
    """
    shape, params, _ = weights.load(path, rules.size)
    return functools.partial(_by_network, rules, shape, params) if shape.auxiliary else None


def _by_network(
    rules: Rules, shape: kinds.Config, params: dict, key: jax.Array, states: GameState
) -> tuple[Any, Any]:
    del key
    see = functools.partial(_see, rules, shape)
    said = kinds.apply(shape, params, jax.vmap(see)(states))
    assert said.score is not None  # it has these heads
    assert said.ownership is not None
    black = jnp.where(states.to_play == 0, 1.0, -1.0)
    return black * said.score, black[:, None] * said.ownership
