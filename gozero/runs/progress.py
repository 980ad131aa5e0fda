"""Progress on long work: a live line in a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import datetime
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

PLAIN_INTERVAL_S = 5.0


class Progress:
    """Games finished and what else there is to say, on stderr. A context manager.

    Args:
      name: of the work.
      num_games: of them all.
      done: games that were finished before, of which the time to go knows nothing.
    """

    def __init__(self, name: str, num_games: int, done: int = 0):
        console = Console(stderr=True)
        self.num_games, self.done = num_games, done
        self.started = self.last_plain = time.monotonic()
        self.live = None
        if console.is_terminal:
            self.live = Bar(
                TextColumn(name),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("games  {task.fields[rates]}"),
                console=console,
            )
            self.task = self.live.add_task("games", total=num_games, completed=done, rates="")

    def __enter__(self) -> Progress:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def show(self, games: int, text: str) -> None:
        """Show how many games are finished, and a text beside it."""
        text = f"{text}  {self._to_go(games)}"
        if self.live:
            self.live.update(self.task, completed=games, rates=text)
        elif time.monotonic() - self.last_plain >= PLAIN_INTERVAL_S:
            self.last_plain = time.monotonic()
            print(f"{games}/{self.num_games} games  {text}", file=sys.stderr, flush=True)

    def _to_go(self, games: int) -> str:
        """The time left at the rate so far."""
        if games <= self.done:
            return "-:--:-- to go"
        pace = (time.monotonic() - self.started) / (games - self.done)
        return f"{datetime.timedelta(seconds=round(pace * (self.num_games - games)))} to go"


def rates(numbers: dict) -> str:
    """Of self-play's numbers: moves, games_per_s, simulations_per_s."""
    return (
        f"{numbers['moves']:,} moves  {numbers['games_per_s']:.2f} games/s  "
        f"{numbers['simulations_per_s']:,.0f} simulations/s"
    )
