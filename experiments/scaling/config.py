"""Settings of the experiment on scaling. Imports no JAX."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib

from experiments.sweeps.config import SweepConfig


@dataclasses.dataclass(frozen=True)
class ScalingConfig(SweepConfig):
    """UCT and MC-RAVE, each against itself with half the simulations, doubling by doubling."""

    least: int = 250
    """Simulations that a curve begins with, and that its first match is played against."""

    most: int = 4000
    """The simulations double up to here."""

    counts: tuple[int, ...] = ()
    """Simulations in place of the doublings, ascending: 3000 10000, say."""

    anchors: tuple[int, ...] = (1000, 4000)
    """Those that also play against --anchor-command, by UCT and by MC-RAVE; not the first of the
    curve, which plays none of ours."""

    first_play: float = 1.0
    """Of UCT: its first-play urgency, as a probability of winning; if it is large, what is untried
    comes first."""

    bias: float = 0.01
    """Of MC-RAVE's schedule of least mean squared error."""

    out: pathlib.Path = pathlib.Path("runs/scaling")
    """The folder of pieces.jsonl, results.csv, results.svg, config.json and manifest.json: a new
    one, or one to go on with."""

    def __post_init__(self):
        super().__post_init__()
        if not self.least >= 1:
            raise ValueError(f"least: {self.least} is not at least 1")
        ladder = self.ladder
        if len(ladder) < 2 or any(a >= b for a, b in itertools.pairwise(ladder)):
            raise ValueError(f"counts: {ladder} is not two or more simulations, ascending")

    @property
    def ladder(self) -> tuple[int, ...]:
        """The simulations, ascending."""
        if self.counts:
            return self.counts
        doublings = (self.least << i for i in itertools.count())
        return tuple(itertools.takewhile(lambda count: count <= self.most, doublings))
