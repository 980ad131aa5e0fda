"""Balance the strengths of playouts against the values that search finds.

python -m train.classical.balancing --sgf runs/match/games --start mm_9 --out balanced.safetensors
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Literal

from gozero.apps import runtime
from gozero.go.coords import MAX_KOMI
from gozero.runs.settings import Conflict, seed_setting, setting
from train.classical.output import OutputFlags

PROG = "python -m train.classical.balancing"
Feature = Literal["shape", "contiguity", "capture", "extension", "self_atari"]


@dataclasses.dataclass(frozen=True)
class BalancingConfig(OutputFlags):
    """Balance playouts: make their mean results equal to the values that search finds."""

    out: pathlib.Path = setting(help="The new .safetensors file to write the strengths to.")
    data: pathlib.Path | None = setting(
        None, "The folder of a self-play run, with shards/*.npz, to draw positions from."
    )
    sgf: pathlib.Path | None = setting(
        None, "An SGF file, or a folder of them and its subfolders, instead of --data."
    )
    size: int = setting(
        9,
        "Points on a side of the board, for --sgf; games of other sizes are skipped.",
        least=2,
        most=25,
    )
    komi: float | None = setting(
        None,
        "Points for White in games of --sgf that do not say so.",
        least=-MAX_KOMI,
        most=MAX_KOMI,
        step=0.5,
        unit="points",
        unset="such games are skipped",
    )
    start: str | None = setting(
        None,
        "Initial strengths: a file, or mm_9, balanced_9, mm_atari_9 or balanced_atari_9 of the "
        "package.",
        unset="all 1",
    )
    features: tuple[Feature, ...] = setting(
        ("shape", "contiguity", "capture", "extension", "self_atari"),
        "The kinds of features to balance; the others keep the strengths of --start.",
    )
    positions: int = setting(512, "The number of positions to draw.", least=2)
    simulations: int = setting(
        1000,
        "Simulations of the search that finds a position's value: MC-RAVE with playouts by the "
        "initial strengths.",
        least=1,
    )
    steps: int = setting(200, "Gradient steps.", least=1)
    batch: int = setting(32, "Positions in a step.", least=1)
    value_playouts: int = setting(
        64, "Playouts of each position in a step that estimate its bias.", least=1
    )
    gradient_playouts: int = setting(
        16, "Playouts of each position in a step that estimate the gradient.", least=1
    )
    rate: float = setting(
        2.0,
        "The initial learning rate of the logarithms of the strengths; it falls linearly to 0.",
        above=0,
    )
    holdout_fraction: float = setting(
        0.25,
        "The share of the games whose positions are never trained on, only measured.",
        above=0,
        below=1,
    )
    seed: int = seed_setting("The random seed.")
    CONFLICTS = (
        Conflict("size", "data", "the run tells its board's size", True),
        Conflict("komi", "data", "the run's games have their komi", True),
    )
    EXAMPLES = (
        f"{PROG} --sgf runs/match/games --start mm_9 --out balanced.safetensors",
        f"{PROG} --data runs/selfplay --steps 100 --out balanced.safetensors",
    )

    def __post_init__(self):
        super().__post_init__()
        if (self.data is None) == (self.sgf is None):
            raise ValueError(
                "give either --data, a folder of self-play, or --sgf, a folder of games"
            )


if __name__ == "__main__":
    runtime.run_main(PROG, "train.classical.balancing_descent")
