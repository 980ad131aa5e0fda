"""The command of an experiment: its flags, what it will take, and where its results are.

Imports no JAX.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from gozero.apps import flags
from gozero.runs.settings import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """What the settings of every experiment have."""

    QUICK: ClassVar[Mapping[str, Any]] = {}
    """The settings of --quick; flags that are given beside it count."""

    quick: bool = setting(False, group="how much")
    """A small run, meant to end within two minutes: to see that it works, not what it shows."""

    @property
    def estimate(self) -> float | None:
        """Minutes that it takes about, on two cores; None: it says so itself later."""
        return None


Config = TypeVar("Config", bound=ExperimentConfig)


def parse(config: type[Config], argv: Sequence[str] | None = None, *, prog: str) -> Config:
    """The settings of a command line; says on stderr first how long it will take.

    Raises:
      SystemExit: as `flags.parse`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    default = config(**config.QUICK) if "--quick" in arguments and config.QUICK else None
    asked = flags.parse(config, arguments, prog=prog, default=default)
    if asked.estimate is not None:
        say_estimate(asked.estimate)
    return asked


def say_estimate(minutes: float) -> None:
    """What a run takes, on stderr: an estimate by runs that are recorded."""
    amount = f"{minutes:.0f} minutes" if minutes >= 1.5 else "a minute"
    amount = f"{minutes / 60:.1f} hours" if minutes >= 90 else amount
    print(f"estimate: {amount} on two idle cores", file=sys.stderr, flush=True)


def say_results(out: pathlib.Path) -> None:
    """The last lines of an experiment: its folder, table and figure, those that there are."""
    lines = [f"folder: {out}"]
    for what, name in (("table", "results.csv"), ("figure", "results.svg")):
        if (out / name).exists():
            lines.append(f"{what}: {out / name}")
    print("\n".join(lines))
