"""What a run shows of itself: a live table in a terminal, a line an iteration elsewhere."""

from __future__ import annotations

import datetime
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

PLAIN_INTERVAL_S = 5.0
_RECENT = 10  # iterations that the time of those to come is told by


class Cost(NamedTuple):
    """What the iterations of a run are made of."""

    simulations: Callable[[int], int]  # of a full search, by the iterations done before
    evaluated: Callable[[int], bool]  # after so many iterations

    def to_go(self, lines: Sequence[dict], num_iterations: int) -> float:
        """Seconds that the iterations after those of some lines will take: to play, by simulation,
        and to learn as the median of the last ones, to evaluate as on average."""
        timed = [line for line in lines if "playing_s" in line][-_RECENT:]
        if not timed:
            return math.nan
        todo = range(lines[-1]["iteration"], num_iterations)
        # Not the mean: one of them may have waited while the program was stopped.
        playing = statistics.median(line["playing_s"] / line["simulations"] for line in timed)
        playing *= sum(map(self.simulations, todo))
        learning = statistics.median(line["learning_s"] for line in timed) * len(todo)
        matches = [line["evaluation_s"] for line in lines if "evaluation_s" in line]
        number = sum(self.evaluated(i + 1) for i in todo)
        return playing + learning + number * sum(matches) / max(len(matches), 1)


class Display:
    """A context manager.

    Args:
      name: of the run.
      num_iterations: in all.
      before: the metrics of those that were done before.
      cost: of the iterations.
    """

    def __init__(self, name: str, num_iterations: int, before: Sequence[dict], cost: Cost):
        self.name, self.num_iterations, self.cost = name, num_iterations, cost
        self.lines = [*before]
        self.rated = next((line for line in reversed(before) if "elo" in line), None)
        self.last_plain = -math.inf
        console = Console(stderr=True)
        self.live = Live(console=console) if console.is_terminal else None

    def __enter__(self) -> Display:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def show(self, numbers: dict) -> None:
        """Show a line of the metrics, which may come again with more, and the last Elo."""
        if self.lines and self.lines[-1]["iteration"] == numbers["iteration"]:
            self.lines.pop()
        self.lines.append(numbers)
        self.rated = numbers if "elo" in numbers else self.rated
        if self.live:
            self.live.update(self._table(numbers))
        elif self._is_time(numbers):
            self.last_plain = time.monotonic()
            print(self._line(numbers), file=sys.stderr, flush=True)

    def _is_time(self, numbers: dict) -> bool:
        last = numbers["iteration"] == self.num_iterations
        return last or "elo" in numbers or time.monotonic() - self.last_plain >= PLAIN_INTERVAL_S

    def to_go(self) -> str:
        """The time left after the last line."""
        seconds = self.cost.to_go(self.lines, self.num_iterations)
        return "-:--:--" if math.isnan(seconds) else str(datetime.timedelta(seconds=round(seconds)))

    def _line(self, numbers: dict) -> str:
        cells = [f"{name} {text}" for name, text in self._cells(numbers)]
        head = f"{numbers['iteration']}/{self.num_iterations}"
        return "  ".join([head, *cells, f"{self.to_go()} to go"])

    def _table(self, numbers: dict) -> Table:
        table = Table.grid(padding=(0, 2))
        bar = ProgressBar(self.num_iterations, numbers["iteration"], width=40)
        table.add_row(f"[bold]{self.name}", bar)
        table.add_row("iteration", f"{numbers['iteration']} of {self.num_iterations}")
        for name, text in self._cells(numbers):
            table.add_row(name, text)
        table.add_row("to go", self.to_go())
        return table

    def _cells(self, numbers: dict) -> list[tuple[str, str]]:
        losses = numbers.get("losses")
        cells = [
            ("games/s", f"{numbers['games_per_s']:,.1f}"),
            ("sims/s", f"{numbers['simulations_per_s']:,.0f}"),
            ("steps", f"{numbers['steps']:,}"),
        ]
        if losses:
            cells += [(name, f"{value:.3f}") for name, value in losses.items()]
        if self.rated is not None:
            before = "-".join(map(str, self.rated.get("before", ())))
            before = f", {before} against the one before" if before else ""
            cells.append(("Elo", f"{self.rated['elo']:+.0f} at {self.rated['iteration']}{before}"))
        return cells
