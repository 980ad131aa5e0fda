"""Settings of the experiment on the equivalence parameter. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.sweeps.config import SWEEP_FOLDER, SweepConfig
from gozero.runs.settings import setting


@dataclasses.dataclass(frozen=True)
class RaveEquivalenceConfig(SweepConfig):
    """MC-RAVE with each equivalence parameter k, and UCT, each against MC-RAVE with the minimum-MSE
    schedule and a bias of 0.01."""

    QUICK: ClassVar = {
        **SweepConfig.QUICK,
        "simulations": 64,
        "ks": (100.0, 1000.0),
        "initials": (),
        "anchors": (),
    }

    simulations: int = setting(1000)
    """Simulations of every move, on both sides."""

    ks: tuple[float, ...] = setting((1, 3, 10, 30, 100, 300, 1000, 3000, 10_000))
    """The equivalence parameters."""

    initials: tuple[float, ...] = setting((1.1,))
    """Values of an action before its first visit, weighted by 1 - beta: one curve each, in addition
    to the one where unvisited actions have only their all-moves-as-first values."""

    anchors: tuple[float, ...] = setting((1, 100, 3000))
    """Which of --ks also play against --anchor-command, beside UCT."""

    bias: float = setting(0.01)
    """The bias of the common opponent."""

    exploration: float | None = setting(None, unset="0.25")
    """The weight of UCT's exploration bonus."""

    first_play: float = setting(1.0)
    """UCT's first-play urgency, as a probability of winning; if it is large, untried actions come
    first."""

    out: pathlib.Path = setting(pathlib.Path("runs/rave_equivalence"), SWEEP_FOLDER)

    EXAMPLES = (
        "python -m experiments.rave_equivalence.run --games 200 --simulations 1000",
        "python -m experiments.rave_equivalence.run --ks 100 1000 --resign -0.9",
    )
