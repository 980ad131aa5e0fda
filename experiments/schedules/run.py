"""Section 4.6 of Gelly & Silver (2011): MC-RAVE's schedules, hand-selected and minimum-MSE.

python -m experiments.schedules.run [--games 200] [--simulations 1000] [--out DIR]
"""

from __future__ import annotations

import dataclasses
import sys

from experiments.schedules.config import SchedulesConfig
from experiments.sweeps import run
from experiments.sweeps.points import Change, Contestant, Point, Sweep
from gozero.play.player_config import PlayerConfig
from gozero.search.rules.rave import MinimumMse, Rave


def sweep(config: SchedulesConfig) -> Sweep:
    """Each k, and each bias with each mean value; all with MoGo's playouts."""

    def player(change: Change | None = None, **schedule) -> Contestant:
        flags = PlayerConfig(
            search="rave", playouts="mogo", simulations=config.simulations, **schedule
        )
        return Contestant(flags, change=change)

    opponent = player(rave_bias=config.bias)
    entries = [
        ("hand-selected", f"k = {k:g}", player(rave_k=k), k in config.anchor_ks) for k in config.ks
    ]
    of_means = {
        "even": lambda b: ("Eq. 47", player(rave_bias=b), b in config.anchor_biases),
        "amaf": lambda b: ("Eq. 46", player(uneven(b), rave_bias=b), False),
        "mixture": lambda b: ("Eq. 46, mixture", player(rave_bias=b, rave_mean="mixture"), False),
    }
    for mean in config.means:
        of = [(b, *of_means[mean](b)) for b in config.biases]
        entries += [(series, f"b = {b:g}", one, anchor) for b, series, one, anchor in of]
    points = tuple(
        Point(series, float(x), label, one, opponent, anchor)
        for x, (series, label, one, anchor) in enumerate(entries)
    )
    return Sweep(
        "schedules",
        points,
        title=f"{config.simulations:,} simulations a move against Eq. 47, b = {config.bias:g}",
        x_label="schedule",
        x_scale="names",
    )


def uneven(bias: float) -> Change:
    """A change to Eq. 46 from Eq. 47: the same player as with ``rave_mean="amaf"``, in the words of
    the recorded games, so that these can be continued."""
    rule = Rave(MinimumMse(bias, mean="amaf"))
    return Change(
        f"Eq. 46, b {bias:g}",
        lambda rules, setup: setup._replace(search=dataclasses.replace(setup.search, select=rule)),
    )


if __name__ == "__main__":
    sys.exit(run.main(SchedulesConfig, sweep, "schedules"))
