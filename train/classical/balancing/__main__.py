"""Balance the strengths of playouts by the values that search finds.

python -m train.classical.balancing --data runs/selfplay --start mm_9 --out balanced.npz
"""

import sys

from gozero.apps import runtime

if __name__ == "__main__":
    runtime.prepare()  # before JAX is imported

    try:
        from train.classical.balancing.run import main

        status = main()
    except KeyboardInterrupt:
        print("python -m train.classical.balancing: stopped", file=sys.stderr)
        status = runtime.STOPPED
    sys.exit(status)
