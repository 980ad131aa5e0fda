"""The strength of playout policies in a tree: uniform, MoGo's with extensions, and learnt ones.

python -m experiments.playout_policies.run [--games 200] [--simulations 1000] [--out DIR]
"""

from __future__ import annotations

import sys

from experiments.playout_policies.config import PlayoutPoliciesConfig
from experiments.sweeps import equal_time, run
from experiments.sweeps.points import Contestant, Sweep
from gozero.play.player_config import PlayerConfig

_OPPONENT = "MoGo"
_ANCHORS = ("uniform", "MoGo", "MoGo, nakade", "balanced", "balanced with atari")


def contestants(config: PlayoutPoliciesConfig) -> dict[str, Contestant]:
    """{name: MC-RAVE with that policy}."""
    diversity = config.diversity
    policies = {
        "uniform": {"playouts": "uniform"},
        "MoGo": {"playouts": "mogo"},
        "MoGo, nakade": {"playouts": "mogo", "nakade": True},
        "MoGo, diversity": {"playouts": "mogo", "diversity": diversity},
        "MoGo, both": {"playouts": "mogo", "nakade": True, "diversity": diversity},
        "MM": {"playouts": "mm"},
        "balanced": {"playouts": "balanced"},
        "MM with atari": {"playouts": "mm-atari"},
        "balanced with atari": {"playouts": "balanced-atari"},
    }
    common = {"search": "rave", "rave_bias": config.bias, "simulations": config.simulations}
    return {name: Contestant(PlayerConfig(**common, **more)) for name, more in policies.items()}


def sweep(
    config: PlayoutPoliciesConfig, simulations_per_s: equal_time.Speeds | None = None
) -> Sweep:
    """Every policy against MoGo's, at equal simulations; given speeds, at equal time."""
    players = contestants(config)
    points = equal_time.points(players, config.policies, _OPPONENT, _ANCHORS, simulations_per_s)
    return Sweep(
        "playout_policies",
        points,
        title=f"{points[0].series}, against MoGo's playouts and {config.simulations:,} simulations",
        x_label="playouts",
        x_scale="names",
    )


def play(config: PlayoutPoliciesConfig) -> int:
    """Plays both sweeps; returns the exit status."""
    return equal_time.play(config, sweep, contestants(config), _OPPONENT, config.equal_time)


if __name__ == "__main__":
    sys.exit(run.command(PlayoutPoliciesConfig, play, "playout_policies"))
