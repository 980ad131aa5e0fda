"""Progress on long work: a live line in a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_INTERVAL_S = 5.0


class SelfPlayProgress:
    """Games finished, games/s and simulations/s on stderr."""

    def __init__(self, num_games: int):
        console = Console(stderr=True)
        self.num_games = num_games
        self.last_plain = time.monotonic()
        self.live = None
        if console.is_terminal:
            self.live = Progress(
                TextColumn("self-play"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("games  {task.fields[rates]}"),
                TimeRemainingColumn(),
                console=console,
            )
            self.task = self.live.add_task("games", total=num_games, rates="")

    def __enter__(self) -> SelfPlayProgress:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def show(self, numbers: dict) -> None:
        """Show the numbers of a run: games, moves, games_per_s, simulations_per_s."""
        rates = (
            f"{numbers['moves']:,} moves  {numbers['games_per_s']:.2f} games/s  "
            f"{numbers['simulations_per_s']:,.0f} simulations/s"
        )
        if self.live:
            self.live.update(self.task, completed=numbers["games"], rates=rates)
        elif time.monotonic() - self.last_plain >= PLAIN_INTERVAL_S:
            self.last_plain = time.monotonic()
            print(
                f"{numbers['games']}/{self.num_games} games  {rates}", file=sys.stderr, flush=True
            )
