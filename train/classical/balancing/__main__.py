"""Balance the strengths of playouts by the values that search finds.

python -m train.classical.balancing --sgf runs/match/games --start mm_9 --out balanced.safetensors
"""

from gozero.apps import runtime

if __name__ == "__main__":
    runtime.run_main("python -m train.classical.balancing", "train.classical.balancing.run")
