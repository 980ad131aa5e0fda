"""Train the network on the games of a self-play folder.

python -m train --data runs/selfplay --steps 1000
"""

import sys

from gozero.apps import runtime

if __name__ == "__main__":
    runtime.prepare()  # before JAX is imported

    try:
        from train.run import main

        status = main()
    except KeyboardInterrupt:
        print("python -m train: stopped", file=sys.stderr)
        status = runtime.STOPPED
    sys.exit(status)
