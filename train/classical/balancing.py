"""Balance the strengths of playouts against the values that search finds.

python -m train.classical.balancing --sgf runs/match/games --start mm_9 --out balanced.safetensors
"""

from __future__ import annotations

import dataclasses
import pathlib

from gozero.apps import runtime
from gozero.runs import arrays
from gozero.runs.settings import check, seed_setting, setting

PROG = "python -m train.classical.balancing"


@dataclasses.dataclass(frozen=True)
class BalancingConfig:
    """Balance playouts: make their mean results equal to the values that search finds."""

    out: pathlib.Path = setting(help="Where the strengths go, a new .safetensors file.")
    data: pathlib.Path | None = setting(
        None, "The folder that self-play wrote, with shards/*.npz in it: positions come from there."
    )
    sgf: pathlib.Path | None = setting(
        None, "A folder with *.sgf in it or below it, or one such file, in place of --data."
    )
    size: int = setting(
        9, "Points on a side of the games of --sgf; others are left out.", least=2, most=25
    )
    start: str | None = setting(
        None, "Strengths to begin with, of a file or shipped.", unset="all 1"
    )
    positions: int = setting(512, "Positions drawn from the data or the games.", least=2)
    simulations: int = setting(
        1000,
        "Simulations of the search that values a position: MC-RAVE with playouts of the first "
        "strengths.",
        least=1,
    )
    steps: int = setting(200, "Steps of descent.", least=1)
    batch: int = setting(32, "Positions a step.", least=1)
    value_playouts: int = setting(
        64, "Playouts a position and step that estimate its bias.", least=1
    )
    gradient_playouts: int = setting(
        16, "Playouts a position and step that estimate the slope.", least=1
    )
    rate: float = setting(
        2.0,
        "The rate of descent by the logarithms of the strengths, at first; it falls to 0.",
        above=0,
    )
    holdout_fraction: float = setting(
        0.25, "Share of the positions that is only measured.", above=0, below=1
    )
    seed: int = seed_setting("The seed of all chance.")
    EXAMPLES = (
        f"{PROG} --sgf runs/match/games --start mm_9 --out balanced.safetensors",
        f"{PROG} --data runs/selfplay --steps 100 --out balanced.safetensors",
    )

    def __post_init__(self):
        check(self)
        if (self.data is None) == (self.sgf is None):
            raise ValueError("give --data, a folder of self-play, or --sgf, one of games")
        arrays.check_new(self.out, "--out")


if __name__ == "__main__":
    runtime.run_main(PROG, "train.classical.balancing_descent")
