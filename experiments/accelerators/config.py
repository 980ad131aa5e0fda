"""Settings of the experiment. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.command import ExperimentConfig
from gozero.runs.settings import check, setting

RESULTS = pathlib.Path(__file__).parent / "results"


@dataclasses.dataclass(frozen=True)
class AcceleratorsConfig(ExperimentConfig):
    """Compile the hot programs for TPUs and GPUs that need not be there, and say what they would
    take. Where the machine has the device, the programs are run on it too."""

    QUICK: ClassVar = {
        "target": ("cpu",),
        "programs": ("rules-9x9",),
        "repeats": 1,
        "out": pathlib.Path("runs/accelerators/rows.jsonl"),
    }

    target: tuple[str, ...] = setting(("v5e", "h100"))
    """What to compile for: v5e, v6e, v5p, h100, cpu, or a slice as v5litepod-4."""

    programs: tuple[str, ...] = setting((), unset="all of them")
    """Which programs: names, or parts of names."""

    json: bool = setting(False)
    """One JSON object a line, as soon as a row is done, instead of a table at the end."""

    out: pathlib.Path = setting(RESULTS / "rows.jsonl")
    """The file to which rows are added."""

    skip: bool = setting(False)
    """Leave out rows that --out already has of the same code."""

    timeout: float = setting(900.0, above=0, unit="seconds")
    """After how long a row is given up."""

    repeats: int = setting(5, least=1)
    """Runs of a program on a device that is there; their median counts."""

    texts: pathlib.Path | None = setting(None, unset="not kept")
    """A folder for the compiled texts, and for their loops and dearest steps."""

    table: bool = setting(False)
    """Compile nothing: print the table of what --out has."""

    before: pathlib.Path | None = setting(None, unset="none")
    """A file of earlier rows, to stand beside those of --out in the table."""

    EXAMPLES = (
        "python -m experiments.accelerators.run --target v5e --programs rules search-9x9",
        "python -m experiments.accelerators.run --target v5e h100 --skip",
        "python -m experiments.accelerators.run --table",
    )

    def __post_init__(self):
        check(self)
