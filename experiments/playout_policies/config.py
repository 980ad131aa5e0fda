"""Settings of the experiment on playout policies. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.sweeps.config import SWEEP_FOLDER, SweepConfig
from gozero.runs.settings import setting

POLICIES = ("uniform", "MoGo", "MoGo, nakade", "MoGo, diversity", "MoGo, both", "MM", "balanced")


@dataclasses.dataclass(frozen=True)
class PlayoutPoliciesConfig(SweepConfig):
    """MC-RAVE with each policy of playouts against one player, MC-RAVE with MoGo's: with as many
    simulations, and then with as many as take the same time."""

    QUICK: ClassVar = SweepConfig.QUICK | {
        "simulations": 64,
        "policies": ("uniform", "MoGo"),
        "equal_time": False,
    }

    simulations: int = setting(1000)
    """Simulations of every move, of either side; at equal time of the opponent's."""

    policies: tuple[str, ...] = setting(POLICIES)
    """Which of them; the opponent's is MoGo's anyway."""

    diversity: int = setting(4)
    """Tries of MoGo's playouts with diversity, 1 to 8."""

    bias: float = setting(0.01)
    """The bias of the schedule of least mean squared error, on either side."""

    equal_time: bool = setting(True)
    """Whether to play the second sweep too, in a folder equal_time within --out. How fast each
    policy is, is measured once and kept in speeds.json there."""

    out: pathlib.Path = setting(pathlib.Path("runs/playout_policies"), SWEEP_FOLDER)

    def __post_init__(self):
        super().__post_init__()
        for name in self.policies:
            if name not in POLICIES:
                raise ValueError(f"--policies {name!r}: expected some of {'; '.join(POLICIES)}")

    EXAMPLES = (
        "python -m experiments.playout_policies.run",
        "python -m experiments.playout_policies.run --no-equal-time --games 20",
    )
