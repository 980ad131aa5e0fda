"""Fit the strengths of 3x3 shapes and contiguity to the games of a folder.

python -m train.classical.mm --sgf runs/selfplay/games --out strengths.npz
"""

import sys

from gozero.apps import runtime

if __name__ == "__main__":
    runtime.prepare()  # before JAX is imported

    try:
        from train.classical.mm.run import main

        status = main()
    except KeyboardInterrupt:
        print("python -m train.classical.mm: stopped", file=sys.stderr)
        status = runtime.STOPPED
    sys.exit(status)
