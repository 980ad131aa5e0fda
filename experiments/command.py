"""The parts that experiment commands share: flags, a time estimate, the location of results.

Imports no JAX.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from gozero.apps import flags, runtime
from gozero.runs.settings import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """Settings that every experiment has."""

    QUICK: ClassVar[Mapping[str, Any]] = {}
    """The settings of --quick; other flags override them."""

    quick: bool = setting(False, group="how much")
    """A small run, meant to end within two minutes, that shows only that the experiment works."""

    @property
    def estimate(self) -> float | None:
        """Estimated minutes on two cores; None: the experiment prints its own estimate later."""
        return None


Config = TypeVar("Config", bound=ExperimentConfig)


def parse(config: type[Config], argv: Sequence[str] | None = None, *, prog: str) -> Config:
    """Parses a command line into settings, and prints the estimated time on stderr, which may be
    closed from now on: Ctrl-C also stops a ``tee``.

    Raises:
      SystemExit: as `flags.parse`.
    """
    runtime.let_stderr_close()
    arguments = list(sys.argv[1:] if argv is None else argv)
    default = config(**config.QUICK) if "--quick" in arguments and config.QUICK else None
    settings = flags.parse(config, arguments, prog=prog, default=default)
    if settings.estimate is not None:
        print_estimate(settings.estimate)
    return settings


def print_estimate(minutes: float) -> None:
    """Prints an estimate of a run's time on stderr, from recorded runs."""
    amount = f"{minutes:.0f} minutes" if minutes >= 1.5 else "a minute"
    amount = f"{minutes / 60:.1f} hours" if minutes >= 90 else amount
    print(f"estimate: {amount} on two idle cores", file=sys.stderr, flush=True)


def print_results(out: pathlib.Path) -> None:
    """Prints an experiment's last lines: its folder, and its table and figure if they exist."""
    lines = [f"folder: {out}"]
    for what, name in (("table", "results.csv"), ("figure", "results.svg")):
        if (out / name).exists():
            lines.append(f"{what}: {out / name}")
    runtime.print_result("\n".join(lines))
