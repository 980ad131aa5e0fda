"""Settings of the experiment on programs surveyed by Gelly & Silver (2011). Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.sweeps.config import SWEEP_FOLDER, SweepConfig
from gozero.runs.settings import setting

PROGRAMS = (
    "Gobble",
    "TD territory",
    "Indigo",
    "Indigo, a tree",
    "Indigo, territory",
    "Crazy Stone 2006",
    "Crazy Stone 2007",
    "MoGo, UCT",
    "MoGo",
    "MoGo, heuristic",
    "MoGo Titan",
    "MoGo Titan, 4 machines",
    "Fuego",
    "MoGo, experts",
    "RLGO 1.0",
    "RLGO",
    "Erica",
)
"""The programs by year."""


@dataclasses.dataclass(frozen=True)
class SurveyedConfig(SweepConfig):
    """Each surveyed program's published ideas, in our search, against MC-RAVE with MoGo's playouts:
    at equal simulations, and then at equal time."""

    QUICK: ClassVar = {
        **SweepConfig.QUICK,
        "simulations": 64,
        "programs": ("Indigo", "Crazy Stone 2006"),
        "equal_time": False,
    }

    simulations: int = setting(400)
    """Simulations of every move, on both sides; at equal time, only of the opponent."""

    programs: tuple[str, ...] = setting(PROGRAMS)
    """The programs to test; the opponent is always MoGo."""

    equal_time: bool = setting(True)
    """Whether to also play the sweep at equal time, in the folder equal_time within --out. The
    programs' speeds are measured once and kept in speeds.json in --out."""

    out: pathlib.Path = setting(pathlib.Path("runs/surveyed"), SWEEP_FOLDER)

    def __post_init__(self):
        super().__post_init__()
        for name in self.programs:
            if name not in PROGRAMS:
                raise ValueError(f"--programs {name!r}: expected some of {'; '.join(PROGRAMS)}")

    EXAMPLES = (
        "python -m experiments.surveyed.run",
        "python -m experiments.surveyed.run --programs Indigo 'Crazy Stone 2006' --games 20",
    )
