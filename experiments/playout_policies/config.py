"""Settings of the experiment on playout policies. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.sweeps.config import SWEEP_FOLDER, SweepConfig
from gozero.runs.settings import setting

_LEARNT = ("MM", "balanced", "MM with atari", "balanced with atari")
POLICIES = ("uniform", "MoGo", "MoGo, nakade", "MoGo, diversity", "MoGo, both", *_LEARNT)


@dataclasses.dataclass(frozen=True)
class PlayoutPoliciesConfig(SweepConfig):
    """MC-RAVE with each playout policy against MC-RAVE with MoGo's: at equal simulations, and then
    at equal time."""

    QUICK: ClassVar = {
        **SweepConfig.QUICK,
        "simulations": 64,
        "policies": ("uniform", "MoGo"),
        "equal_time": False,
    }

    simulations: int = setting(1000)
    """Simulations of every move, on both sides; at equal time, only of the opponent."""

    policies: tuple[str, ...] = setting(POLICIES)
    """The policies to test; the opponent always has MoGo's."""

    diversity: int = setting(4)
    """Tries of the fill-the-board rule in the policies with diversity, 1 to 8."""

    bias: float = setting(0.01)
    """The bias of the minimum-MSE schedule, on both sides."""

    equal_time: bool = setting(True)
    """Whether to also play the sweep at equal time, in the folder equal_time within --out. The
    policies' speeds are measured once and kept in speeds.json in --out."""

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
