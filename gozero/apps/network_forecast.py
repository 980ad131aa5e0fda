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
from gozero.search.game import no_ancestors


def raw_network(
    rules: Rules, path: pathlib.Path
) -> Callable[[GameState, jax.Array, jax.Array], network.NetworkOutput]:
    """A function (a game, a symmetry i32[], an optimism f32[]) -> the network's output [1] for it.
    The input is transformed by the symmetry, and the output back. (A KataGo network returns a
    `KataGoOutput`; one with an optimistic policy gives it the weight of the optimism, or if that is
    not finite, its weight at the root of a search.)

    Raises:
      ValueError: the weights are missing, damaged or for another size.
    """
    config, params, _ = weights.load(path, rules.size)
    size = rules.size

    def output_for(state: GameState, k: jax.Array, optimism: jax.Array) -> network.NetworkOutput:
        inputs = _inputs_of(rules, config, state)
        transform = lambda planes: symmetry.map_planes(planes, k)[None]
        if isinstance(inputs, Inputs):
            seen = Inputs(transform(inputs.planes), inputs.global_inputs[None])
            if inputs.optimism is not None:
                given = jnp.where(jnp.isfinite(optimism), optimism, inputs.optimism)
                seen = seen._replace(optimism=given[None])
            output = kinds.apply(config, params, seen)
        else:
            output = kinds.apply(config, params, transform(inputs))
        inverse, ownership = symmetry.inverse(k), output.ownership_logits
        return output._replace(
            policy_logits=symmetry.map_actions(size, output.policy_logits[0], inverse)[None],
            ownership_logits=(
                None
                if ownership is None
                else symmetry.map_points(size, ownership[0], inverse)[None]
            ),
        )

    return executables.jit(output_for)


def _inputs_of(rules: Rules, config: kinds.Config, state: GameState) -> Any:
    """The network's input features for a game."""
    return kinds.observer(config, rules)(state, state.position, no_ancestors(state.position))


def by_network(rules: Rules, path: pathlib.Path) -> Callable | None:
    """The network's forecast, as for `forecast.forecast`; None if it was not trained for that.

    Raises:
      ValueError: the weights are missing, damaged or for another size.
    """
    config, params, _ = weights.load(path, rules.size)
    return functools.partial(_by_network, rules, config, params) if config.auxiliary else None


def _by_network(
    rules: Rules, config: kinds.Config, params: dict, key: jax.Array, states: GameState
) -> tuple[Any, Any]:
    del key
    inputs_of = functools.partial(_inputs_of, rules, config)
    output = kinds.apply(config, params, jax.vmap(inputs_of)(states))
    assert output.score is not None  # it has these heads
    assert output.ownership is not None
    sign = jnp.where(states.to_play == 0, 1.0, -1.0)
    return sign * output.score, sign[:, None] * output.ownership
