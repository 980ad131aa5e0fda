"""Settings of the throughput experiment."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Literal

import tyro

from experiments.command import ExperimentConfig
from gozero.runs.settings import check, seed_setting, setting


@dataclasses.dataclass(frozen=True)
class ThroughputConfig(ExperimentConfig):
    """Measure speed, each row against a peer or a bound in the same run."""

    subject: tyro.conf.Positional[
        Literal[
            "rules",
            "playouts",
            "search",
            "selfplay",
            "features",
            "exchange",
            "commands",
            "katago",
        ]
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

    weights: pathlib.Path | None = setting(None, unset="none")
    """A network of KataGo, NAME.bin.gz, for the subject katago."""

    katago: str = setting("katago")
    """KataGo's program, which the subject katago measures beside ours if it is there."""

    EXAMPLES = (
        "python -m experiments.throughput.run search --quick",
        "python -m experiments.throughput.run rules --json",
    )

    def __post_init__(self):
        check(self)
        if self.subject == "katago" and self.weights is None:
            raise ValueError("--weights: katago measures a network, NAME.bin.gz; give it")
