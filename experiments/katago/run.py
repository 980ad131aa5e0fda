"""A KataGo network in gozero's search, against GNU Go and against KataGo.

python -m experiments.katago.run --weights NAME.bin.gz [--only gnugo-1] [--katago PROGRAM]
"""

from __future__ import annotations

import sys

from experiments import command
from experiments.katago.config import KataGoConfig
from experiments.matches import run

PROG = "python -m experiments.katago.run"


def main() -> int:
    return run.play(command.parse(KataGoConfig, prog=PROG), PROG)


if __name__ == "__main__":
    sys.exit(main())
