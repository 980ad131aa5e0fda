"""The searches of Gelly & Silver (2011) against GNU Go 3.8 at level 10.

python -m experiments.against_gnugo.run [--only rave heuristic] [--parallel 16] [--out DIR]
"""

from __future__ import annotations

import sys

from experiments import command
from experiments.against_gnugo.config import AgainstGnugoConfig
from experiments.matches import run

PROG = "python -m experiments.against_gnugo.run"


def main() -> int:
    return run.play(command.parse(AgainstGnugoConfig, prog=PROG), PROG)


if __name__ == "__main__":
    sys.exit(main())
