"""Progress of training: a live line in a terminal, plain lines elsewhere, JSON lines on disk."""

from __future__ import annotations

import json
import sys
import time
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from train.learner import Metrics

INTERVAL_S = 2.0  # a number is read from the device, and waited for, this often only


class Report:
    """Counts steps; every so often shows steps/s and losses on stderr and writes them down."""

    def __init__(self, num_steps: int, batch_size: int, metrics: IO[str]):
        self.num_steps, self.batch_size, self.metrics = num_steps, batch_size, metrics
        self.positions_per_s = 0.0
        self.started = self.last = time.perf_counter()
        console = Console(stderr=True)
        columns = (
            TextColumn("train"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}"),
        )
        self.live = Progress(*columns, TimeRemainingColumn(), console=console)
        self.live.disable = not console.is_terminal
        self.task = self.live.add_task("train", total=num_steps, text="")

    def __enter__(self) -> Report:
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def count(self, taken: int, metrics: Metrics) -> None:
        """So many steps are taken, and this is what the last ones saw."""
        if taken < self.num_steps and time.perf_counter() - self.last < INTERVAL_S:
            return
        parts = metrics.losses
        seen = {"policy": round(float(parts.policy), 6), "value": round(float(parts.value), 6)}
        seen["gradient_norm"] = round(float(metrics.gradient_norm), 6)
        self.last = time.perf_counter()  # after the losses: reading them waits for the steps
        seconds = self.last - self.started
        self.positions_per_s = taken * self.batch_size / seconds
        numbers = {
            "step": taken,
            **seen,
            "seconds": round(seconds, 3),
            "steps_per_s": round(taken / seconds, 2),
            "positions_per_s": round(self.positions_per_s, 1),
        }
        self.metrics.write(json.dumps(numbers) + "\n")
        self.metrics.flush()
        self._show(numbers)

    def _show(self, numbers: dict) -> None:
        text = (
            f"steps  {numbers['steps_per_s']:.1f} steps/s  "
            f"policy {numbers['policy']:.4f}  value {numbers['value']:.4f}"
        )
        self.live.update(self.task, completed=numbers["step"], text=text)
        if self.live.disable:
            print(f"{numbers['step']}/{self.num_steps} {text}", file=sys.stderr, flush=True)
