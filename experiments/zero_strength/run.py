"""Networks trained by self-play, against MC-RAVE and GNU Go.

python -m experiments.zero_strength.run [--only 7x7-gnugo]
    [--weights runs/zero-7x7/weights.safetensors]
"""

from __future__ import annotations

import sys

from experiments import command
from experiments.matches import run
from experiments.zero_strength.config import ZeroStrengthConfig

PROG = "python -m experiments.zero_strength.run"


def main() -> int:
    return run.play(command.parse(ZeroStrengthConfig, prog=PROG), PROG)


if __name__ == "__main__":
    sys.exit(main())
