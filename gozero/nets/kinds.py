"""The two kinds of networks, gozero's own and KataGo's: functions that dispatch on the config."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gozero.go.rules import Rules
from gozero.nets import network
from gozero.nets.features import feature_set
from gozero.nets.katago import inputs as katago_inputs
from gozero.nets.katago import network as katago
from gozero.nets.katago.network import KataGoConfig
from gozero.nets.network import NetworkConfig

Config = NetworkConfig | KataGoConfig


def observer(config: Config, rules: Rules) -> Callable:
    """Returns the function (state, position, ancestors) -> inputs of a Go network with this config.

    Raises:
      ValueError: the config is KataGo's and the rules do not fit it.
    """
    if isinstance(config, KataGoConfig):
        katago_inputs.check_fits(rules, config)
        return functools.partial(katago_inputs.observe, config, rules)
    return functools.partial(feature_set(config.features).observe, rules)


def apply(config: Config, params: dict, inputs: Any) -> Any:
    """Evaluates a network on M positions; returns a `NetworkOutput`, or a `KataGoOutput`, which has
    the same fields and more."""
    if isinstance(config, KataGoConfig):
        return katago.apply(config, params, inputs)
    return network.apply(config, params, inputs)


def activation_bytes(config: Config, num_points: int) -> int:
    """About how many bytes of activations one position on a board of `num_points` points takes
    while it is evaluated: a few layers at a time, and of attention the weights among all points."""
    heads = config.most_heads if isinstance(config, KataGoConfig) else 0
    per_point = 4 * config.channels + config.num_planes + 2 * heads * num_points
    return num_points * 4 * per_point
