"""Settings of the experiment on the equivalence parameter. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib

from experiments.sweeps.config import SweepConfig


@dataclasses.dataclass(frozen=True)
class RaveEquivalenceConfig(SweepConfig):
    """MC-RAVE by its equivalence parameter k, and UCT, each against one player: MC-RAVE with the
    schedule of least mean squared error and a bias of 0.01."""

    simulations: int = 1000
    """Of every move, of either side."""

    ks: tuple[float, ...] = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
    """The equivalence parameters."""

    anchors: tuple[float, ...] = (1, 100, 3000)
    """Those that also play against --anchor-command, beside UCT."""

    bias: float = 0.01
    """Of the player they all play."""

    exploration: float | None = None
    """Of UCT: the weight of its bonus, 0.25 without it."""

    first_play: float = 1.0
    """Of UCT: its first-play urgency, as a probability of winning; if it is large, what is untried
    comes first."""

    out: pathlib.Path = pathlib.Path("runs/rave_equivalence")
    """The folder of pieces.jsonl, results.csv, results.svg, config.json and manifest.json: a new
    one, or one to go on with."""
