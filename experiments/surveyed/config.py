"""Settings of the experiment on the programs that Gelly & Silver (2011) survey. Imports no JAX."""

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
    "MoGo Titan",
    "Fuego",
    "RLGO",
    "Erica",
)
"""In the order of their years."""


@dataclasses.dataclass(frozen=True)
class SurveyedConfig(SweepConfig):
    """What is told of each surveyed program, in our search, against MC-RAVE with MoGo's playouts:
    with as many simulations, and then with as many as take the same time."""

    QUICK: ClassVar = SweepConfig.QUICK | {
        "simulations": 64,
        "programs": ("Indigo", "Crazy Stone 2006"),
        "equal_time": False,
    }

    simulations: int = setting(400)
    """Simulations of every move, of either side; at equal time of the opponent's."""

    programs: tuple[str, ...] = setting(PROGRAMS)
    """Which of them; the opponent is MoGo anyway."""

    equal_time: bool = setting(True)
    """Whether to play the second sweep too, in a folder equal_time within --out. How fast each
    program is, is measured once and kept in speeds.json there."""

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
