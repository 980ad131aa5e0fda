"""Throughput of the rules, the playouts, the search and self-play.

    python -m experiments.throughput.run rules|playouts|search|selfplay|features [--json] [--quick]

Each row is a ratio to a peer or a bound measured in the same run; without the peer (pgx,
mctx: ``pip install -e '.[bench]'``; gcc for the C yardstick) the row has our figure alone.
"""

from __future__ import annotations

import sys

from experiments.throughput import features, playouts, rules, search, selfplay
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report
from gozero.apps import flags

MEASURES = {
    "rules": rules.measure,
    "playouts": playouts.measure,
    "search": search.measure,
    "selfplay": selfplay.measure,
    "features": features.measure,
}


def main() -> int:
    config = flags.parse(ThroughputConfig, prog="python -m experiments.throughput.run")
    report = Report(config.json)
    MEASURES[config.subject](config, report)
    report.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
