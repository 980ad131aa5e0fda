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
    """Compile the hot programs for TPUs and GPUs that need not be present, and estimate their time
    and memory. Where the machine has the device, the programs also run on it."""

    QUICK: ClassVar = {
        "target": ("cpu",),
        "programs": ("rules-9x9",),
        "repeats": 1,
        "out": pathlib.Path("runs/accelerators/rows.jsonl"),
    }

    target: tuple[str, ...] = setting(("v5e", "h100"))
    """What to compile for: v5e, v6e, v5p, h100, cpu, or a slice such as v5litepod-4."""

    programs: tuple[str, ...] = setting((), unset="all of them")
    """Which programs to compile: names, or parts of names."""

    json: bool = setting(False)
    """Print each row as a JSON line as soon as it is done, instead of a table at the end."""

    out: pathlib.Path = setting(RESULTS / "rows.jsonl")
    """The file to which rows are added."""

    skip: bool = setting(False)
    """Skip rows that --out already has for the same code, except those with an error."""

    timeout: float = setting(900.0, above=0, unit="seconds")
    """The time limit of a row."""

    repeats: int = setting(5, least=1)
    """Timed runs of a program on a device that is present; the median is reported."""

    texts: pathlib.Path | None = setting(None, unset="not kept")
    """A folder for the compiled texts, their loops and their most expensive steps."""

    table: bool = setting(False)
    """Compile nothing; print the table of the rows in --out."""

    before: pathlib.Path | None = setting(None, unset="none")
    """A file of earlier rows, shown beside those of --out in the table."""

    EXAMPLES = (
        "python -m experiments.accelerators.run --target v5e --programs rules search-9x9",
        "python -m experiments.accelerators.run --target v5e h100 --skip",
        "python -m experiments.accelerators.run --table",
    )

    def __post_init__(self):
        check(self)
