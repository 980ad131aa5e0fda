"""What a run shows of itself: a live table in a terminal, a line an iteration elsewhere."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

PLAIN_INTERVAL_S = 5.0


class Display:
    """A context manager.

    Args:
      name: of the run.
      num_iterations: in all.
      before: the metrics of those that were done before.
    """

    def __init__(self, name: str, num_iterations: int, before: Sequence[dict] = ()):
        self.name, self.num_iterations = name, num_iterations
        self.done = before[-1]["iteration"] if before else 0
        self.rated = next((line for line in reversed(before) if "elo" in line), None)
        self.started, self.last_plain = time.monotonic(), -PLAIN_INTERVAL_S
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
        """Show a line of the metrics, and the last Elo there was."""
        self.rated = numbers if "elo" in numbers else self.rated
        if self.live:
            self.live.update(self._table(numbers))
        elif self._is_time(numbers):
            self.last_plain = time.monotonic()
            print(self._line(numbers), file=sys.stderr, flush=True)

    def _is_time(self, numbers: dict) -> bool:
        last = numbers["iteration"] == self.num_iterations
        return last or "elo" in numbers or time.monotonic() - self.last_plain >= PLAIN_INTERVAL_S

    def to_go(self, iteration: int) -> str:
        """The time left at the rate so far."""
        if iteration <= self.done:
            return "-:--:--"
        pace = (time.monotonic() - self.started) / (iteration - self.done)
        return str(datetime.timedelta(seconds=round(pace * (self.num_iterations - iteration))))

    def _line(self, numbers: dict) -> str:
        cells = [f"{name} {text}" for name, text in self._cells(numbers)]
        head = f"{numbers['iteration']}/{self.num_iterations}"
        return "  ".join([head, *cells, f"{self.to_go(numbers['iteration'])} to go"])

    def _table(self, numbers: dict) -> Table:
        table = Table.grid(padding=(0, 2))
        bar = ProgressBar(self.num_iterations, numbers["iteration"], width=40)
        table.add_row(f"[bold]{self.name}", bar)
        table.add_row("iteration", f"{numbers['iteration']} of {self.num_iterations}")
        for name, text in self._cells(numbers):
            table.add_row(name, text)
        table.add_row("to go", self.to_go(numbers["iteration"]))
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
            cells.append(("Elo", f"{self.rated['elo']:+.0f} at {self.rated['iteration']}"))
        return cells
