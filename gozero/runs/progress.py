"""Progress of long work, on stderr: a live table in a terminal, occasional lines elsewhere."""

from __future__ import annotations

import datetime
import math
import sys
import time
from collections.abc import Mapping
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

PLAIN_INTERVAL_S = 5.0
"""Without a terminal: the least time between two lines."""

_SAME_INTERVAL_S = 60.0
"""The same while no further unit is done, as in the first minutes of long games."""


class Progress:
    """Shows how much is done, the current phase, named numbers, and the time to go.

    A context manager. In a terminal the table is shown from the start, with the phase of the work
    and how long it has lasted. Elsewhere a line is printed for each phase before the first numbers,
    for the first and the last numbers, and in between every PLAIN_INTERVAL_S, or every minute while
    no further unit is done.

    Args:
      name: the name of the work.
      total: the number of units of work.
      unit: what a unit is: games, steps.
      done: units done before, which the estimated time to go ignores.
    """

    def __init__(self, name: str, total: int, unit: str = "games", done: int = 0):
        self.name, self.total, self.unit = name, total, unit
        self.done = self._before = done
        self._phase, self._numbers = "", {}
        self._to_go = math.nan
        self._started = self._phase_started = time.monotonic()
        self._last_line, self._last_done = -math.inf, done
        console = Console(stderr=True)
        self.live = None
        if console.is_terminal:
            self.live = Live(console=console, get_renderable=self._table)

    def __enter__(self) -> Self:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def phase(self, text: str) -> None:
        """Set what is being done now: ``compiling, about 40 s the first time``."""
        self._phase, self._phase_started = text, time.monotonic()
        if self.live:
            self.live.refresh()
        elif text and self._last_line == -math.inf:
            print(f"{self.name}: {text}", file=sys.stderr, flush=True)

    def show(
        self,
        done: int,
        numbers: Mapping[str, str] | None = None,
        to_go: float | None = None,
        now: bool = False,
        begun: int = 0,
    ) -> None:
        """Show how many units are done, and numbers.

        Args:
          done: the number of units done.
          numbers: name -> text; an empty name for a text that needs none.
          to_go: seconds to the end, nan if unknown; None estimates it from the pace so far.
          now: without a terminal, print the line at once instead of when it is next due.
          begun: the number of units in work, of which the pace takes one half as done.
        """
        self.done, self._numbers = done, dict(numbers or {})
        self._to_go = self._by_pace(begun) if to_go is None else to_go
        if self.live:
            return  # it is redrawn four times a second
        if now or done >= self.total or self._is_time():
            self._last_line, self._last_done = time.monotonic(), done
            print(self._line(), file=sys.stderr, flush=True)

    def _is_time(self) -> bool:
        interval = _SAME_INTERVAL_S if self.done == self._last_done else PLAIN_INTERVAL_S
        return time.monotonic() - self._last_line >= interval

    def _by_pace(self, begun: int) -> float:
        if self.done <= self._before:
            return math.nan
        done = self.done + min(begun, self.total - self.done) / 2
        pace = (time.monotonic() - self._started) / (done - self._before)
        return pace * (self.total - done)

    def _line(self) -> str:
        cells = [f"{name} {text}".strip() for name, text in self._numbers.items()]
        head = f"{self.done}/{self.total} {self.unit}"
        return "  ".join([head, *cells, f"{_clock(self._to_go)} to go"])

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_row(f"[bold]{self.name}", ProgressBar(self.total, self.done, width=40))
        table.add_row(self.unit, f"{self.done:,} of {self.total:,}")
        if self._phase:
            elapsed = _clock(time.monotonic() - self._phase_started)
            table.add_row("now", f"{self._phase} ({elapsed})")
        for name, text in self._numbers.items():
            table.add_row(name, text)
        table.add_row("to go", _clock(self._to_go))
        return table


def _clock(seconds: float) -> str:
    if math.isnan(seconds):
        return "-:--:--"
    return str(datetime.timedelta(seconds=round(seconds)))


def rates(numbers: dict) -> dict[str, str]:
    """Texts for `show` from the numbers of self-play: moves, games_per_s, simulations_per_s."""
    return {
        "moves": f"{numbers['moves']:,}",
        "games/s": f"{numbers['games_per_s']:.2f}",
        "simulations/s": f"{numbers['simulations_per_s']:,.0f}",
    }
