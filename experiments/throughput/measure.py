"""Timing, and the result rows of measurements."""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
from rich.console import Console
from rich.table import Table

from experiments.throughput.worker import Worker, num_cores


@dataclasses.dataclass(frozen=True)
class Result:
    """One row: our figure, the peer's if there is one, and the bounds.

    `must` and `aim` bound the ratio to the peer, or our figure itself for rows that have no peer
    (`bounds="ours"`): from below if more is better, else from above.
    """

    row: str
    ours: float
    unit: str
    peer: float | None = None
    peer_name: str = ""
    ratio: float | None = None
    """Ours / peer; None: computed from the two figures."""
    must: float | None = None
    aim: float | None = None
    bounds: Literal["ratio", "ours"] = "ratio"
    better: Literal["more", "less"] = "more"
    note: str = ""
    device: str | None = None
    """Where it ran; None: JAX's first device."""

    def __post_init__(self):
        if self.ratio is None and self.peer:
            object.__setattr__(self, "ratio", self.ours / self.peer)
        if self.device is None:
            object.__setattr__(self, "device", jax.devices()[0].device_kind)

    def reaches(self, bound: float | None) -> bool | None:
        """Whether our figure or ratio meets a bound; None without a bound or without a peer."""
        figure = self.ours if self.bounds == "ours" else self.ratio
        if figure is None or bound is None:
            return None
        return figure >= bound if self.better == "more" else figure <= bound

    def as_dict(self) -> dict:
        return {**dataclasses.asdict(self), "holds": self.reaches(self.must)}


def make_timed(
    run: Callable[..., Any], make_arguments: Callable[[], tuple], *, warm_up: bool = True
) -> Callable[[], float]:
    """A function that runs `run` on new arguments and returns the seconds.

    Unless `warm_up` is False, a first run that is not timed compiles it.
    """
    if warm_up:
        jax.block_until_ready(run(*make_arguments()))

    def timed() -> float:
        arguments = jax.block_until_ready(make_arguments())
        started = time.perf_counter()
        jax.block_until_ready(run(*arguments))
        return time.perf_counter() - started

    return timed


def in_turn(sides: Sequence[Callable[[], float]], rounds: int) -> list[list[float]]:
    """Measures A B A B ... and returns each side's figures.

    A shared machine's speed drifts by half within minutes, but successive measurements see nearly
    the same machine, so ratios are taken round by round.
    """
    figures: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, measure in zip(figures, sides, strict=True):
            side.append(measure())
    return figures


def median_ratio(ours: Sequence[float], peer: Sequence[float]) -> float:
    """The median of the ratios of the rounds."""
    return statistics.median(a / b for a, b in zip(ours, peer, strict=True))


def against(ours: Sequence[float], peer: Sequence[float] | None, peer_name: str) -> dict:
    """The fields of a `Result` for two sides measured in turn."""
    fields: dict = {"ours": statistics.median(ours)}
    if peer is not None:
        ratio = median_ratio(ours, peer)
        fields |= {"peer": statistics.median(peer), "peer_name": peer_name, "ratio": ratio}
    return fields


class Report:
    """Prints rows as they come (JSON) or as a table at the end; progress goes to stderr."""

    def __init__(self, as_json: bool):
        self.as_json = as_json
        self.rows: list[Result] = []

    def say(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    def add(self, result: Result) -> None:
        if self.as_json:
            print(json.dumps(result.as_dict()), flush=True)
        self.rows.append(result)

    def close(self) -> None:
        if self.as_json:
            return
        table = Table("row", "ours", "peer", "ratio", "must", "aim", "holds", "note")
        for row in self.rows:
            table.add_row(*_cells(row))
        Console(width=160).print(table)


def compile_row(
    report: Report, row: str, task: str, must: float, aim: float, **parameters: Any
) -> None:
    """Adds a row for the seconds that a worker's `task` measures, made by `compile_timer`.

    Measured in a child that has traced nothing yet, on two cores: XLA compiles in parallel.
    """
    with Worker(task, min(2, num_cores()), **parameters) as child:
        seconds = statistics.median(child() for _ in range(3))
    report.add(
        Result(row, seconds, "s", must=must, aim=aim, bounds="ours", better="less", device="cpu")
    )


def compile_timer(lower: Callable[[], jax.stages.Lowered]) -> Callable[[], float]:
    """A function that traces a program by `lower`, compiles it from scratch and returns the
    seconds."""
    jax.config.update("jax_enable_compilation_cache", False)

    def measure() -> float:
        jax.clear_caches()
        started = time.perf_counter()
        lower().compile()
        return time.perf_counter() - started

    return measure


def _cells(row: Result) -> list[str]:
    peer = "-" if row.peer is None else f"{_number(row.peer)} {row.peer_name}"
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}x"
    holds = {None: "-", True: "yes", False: "no"}[row.reaches(row.must)]
    ours = f"{_number(row.ours)} {row.unit}"
    return [
        row.row,
        ours,
        peer,
        ratio,
        _bound(row, row.must),
        _bound(row, row.aim),
        holds,
        row.note,
    ]


def _bound(row: Result, bound: float | None) -> str:
    if bound is None:
        return "-"
    sign = "\N{GREATER-THAN OR EQUAL TO}" if row.better == "more" else "\N{LESS-THAN OR EQUAL TO}"
    return f"{sign} {bound:g}" + ("x" if row.bounds == "ratio" else f" {row.unit}")


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"
