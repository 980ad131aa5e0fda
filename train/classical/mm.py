"""Fit the strengths of moves' features to the games of a folder.

python -m train.classical.mm --sgf runs/selfplay/games --out strengths.safetensors
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Literal

from gozero.apps import runtime
from gozero.runs.settings import seed_setting, setting
from train.classical.output import OutputFlags

PROG = "python -m train.classical.mm"
Feature = Literal["shape", "contiguity", "capture", "extension", "self_atari", "line", "distance"]


@dataclasses.dataclass(frozen=True)
class MmConfig(OutputFlags):
    """Fit the strengths of moves' features to the games of a folder."""

    sgf: pathlib.Path = setting(help="An SGF file, or a folder of them and its subfolders.")
    out: pathlib.Path = setting(help="The new .safetensors file to write the strengths to.")
    size: int = setting(
        9, "Points on a side of the board; games of other sizes are skipped.", least=2, most=25
    )
    first_move: int = setting(
        1,
        "The number of the first move of each game to learn from; self-play samples its opening "
        "moves.",
        least=1,
    )
    features: tuple[Feature, ...] = setting(
        ("shape", "contiguity", "capture", "extension", "self_atari"),
        "The kinds of features to learn: by default those of playouts. The others, a point's line "
        "and its distance from the last move, are for the priors of a search, and slow playouts.",
    )
    iterations: int = setting(20, "Rounds of updates, each of all groups of features.", least=1)
    holdout_fraction: float = setting(
        0.1,
        "The share of the games that is never learnt from, only measured.",
        least=0,
        below=1,
    )
    seed: int = seed_setting("The seed of the choice of held-out games.")
    EXAMPLES = (
        f"{PROG} --sgf runs/selfplay/games --out strengths.safetensors",
        f"{PROG} --sgf runs/match/games --out strengths.safetensors --first-move 9",
        f"{PROG} --sgf runs/selfplay/games --out priors.safetensors --features shape contiguity "
        "capture extension self_atari line distance",
    )


if __name__ == "__main__":
    runtime.run_main(PROG, "train.classical.mm_fit")
