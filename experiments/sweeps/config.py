"""The flags that every sweep has. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib

from gozero.apps.flags import check_seed
from gozero.go.coords import KOMI_EXPECTED, MAX_SIZE, MIN_SIZE, is_komi


@dataclasses.dataclass(frozen=True)
class SweepConfig:
    """Points of an experiment, each a match of ours against ours. A point's games come in pieces of
    --parallel games; the same command goes on where it was killed, and with more --games plays
    those that are missing."""

    games: int = 200
    """Of each point, rounded up to whole pieces."""

    parallel: int = 100
    """Games at once, an even number: a piece. No more than --games."""

    size: int = 9
    """Points on a side of the board."""

    komi: float = 7.0
    """Points for White, a multiple of 0.5."""

    openings: int = 2
    """Random plies that both games of a pair begin with; the same at every point."""

    resign: float | None = None
    """Either side resigns when the position and its best move are worth less than this, from -1
    (lost) to 0 (even): -0.9 ends games that are decided early, and the experiment with them."""

    seed: int = 0
    """Of the openings and the searches."""

    anchor_command: str | None = None
    """A GTP program, as `gozero match --opponent.command` has it, that some of the points play
    too. Without it none does."""

    anchor_games: int = 40
    """Of each such point against the program, an even number."""

    anchor_parallel: int = 8
    """Processes of the program at once."""

    out: pathlib.Path = pathlib.Path("runs/sweep")
    """The folder of pieces.jsonl, results.csv, results.svg, config.json and manifest.json: a new
    one, or one to go on with."""

    def __post_init__(self):
        check_seed(self.seed)
        for name, least, most in (
            ("games", 2, 10**6),
            ("parallel", 2, 4096),
            ("size", MIN_SIZE, MAX_SIZE),
            ("openings", 0, 2 * self.size**2 - 1),
            ("anchor_games", 2, 10**6),
            ("anchor_parallel", 1, 4096),
        ):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name}: {getattr(self, name)} is not from {least} to {most}")
        for name in ("games", "parallel", "anchor_games"):
            value = getattr(self, name)
            if value % 2:
                raise ValueError(f"{name}: {value} is odd, and games come in pairs; {value + 1}?")
        if not is_komi(self.komi):
            raise ValueError(f"komi: {self.komi} is not {KOMI_EXPECTED}")

    @property
    def piece(self) -> int:
        """Games of a piece."""
        return min(self.parallel, self.games)

    @property
    def num_pieces(self) -> int:
        """Of each point."""
        return -(-self.games // self.piece)

    @property
    def terms(self) -> dict:
        """What all games in a folder have in common."""
        names = ("size", "komi", "openings", "seed")
        return {"parallel": self.piece} | {name: getattr(self, name) for name in names}
