"""Learn from self-play, or from the games of a self-play folder.

python -m train --preset 3x3 --out runs/zero
python -m train --data runs/selfplay --steps 1000
"""

from gozero.apps import runtime

if __name__ == "__main__":
    runtime.run_main("python -m train", "train.command")
