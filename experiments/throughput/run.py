"""Throughput of the rules, the playouts, the search and self-play.

    python -m experiments.throughput.run SUBJECT [--json] [--quick]

SUBJECT: rules, playouts, search, thinking, selfplay, features, networks, exchange,
commands or katago.

Each row compares our figure with a bound, or with a peer measured in the same run; if the peer
(pgx, mctx: ``pip install -e '.[bench]'``; gcc for the C engine) is not installed, it has only ours.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments import command
from experiments.throughput import (
    commands,
    exchange,
    features,
    katago,
    networks,
    playouts,
    rules,
    search,
    selfplay,
    thinking,
)
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report
from gozero.apps import flags

MEASURES = {
    "rules": rules.measure,
    "playouts": playouts.measure,
    "search": search.measure,
    "thinking": thinking.measure,
    "selfplay": selfplay.measure,
    "features": features.measure,
    "networks": networks.measure,
    "exchange": exchange.measure,
    "commands": commands.measure,
    "katago": katago.measure,
}


PROG = "python -m experiments.throughput.run"


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not {*arguments} & {*MEASURES, "-h", "--help"}:
        subject = " ".join(arguments) or "no subject"
        flags.fail(PROG, f"{subject}: expected {PROG} {'|'.join(MEASURES)} [--json] [--quick]")
    config = command.parse(ThroughputConfig, arguments, prog=PROG)
    report = Report(config.json)
    MEASURES[config.subject](config, report)
    report.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
