"""Learn the weights of local shapes from a network, from a checkout; see `imitation_training`.

python -m train.classical.imitation --teacher NET.safetensors --out runs/shapes/taught.safetensors
"""

from __future__ import annotations

import dataclasses
import pathlib

from gozero.apps import runtime
from gozero.go.coords import MAX_KOMI
from gozero.runs.settings import seed_setting, setting
from train.classical.output import ResumableFlags

PROG = "python -m train.classical.imitation"


@dataclasses.dataclass(frozen=True)
class ImitationFlags(ResumableFlags):
    """Learn the values of local shapes from a network's policy and value, in games that it plays
    against itself, for --heuristic shape."""

    teacher: pathlib.Path = setting(help="The network: a file made by `python -m train`.")
    out: pathlib.Path = setting(
        help="The .safetensors file to write the weights to, with a checkpoint beside it."
    )
    komi: float = setting(
        7.0, "Points for White.", least=-MAX_KOMI, most=MAX_KOMI, step=0.5, unit="points"
    )
    steps: int = setting(10_000, "Steps, in each of which every game plays one move.", least=1)
    games: int = setting(512, "Games played in lockstep.", least=1)
    rate: float = setting(0.01, "Adam's initial step size; it falls to 2% along a cosine.", above=0)
    temperature: float = setting(
        0.2, "The logit of a move's value for each unit of its policy logit.", above=0
    )
    value_weight: float = setting(
        0.2, "The weight of the value's loss, beside that of the policy.", least=0
    )
    epsilon: float = setting(
        0.15,
        "The probability of a random move; the others are drawn from the network's policy.",
        least=0,
        most=1,
    )
    resume: bool = setting(
        False, "Continue from the checkpoint beside --out, which had the same flags."
    )
    seed: int = seed_setting("The seed of the games.")
    EXAMPLES = (
        f"{PROG} --teacher gozero/play/data/9x9.safetensors --out runs/shapes/taught.safetensors",
        f"{PROG} --teacher gozero/play/data/9x9.safetensors --out runs/shapes/taught.safetensors "
        "--resume",
    )
    MAY_DIFFER = ("out", "resume", "teacher")  # the network is known by its digest, not its path


if __name__ == "__main__":
    runtime.run_main(PROG, "train.classical.imitation_training")
