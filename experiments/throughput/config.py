"""Settings of the throughput experiment."""

from __future__ import annotations

import dataclasses
from typing import Literal

import tyro

from experiments.command import ExperimentConfig
from gozero.runs.settings import check, seed_setting, setting


@dataclasses.dataclass(frozen=True)
class ThroughputConfig(ExperimentConfig):
    """Measure speed, each row against a peer or a bound in the same run."""

    subject: tyro.conf.Positional[
        Literal["rules", "playouts", "search", "selfplay", "features", "exchange", "commands"]
    ] = setting(positional=True)
    """What to measure."""

    json: bool = setting(False)
    """One JSON object a line instead of a table."""

    repeats: int = setting(5, least=1)
    """Timed runs of each side, in turn; the median ratio counts."""

    @property
    def estimate(self) -> float:
        return 1 if self.quick else 5

    seed: int = seed_setting()
    """The seed of the recorded games and the roots."""

    EXAMPLES = (
        "python -m experiments.throughput.run search --quick",
        "python -m experiments.throughput.run rules --json",
    )

    def __post_init__(self):
        check(self)
