"""Learn the weights of local shapes by self-play, from a checkout; see `gozero.td.td`.

python -m train.classical.td --size 9 --steps 20000 --out runs/shapes/local_shape_9.safetensors
"""

from __future__ import annotations

import dataclasses
import pathlib

from gozero.apps import runtime
from gozero.go.coords import MAX_KOMI
from gozero.runs.settings import seed_setting, setting
from train.classical.output import ResumableFlags

PROG = "python -m train.classical.td"


@dataclasses.dataclass(frozen=True)
class TdFlags(ResumableFlags):
    """Learn the values of local shapes by self-play."""

    out: pathlib.Path = setting(
        help="The .safetensors file to write the weights to, with a checkpoint beside it."
    )
    size: int = setting(9, "Points on a side of the board.", least=3, most=25)
    komi: float = setting(
        7.0, "Points for White.", least=-MAX_KOMI, most=MAX_KOMI, step=0.5, unit="points"
    )
    steps: int = setting(20_000, "Steps, in each of which every game plays one move.", least=1)
    games: int = setting(256, "Games played in lockstep.", least=1)
    rate: float = setting(
        4.0, "The initial step size alpha; it falls linearly, but not below a fiftieth.", above=0
    )
    epsilon: float = setting(0.1, "The probability of a random move.", least=0, most=1)
    plies: int = setting(2, "Plies from a position to the one it learns from.", least=1, most=2)
    anywhere: bool = setting(
        True, "Whether there are also weights that all locations share, besides those of each."
    )
    resume: bool = setting(
        False, "Continue from the checkpoint beside --out, which had the same flags."
    )
    weights: pathlib.Path | None = setting(
        None,
        "Initial weights: a file written by this command. With --resume, the same again.",
        unset="zeros",
    )
    seed: int = seed_setting("The seed of the games.")
    EXAMPLES = (
        f"{PROG} --size 9 --out runs/shapes/local_shape_9.safetensors",
        f"{PROG} --size 9 --out runs/shapes/local_shape_9.safetensors --resume",
    )
    MAY_DIFFER = ("out", "resume", "weights")


if __name__ == "__main__":
    runtime.run_main(PROG, "train.classical.td_training")
