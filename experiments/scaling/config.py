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
    """UCT and MC-RAVE, each against itself with half the simulations, for successive doublings; or
    both in one tournament."""

    QUICK: ClassVar = {
        **SweepConfig.QUICK,
        "least": 32,
        "most": 64,
        "anchors": (),
    }

    least: int = setting(250, least=1)
    """The first number of simulations, of the opponent in a curve's first match."""

    most: int = setting(4000)
    """The largest number of simulations; they double up to here."""

    counts: tuple[int, ...] = setting(())
    """Ascending numbers of simulations instead of the doublings, e.g. 3000 10000."""

    anchors: tuple[int, ...] = setting((1000, 4000))
    """Which numbers also play against --anchor-command, by UCT and by MC-RAVE; not the first of the
    curve, which is only an opponent."""

    round_robin: int = setting(0, least=0)
    """A tournament instead of two chains: every two players whose numbers of simulations are at
    most this many steps apart meet, UCT and MC-RAVE too, and all are rated together. 0: no
    tournament. The games of the chains count in it, and in the same folder are not played again."""

    first_play: float = setting(1.0)
    """UCT's first-play urgency, as a probability of winning; if it is large, untried actions come
    first."""

    bias: float = setting(0.01)
    """The bias of MC-RAVE's minimum-MSE schedule."""

    out: pathlib.Path = setting(pathlib.Path("runs/scaling"), SWEEP_FOLDER)

    EXAMPLES = (
        "python -m experiments.scaling.run",
        "python -m experiments.scaling.run --counts 3000 10000 --games 20",
        "python -m experiments.scaling.run --round-robin 2 --games 100",
    )

    def __post_init__(self):
        super().__post_init__()
        ladder = self.ladder
        if len(ladder) < 2 or any(a >= b for a, b in itertools.pairwise(ladder)):
            raise ValueError(f"--counts {ladder}: expected two or more simulations, ascending")

    @property
    def ladder(self) -> tuple[int, ...]:
        """The numbers of simulations, ascending."""
        if self.counts:
            return self.counts
        doublings = (self.least << i for i in itertools.count())
        return tuple(itertools.takewhile(lambda count: count <= self.most, doublings))
