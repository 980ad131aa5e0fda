"""Tables of README.md, from the records in results/.

python -m experiments.records      # writes them; each is a function of its records' path
"""

from __future__ import annotations

import pathlib

from experiments.output import markdown, read_csv


def elo(path: pathlib.Path) -> str:
    """Elo of recipes against their references."""
    lines = []
    for row in read_csv(path):
        difference, low, high = (float(row[name]) for name in ("elo", "low", "high"))
        cells = [row["recipe"], row["against"], f"{difference:+.0f} [{low:+.0f}, {high:+.0f}]"]
        counts = [f"{float(row[name]):,.0f}" for name in ("seeds", "games", "iterations", "played")]
        seconds = f"{float(row['cost']):.2f} s", f"{float(row['seconds']):.0f} s"
        lines.append([*cells, *counts, *seconds])
    head = ["recipe", "against", "Elo [95%]", "seeds of each", "games of the matches"]
    return markdown([*head, "iterations", "games of a run", "an iteration", "a run"], lines)


def row_bytes(path: pathlib.Path) -> str:
    """Bytes per row with float16 and with uint8 targets, and their ratio."""
    lines = []
    for row in read_csv(path):
        lines.append([f"{row['board']}, {row['root']}", f"{int(row['rows']):,}"])
        for kind in ("replay", "npz", "zst"):
            before, after = (float(row[f"{kind}_{dtype}"]) for dtype in ("float16", "uint8"))
            lines[-1].append(f"{before:.1f}, {after:.1f} ({after / before:.0%})")
    return markdown(["", "rows", "replay", "shard, .npz", "shard, .zst"], lines)


def root_value(path: pathlib.Path) -> str:
    """Bias and mean squared error of the estimates of a root's value."""
    lines = []
    for row in read_csv(path):
        bias, against = (
            "{:+.3f} [{:+.3f}, {:+.3f}]".format(*(float(row[name]) for name in names))
            for names in (
                ("bias", "bias_low", "bias_high"),
                ("against_mean", "against_low", "against_high"),
            )
        )
        cells = [row["board"], row["root"], row["simulations"], row["estimate"], bias]
        lines.append([*cells, f"{float(row['mse']):.3f}", against])
    head = ["board", "root", "simulations", "estimate", "bias [95%]", "mean squared error"]
    return markdown([*head, "against the mean of simulations [95%]"], lines)
