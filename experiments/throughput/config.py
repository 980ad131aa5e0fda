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
    """Measure speed; each row is compared with a peer or a bound in the same run."""

    subject: tyro.conf.Positional[
        Literal[
            "rules",
            "playouts",
            "search",
            "thinking",
            "selfplay",
            "features",
            "networks",
            "exchange",
            "commands",
            "katago",
        ]
    ] = setting(positional=True)
    """What to measure."""

    json: bool = setting(False)
    """Print one JSON object per line instead of a table."""

    repeats: int = setting(5, least=1)
    """Timed runs of each side, in turn; the median ratio is reported."""

    @property
    def estimate(self) -> float:
        if self.subject == "katago":  # most of it compiles the network
            return 2 if self.quick else 15
        return 1 if self.quick else 5

    seed: int = seed_setting()
    """The seed of the recorded games and the roots."""

    weights: pathlib.Path | None = setting(None, unset="none")
    """A KataGo network, NAME.bin.gz, for the subject katago."""

    katago: str = setting("katago")
    """KataGo's executable, with which the subject katago compares ours if it is installed."""

    EXAMPLES = (
        "python -m experiments.throughput.run search --quick",
        "python -m experiments.throughput.run rules --json",
    )

    def __post_init__(self):
        check(self)
        if self.subject == "katago" and self.weights is None:
            raise ValueError("--weights: the subject katago needs a KataGo network, NAME.bin.gz")


@dataclasses.dataclass(frozen=True)
class BesideConfig(ExperimentConfig):
    """Time programs of this checkout and of another in turn; a ratio above 1 means that
    this one is faster."""

    QUICK = {"rounds": 2}  # noqa: RUF012 (never written)

    other: tyro.conf.Positional[pathlib.Path] = setting(positional=True)
    """The folder of the other checkout."""

    programs: tuple[str, ...] = setting(())
    """Programs to time, by parts of their names; by default all."""

    rounds: int = setting(8, least=1)
    """Rounds of timed runs of each program, in turn."""

    out: pathlib.Path | None = setting(None, unset="none")
    """A CSV file for the rows."""

    EXAMPLES = (
        "python -m experiments.throughput.beside ../before",
        "python -m experiments.throughput.beside ../before --programs answer puct",
    )

    def __post_init__(self):
        check(self)
