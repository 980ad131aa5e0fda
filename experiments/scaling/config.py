"""Settings of the experiment on scaling. Imports no JAX."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from typing import ClassVar

from experiments.sweeps.config import SWEEP_FOLDER, SweepConfig
from gozero.runs.settings import setting


@dataclasses.dataclass(frozen=True)
class ScalingConfig(SweepConfig):
    """UCT and MC-RAVE, each against itself with half the simulations, doubling by doubling."""

    QUICK: ClassVar = SweepConfig.QUICK | {
        "least": 32,
        "most": 64,
        "anchors": (),
    }

    least: int = setting(250, least=1)
    """Simulations that a curve begins with, and that its first match is played against."""

    most: int = setting(4000)
    """The simulations double up to here."""

    counts: tuple[int, ...] = setting(())
    """Simulations in place of the doublings, ascending: 3000 10000, say."""

    anchors: tuple[int, ...] = setting((1000, 4000))
    """Which also play against --anchor-command, by UCT and by MC-RAVE; not the first of the curve,
    which plays none of ours."""

    first_play: float = setting(1.0)
    """UCT's first-play urgency, as a probability of winning; if it is large, what is untried comes
    first."""

    bias: float = setting(0.01)
    """The bias of MC-RAVE's schedule of least mean squared error."""

    out: pathlib.Path = setting(pathlib.Path("runs/scaling"), SWEEP_FOLDER)

    EXAMPLES = (
        "python -m experiments.scaling.run",
        "python -m experiments.scaling.run --counts 3000 10000 --games 20",
    )

    def __post_init__(self):
        super().__post_init__()
        ladder = self.ladder
        if len(ladder) < 2 or any(a >= b for a, b in itertools.pairwise(ladder)):
            raise ValueError(f"--counts {ladder}: expected two or more simulations, ascending")

    @property
    def ladder(self) -> tuple[int, ...]:
        """The simulations, ascending."""
        if self.counts:
            return self.counts
        doublings = (self.least << i for i in itertools.count())
        return tuple(itertools.takewhile(lambda count: count <= self.most, doublings))
