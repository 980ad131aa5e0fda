"""Settings of the experiment on schedules. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.sweeps.config import SWEEP_FOLDER, SweepConfig
from gozero.play.player_config import MeanName
from gozero.runs.settings import setting


@dataclasses.dataclass(frozen=True)
class SchedulesConfig(SweepConfig):
    """MC-RAVE's schedules, hand-selected and minimum-MSE, each against one player: the minimum-MSE
    schedule with a bias of 0.01."""

    QUICK: ClassVar = {
        **SweepConfig.QUICK,
        "simulations": 64,
        "ks": (1000.0,),
        "biases": (0.01,),
    }

    simulations: int = setting(1000)
    """Simulations of every move, on both sides."""

    ks: tuple[float, ...] = setting((30, 100, 300, 1000, 3000))
    """Equivalence parameters of the hand-selected schedule."""

    biases: tuple[float, ...] = setting((0.0, 0.003, 0.01, 0.03, 0.1, 0.3))
    """Biases of the minimum-MSE schedules, with each of --means."""

    means: tuple[MeanName, ...] = setting(("even", "amaf"))
    """The mean values that the minimum-MSE schedules assume: one half (even, Eq. 47), the
    all-moves-as-first value (amaf, Eq. 46), or the mixture of both values (mixture, Eq. 46)."""

    anchor_ks: tuple[float, ...] = setting((1000,))
    """Which of --ks also play against --anchor-command."""

    anchor_biases: tuple[float, ...] = setting((0.003, 0.01, 0.1))
    """Which of --biases also play against --anchor-command, for Eq. 47."""

    bias: float = setting(0.01)
    """The bias of the common opponent, by Eq. 47."""

    out: pathlib.Path = setting(pathlib.Path("runs/schedules"), SWEEP_FOLDER)

    EXAMPLES = (
        "python -m experiments.schedules.run",
        "python -m experiments.schedules.run --ks 1000 --biases 0.01",
    )
