"""Matches, one after the other, and the table and the picture of what came of them."""

from __future__ import annotations

import csv
import dataclasses
import io
import pathlib
import sys
from collections.abc import Sequence

from experiments.matches import plot
from experiments.matches.config import MatchesConfig
from experiments.matches.results import Row, rows, table
from gozero.apps import flags, runtime
from gozero.apps.match import gtp_opponent
from gozero.apps.match import run as match
from gozero.runs.files import write_whole


def play(config: MatchesConfig, prog: str) -> int:
    """All that were asked for; the exit status of a program `prog`."""
    runtime.prepare()
    plot.check()
    try:
        asked = {name: config.match(name) for name in config.only}
        for one in asked.values():
            gtp_opponent.player_names(one)
    except ValueError as error:
        flags.fail(prog, error)
    status = 0
    for name, one in asked.items():
        print(f"{name}:", file=sys.stderr)
        one.out.parent.mkdir(parents=True, exist_ok=True)
        status = match.run(one)
        write(rows(config.MATCHES, config.out), config.out)
        if status:
            break
    print(table(rows(config.MATCHES, config.out)))
    print(f"rows and plot in {config.out}")
    return status


def write(found: Sequence[Row], out: pathlib.Path) -> None:
    """results.csv and results.svg."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in dataclasses.fields(Row)])
    writer.writeheader()
    writer.writerows(vars(row) for row in found)
    write_whole(out / "results.csv", text.getvalue().encode())
    plot.draw(found, out / "results.svg")
