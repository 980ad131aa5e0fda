"""Settings of the throughput experiment."""

from __future__ import annotations

import dataclasses
from typing import Literal

import tyro

from gozero.apps import flags
from gozero.runs.settings import setting


@dataclasses.dataclass(frozen=True)
class ThroughputConfig:
    """Measure speed, each row against a peer or a bound in the same run."""

    subject: tyro.conf.Positional[
        Literal["rules", "playouts", "search", "selfplay", "features"]
    ] = setting(help="What to measure.", positional=True)
    json: bool = False
    """One JSON object a line instead of a table."""
    repeats: int = 5
    """Timed runs of each side, in turn; the median ratio counts."""
    quick: bool = False
    """Small rows only: a minute or so."""
    seed: int = 0
    """Of the recorded games and the roots."""

    def __post_init__(self):
        flags.check_seed(self.seed)
        if self.repeats < 1:
            raise ValueError(f"--repeats {self.repeats}: expected at least 1")
