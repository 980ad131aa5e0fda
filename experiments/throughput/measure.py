"""Timing, and the row that a measurement becomes."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import jax
from rich.console import Console
from rich.table import Table


@dataclasses.dataclass(frozen=True)
class Result:
    """One row: ours and the peer's figure in `unit` (more is better), and the ratio wanted."""

    row: str
    ours: float
    unit: str
    peer: float | None = None
    peer_name: str = ""
    must: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.peer if self.peer else None

    def as_dict(self) -> dict:
        ratio = self.ratio
        return {
            **dataclasses.asdict(self),
            "ratio": ratio,
            "holds": None if ratio is None or self.must is None else ratio >= self.must,
            "device": jax.devices()[0].device_kind,
        }


def best_seconds(run: Callable[..., Any], make_arguments: Callable[[], tuple], repeats: int):
    """Least seconds of `repeats` runs after one that compiles. Arguments may be donated."""
    jax.block_until_ready(run(*make_arguments()))
    times = []
    for _ in range(repeats):
        arguments = jax.block_until_ready(make_arguments())
        started = time.perf_counter()
        jax.block_until_ready(run(*arguments))
        times.append(time.perf_counter() - started)
    return min(times)


class Report:
    """Prints rows as they come (JSON) or as a table at the end."""

    def __init__(self, as_json: bool):
        self.as_json, self.rows = as_json, []

    def add(self, result: Result) -> None:
        if self.as_json:
            print(json.dumps(result.as_dict()), flush=True)
        self.rows.append(result.as_dict())

    def close(self) -> None:
        if self.as_json:
            return
        table = Table("row", "ours", "peer", "unit", "ratio", "must", "holds", "note")
        for row in self.rows:
            peer = "-" if row["peer"] is None else f"{row['peer']:,.0f} ({row['peer_name']})"
            ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}x"
            must = "-" if row["must"] is None else f"{row['must']:g}x"
            holds = {None: "-", True: "yes", False: "no"}[row["holds"]]
            ours = f"{row['ours']:,.0f}"
            table.add_row(row["row"], ours, peer, row["unit"], ratio, must, holds, row["note"])
        Console(width=140).print(table)
