"""Learning the weights of local shapes by self-play, from a checkout; see `gozero.td.td`.

python -m train.classical.td --size 9 --steps 20000 --out runs/shapes/local_shape_9.safetensors
"""

from __future__ import annotations

import dataclasses
import math
import pathlib

from gozero.apps import flags, runtime
from gozero.runs import arrays

PROG = "python -m train.classical.td"


@dataclasses.dataclass(frozen=True)
class TdFlags:
    """Learn the values of local shapes by self-play."""

    out: pathlib.Path
    """Where the weights go, a .safetensors file; a checkpoint will lie beside it."""

    size: int = 9
    """Points on a side of the board, 3 to 25."""

    komi: float = 7.0
    """Points for White."""

    steps: int = 20_000
    """Moves of every game in lockstep."""

    games: int = 256
    """Games in lockstep."""

    rate: float = 4.0
    """Alpha at the beginning; it falls to a fiftieth in a straight line."""

    epsilon: float = 0.1
    """The probability of a random move."""

    plies: int = 2
    """Moves from a position to the one that teaches it: 1 or 2."""

    anywhere: bool = True
    """Share weights over all places too, beside those of each place."""

    resume: bool = False
    """Go on from the checkpoint beside --out, made with the same flags."""

    weights: pathlib.Path | None = None
    """Weights to begin with, a file of this command; without them, zeros. A run that is resumed
    goes on from its checkpoint, whatever it began with."""

    seed: int = 0
    """Of the games."""

    def __post_init__(self):
        flags.check_seed(self.seed)
        for name in ("steps", "games", "plies"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} {getattr(self, name)}: expected at least 1")
        if not 3 <= self.size <= 25:
            raise ValueError(f"--size {self.size}: expected 3 to 25")
        if not math.isfinite(self.komi):
            raise ValueError(f"--komi {self.komi}: expected a number")
        if not 0 < self.rate < math.inf:
            raise ValueError(f"--rate {self.rate}: expected a number above 0")
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"--epsilon {self.epsilon}: expected from 0 to 1")
        arrays.check_name(self.out, "--out")
        if self.out.exists() and not self.resume:
            raise ValueError(f"--out {self.out}: is there already; name a new file, or --resume")

    @property
    def checkpoint(self) -> pathlib.Path:
        return self.out.with_suffix(".checkpoint")

    @property
    def same(self) -> str:
        """What a checkpoint has to have been made with."""
        apart = ("out", "resume", "weights")
        kept = {k: v for k, v in dataclasses.asdict(self).items() if k not in apart}
        return repr(kept)


if __name__ == "__main__":
    runtime.run_main(PROG, "train.classical.td_training")
