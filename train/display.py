"""The progress of a run: its iterations, their metrics, the last Elo, the remaining time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gozero.runs.progress import Progress

_RECENT = 10  # iterations whose times the estimate of the remaining time uses
_TIMED = {"playing_s", "learning_s", "simulations"}


class Cost(NamedTuple):
    """What the duration of an iteration depends on."""

    simulations: Callable[[int], int]  # of a full search, by the iterations done before
    evaluated: Callable[[int], bool]  # whether an evaluation follows this many iterations

    def to_go(self, lines: Sequence[dict], num_iterations: int) -> float:
        """The estimated seconds of the iterations after those of some lines: from the medians of
        the last ones for playing (per simulation) and learning, and the mean of all evaluations."""
        timed = [line for line in lines if line.keys() >= _TIMED and line["simulations"] > 0]
        timed = timed[-_RECENT:]
        if not timed:
            return math.nan
        todo = range(lines[-1]["iteration"], num_iterations)
        # Not the mean: the program may have been suspended during one of them.
        playing = statistics.median(line["playing_s"] / line["simulations"] for line in timed)
        playing *= sum(map(self.simulations, todo))
        learning = statistics.median(line["learning_s"] for line in timed) * len(todo)
        matches = [line["evaluation_s"] for line in lines if "evaluation_s" in line]
        number = sum(self.evaluated(i + 1) for i in todo)
        return playing + learning + number * sum(matches) / max(len(matches), 1)


class Display(Progress):
    """Displays the progress of a run; a context manager.

    Args:
      name: of the run.
      num_iterations: in all.
      before: the metrics of the iterations done before.
      cost: of the iterations.
    """

    def __init__(self, name: str, num_iterations: int, before: Sequence[dict], cost: Cost):
        done = before[-1]["iteration"] if before else 0
        super().__init__(name, num_iterations, "iterations", done)
        self.lines, self.cost = [*before], cost
        self.rated = next((line for line in reversed(before) if "elo" in line), None)

    def add(self, numbers: dict) -> None:
        """Show a line of the metrics and the last Elo. The same line may come again with additional
        values."""
        if self.lines and self.lines[-1]["iteration"] == numbers["iteration"]:
            self.lines.pop()
        self.lines.append(numbers)
        self.rated = numbers if "elo" in numbers else self.rated
        to_go = self.cost.to_go(self.lines, self.total)
        self.show(numbers["iteration"], self._cells(numbers), to_go, now="elo" in numbers)

    def _cells(self, numbers: dict) -> dict[str, str]:
        cells = {
            "games/s": f"{numbers['games_per_s']:,.1f}",
            "simulations/s": f"{numbers['simulations_per_s']:,.0f}",
            "steps": f"{numbers['steps']:,}",
        }
        cells |= {name: f"{value:.3f}" for name, value in (numbers.get("losses") or {}).items()}
        if self.rated is not None:
            before = "-".join(map(str, self.rated.get("before", ())))
            before = f", {before} against the one before" if before else ""
            cells["Elo"] = f"{self.rated['elo']:+.0f} at {self.rated['iteration']}{before}"
        return cells
