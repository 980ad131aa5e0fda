"""The progress of a run: its iterations, their metrics, the last Elo, the remaining time."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gozero.runs.progress import Progress

_RECENT = 10  # iterations whose times the estimate of the remaining time uses
_TIMED = {"playing_s", "learning_s", "simulations"}


class Cost(NamedTuple):
    """What the remaining time of a run depends on, by the iterations done."""

    simulations: Callable[[int], int]  # the sum, over the iterations to go, of a full search's
    matches: dict[str, Callable[[int], int]]
    """The number to go of the matches whose duration a line has by this name, as evaluation_s."""


class Display(Progress):
    """Displays the progress of a run; a context manager.

    Args:
      name: of the run.
      num_iterations: in all.
      before: the metrics of the iterations done before.
      cost: of the iterations.
    """

    def __init__(self, name: str, num_iterations: int, before: Iterable[dict], cost: Cost):
        self.cost, self.rated = cost, None
        self._timed: deque[dict] = deque(maxlen=_RECENT)  # the last lines with times
        self._played: dict[str, tuple[int, float]]  # the number of matches so far, and seconds
        self._played = {name: (0, 0.0) for name in cost.matches}
        self._last: dict = {"iteration": 0}
        for line in before:
            self._take(line)
        super().__init__(name, num_iterations, "iterations", self._last["iteration"])

    def add(self, numbers: dict) -> None:
        """Show a line of the metrics and the last Elo. The same line may come again with additional
        values."""
        self._take(numbers)
        self.show(numbers["iteration"], self._cells(numbers), self.to_go(), now="elo" in numbers)

    def _take(self, line: dict) -> None:
        is_same = line["iteration"] == self._last["iteration"]
        if is_same and self._timed and self._timed[-1] is self._last:
            self._timed.pop()
        if line.keys() >= _TIMED and line["simulations"] > 0:
            self._timed.append(line)
        for name, (number, seconds) in self._played.items():
            if name in line and not (is_same and name in self._last):
                self._played[name] = number + 1, seconds + line[name]
        self._last, self.rated = line, line if "elo" in line else self.rated

    def to_go(self) -> float:
        """The estimated seconds of the iterations to go: from the medians of the last ones for
        playing (per simulation) and learning, and the means of all evaluations and of all the
        gate's matches; nan before the first."""
        done, timed = self._last["iteration"], self._timed
        if not timed:
            return math.nan
        # Not the mean: the program may have been suspended during one of them.
        playing = statistics.median(line["playing_s"] / line["simulations"] for line in timed)
        learning = statistics.median(line["learning_s"] for line in timed)
        of_matches = sum(
            seconds / max(number, 1) * self.cost.matches[name](done)
            for name, (number, seconds) in self._played.items()
        )
        return (
            playing * self.cost.simulations(done)
            + learning * max(self.total - done, 0)
            + of_matches
        )

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
