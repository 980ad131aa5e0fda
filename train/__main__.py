"""Train the network on the games of a self-play folder.

python -m train --data runs/selfplay --steps 1000
"""

from gozero.apps import runtime

if __name__ == "__main__":
    runtime.run_main("python -m train", "train.run")
