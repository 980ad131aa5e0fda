"""The effect of leaves per step, virtual loss, subtree reuse and shared evaluations on strength.

    python -m experiments.ablation.run [--games 200] [--simulations 1024] [--out DIR]

Their effect on speed and memory: ``python -m experiments.ablation.speed``.
"""

from __future__ import annotations

import dataclasses
import sys

from experiments.ablation.config import AblationConfig
from experiments.sweeps import run
from experiments.sweeps.points import Change, Contestant, Point, Sweep
from gozero.play.player_config import PlayerConfig

_LEAVES = 16
"""Leaves per step with which virtual losses are compared."""


def searching(about: str, **settings) -> Change:
    """A change of some `SearchConfig` settings."""
    return Change(
        about,
        lambda rules, setup: setup._replace(search=dataclasses.replace(setup.search, **settings)),
    )


SHARED = searching("transpositions", transpositions=True)


def sweep(config: AblationConfig) -> Sweep:
    """Each part against the search without it."""

    def rave(leaves=1, reuse=False, change=None) -> Contestant:
        flags = PlayerConfig(
            search="rave",
            playouts="mogo",
            rave_bias=config.bias,
            simulations=config.simulations,
            leaves=leaves,
        )
        return Contestant(flags, reuse, change)

    plain = rave()
    puct = Contestant(PlayerConfig(playouts="mogo", simulations=config.simulations))
    shared = dataclasses.replace(puct, change=SHARED)
    points: list[Point] = []

    def add(series, label, player, opponent=plain, anchor=False) -> None:
        points.append(Point(series, float(len(points)), label, player, opponent, anchor))

    for leaves in config.leaves:
        add("leaves a step", f"{leaves}", rave(leaves), anchor=leaves in config.anchors)
    for loss in config.virtual_losses:
        one = rave(_LEAVES, change=searching(f"virtual loss {loss}", virtual_loss=loss))
        add(f"{_LEAVES} leaves, virtual loss", f"loss {loss}", one)
    add("subtree reuse", "reuse", rave(reuse=True), anchor=True)
    add("PUCT, shared evaluations", "shared", shared, puct)
    return Sweep(
        "ablation",
        tuple(points),
        title=f"{config.simulations:,} simulations a move, against the search without it",
        x_label="",
        x_scale="names",
    )


if __name__ == "__main__":
    sys.exit(run.main(AblationConfig, sweep, "ablation"))
