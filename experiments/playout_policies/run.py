"""What playouts are worth in a tree: uniform, MoGo's with and without more, and learnt ones.

python -m experiments.playout_policies.run [--games 200] [--simulations 1000] [--out DIR]
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
from collections.abc import Mapping

from experiments.playout_policies.config import PlayoutPoliciesConfig
from experiments.sweeps import run, speed
from experiments.sweeps.points import Contestant, Point, Sweep
from gozero.go.rules import Rules
from gozero.play.player_config import MAX_SIMULATIONS, PlayerConfig
from gozero.runs import files

_OPPONENT = "MoGo"
_ANCHORS = ("uniform", "MoGo", "MoGo, nakade", "balanced")


def contestants(config: PlayoutPoliciesConfig) -> dict[str, Contestant]:
    """{what it is called: MC-RAVE with a policy}."""
    diversity = config.diversity
    policies = {
        "uniform": {"playouts": "uniform"},
        "MoGo": {"playouts": "mogo"},
        "MoGo, nakade": {"playouts": "mogo", "nakade": True},
        "MoGo, diversity": {"playouts": "mogo", "diversity": diversity},
        "MoGo, both": {"playouts": "mogo", "nakade": True, "diversity": diversity},
        "MM": {"playouts": "mm"},
        "balanced": {"playouts": "balanced"},
    }
    common = {"search": "rave", "rave_bias": config.bias, "simulations": config.simulations}
    return {name: Contestant(PlayerConfig(**common, **more)) for name, more in policies.items()}


def sweep(
    config: PlayoutPoliciesConfig, simulations_per_s: Mapping[str, float] | None = None
) -> Sweep:
    """Every policy against MoGo's, with equal simulations; given speeds, with equal time."""
    players = contestants(config)
    opponent, points = players[_OPPONENT], []
    for x, name in enumerate(config.policies):
        player = players[name]
        if simulations_per_s is not None:
            gain = simulations_per_s[name] / simulations_per_s[_OPPONENT]
            simulations = min(max(round(gain * config.simulations), 1), MAX_SIMULATIONS)
            player = dataclasses.replace(
                player, flags=dataclasses.replace(player.flags, simulations=simulations)
            )
        anchor = simulations_per_s is None and name in _ANCHORS
        series = "equal simulations" if simulations_per_s is None else "equal time"
        points.append(Point(series, float(x), name, player, opponent, anchor))
    return Sweep(
        "playout_policies",
        tuple(points),
        title=f"{points[0].series}, against MoGo's playouts and {config.simulations:,} simulations",
        x_label="playouts",
        x_scale="names",
    )


def play(config: PlayoutPoliciesConfig) -> int:
    """Both sweeps; the exit status."""
    status = run.run(sweep(config), config)
    if status or not config.equal_time:
        return status
    speeds = _speeds(config, config.out / "speeds.json")
    out = config.out / "equal_time"
    later = dataclasses.replace(config, out=out, anchor_command=None)
    return run.run(sweep(later, speeds), later)


def _speeds(config: PlayoutPoliciesConfig, path: pathlib.Path) -> dict[str, float]:
    """{name: simulations a second, as many trees as a piece has pairs}; measured once."""
    if not path.exists():
        print("how fast are they? ...", file=sys.stderr, flush=True)
        players, trees = contestants(config), config.piece // 2
        found = speed.measure(
            Rules(config.size), [*players.values()], trees, config.komi, config.seed
        )
        rates = (round(one.simulations_per_s) for one in found)
        files.write_json(path, dict(zip(players, rates, strict=True)))
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(run.command(PlayoutPoliciesConfig, play, "playout_policies"))
