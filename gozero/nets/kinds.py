"""The two kinds of networks: the project's own, and KataGo's; what their configs choose between."""

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
    """(state, position, trail) -> what a network of Go is shown.

    Raises:
      ValueError: rules that do not go with a network of KataGo.
    """
    if isinstance(config, KataGoConfig):
        katago_inputs.check_fits(rules, config)
        return functools.partial(katago_inputs.observe, config, rules)
    return functools.partial(feature_set(config.features).observe, rules)


def apply(config: Config, params: dict, inputs: Any) -> Any:
    """What a network says of M positions: a `NetworkOutput`, or a `KataGoOutput`, which has its
    fields and more."""
    if isinstance(config, KataGoConfig):
        return katago.apply(config, params, inputs)
    return network.apply(config, params, inputs)
