"""The rows as a Markdown table: the newest of each program and target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.output import markdown

_HEAD = (
    "program",
    "target",
    "compile",
    "temp",
    "arguments",
    "a round",
    "estimate",
    "network",
    "kernels + loops + conditionals a round",
    "around it",
    "measured",
)

RowOf = Mapping[str, Any]


def of(rows: Sequence[RowOf], before: Sequence[RowOf] | None = None) -> str:
    """A table of rows; figures that differ from earlier rows, if any, are shown as `a -> b`."""
    newest, earlier = _newest(rows), _newest(before or ())
    return markdown(_HEAD, [_cells(row, earlier.get(key)) for key, row in newest.items()])


def line(row: RowOf) -> str:
    """One row as a line of text."""
    cells = _cells(row, None)
    pairs = zip(_HEAD[2:], cells[2:], strict=True)
    figures = ", ".join(f"{name} {cell}" for name, cell in pairs if cell)
    return f"{cells[0]} for {cells[1]}: {figures}"


def _newest(rows: Sequence[RowOf]) -> dict[tuple[str, str], RowOf]:
    return {(row["program"], row["target"]): row for row in rows}


def _cells(row: RowOf, before: RowOf | None) -> list[str]:
    figures, earlier = _figures(row), _figures(before) if before else None
    if earlier:
        pairs = zip(earlier, figures, strict=True)
        figures = [f"{a} -> {b}" if a and b and a != b else b for a, b in pairs]
    return [row["program"], row["target"], *figures]


def _figures(row: RowOf) -> list[str]:
    if row["error"]:
        return [row["error"].replace("|", "/"), *[""] * (len(_HEAD) - 3)]
    rate_of = lambda name: rate(row[name], row["unit"])
    ms = row["round_ms"]
    share = row["network_share"]
    custom, speed = row["custom_kernels"], rate_of("units_per_s")
    return [
        f"{row.get('compile_cpu_s') or row['compile_s']:.1f} s",
        _mib(row["temp_bytes"]),
        _mib(row["argument_bytes"]),
        "" if ms is None else f"{'over ' if custom else ''}{ms:.3g} ms",
        f"below {speed}, kernels of Pallas not counted: {custom}" if speed and custom else speed,
        "" if not share else f"{share:.0%}",
        _launches(row, ""),
        _launches(row, "_outside"),
        _measured(row),
    ]


def _measured(row: RowOf) -> str:
    """The measured rate, and its ratio to the estimate."""
    measured, estimated = row["measured_units_per_s"], row["units_per_s"]
    share = f", {measured / estimated:.2f} of the estimate" if measured and estimated else ""
    return rate(measured, row["unit"]) + share


def _launches(row: RowOf, suffix: str) -> str:
    """Kernels, loops and conditionals; only for GPUs, where the host launches or awaits each."""
    if row["target"].partition(":")[0] != "h100":
        return ""
    return " + ".join(
        str(row[f"{name}{suffix}"]) for name in ("kernels", "host_loops", "conditionals")
    )


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:,.0f} MiB"


def rate(per_s: float | None, unit: str) -> str:
    """Units per second, to three digits."""
    if per_s is None:
        return ""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if per_s >= size:
            return f"{per_s / size:.3g}{letter} {unit}/s"
    return f"{per_s:.3g} {unit}/s"
