"""Fit the strengths of 3x3 shapes and contiguity to the games of a folder.

python -m train.classical.mm --sgf runs/selfplay/games --out strengths.safetensors
"""

from gozero.apps import runtime

if __name__ == "__main__":
    runtime.run_main("python -m train.classical.mm", "train.classical.mm.run")
