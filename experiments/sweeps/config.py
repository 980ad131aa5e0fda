"""The flags of every sweep. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, ClassVar

from experiments.command import ExperimentConfig
from gozero.go.coords import MAX_KOMI, MAX_SIZE, MIN_SIZE
from gozero.play.player_config import PlayerConfig
from gozero.runs.settings import OfFlags, check, seed_setting, setting

SWEEP_FOLDER = (
    "The folder of pieces.jsonl, results.csv, results.svg, config.json and manifest.json: a new "
    "one, or one to resume."
)


@dataclasses.dataclass(frozen=True)
class PlayerFlags(OfFlags, PlayerConfig):
    """Flags of a player, of which only those that are given count, on top of an experiment's."""


@dataclasses.dataclass(frozen=True)
class SweepConfig(ExperimentConfig):
    """Points of an experiment, each a match between two of our players. A point's games are played
    in pieces of --parallel games; the same command resumes where it was killed, and with more
    --games plays those that are missing."""

    QUICK: ClassVar[Mapping[str, Any]] = {"games": 8, "parallel": 8, "resign": -0.9}

    games: int = setting(200, least=2, most=10**6, step=2)
    """Games of each point, rounded up to whole pieces."""

    parallel: int = setting(100, least=2, most=4096, step=2, unit="games")
    """Games played at once, a piece; --games if that is fewer."""

    size: int = setting(9, least=MIN_SIZE, most=MAX_SIZE)
    """Points on a side of the board."""

    komi: float = setting(7.0, least=-MAX_KOMI, most=MAX_KOMI, step=0.5, unit="points")
    """Points for White."""

    openings: int = setting(2, least=0, below="num_plies", unit="plies")
    """Random plies at the start of both games of a pair; the same at every point."""

    resign: float | None = setting(None, least=-1, below=0, unset="never")
    """Either side resigns when the values of the position and of its best move are below this, from
    -1 (lost) to 0 (even). -0.9 ends decided games early, and so the experiment."""

    seed: int = seed_setting()
    """The seed of the openings and the searches."""

    anchor_command: str | None = setting(None, unset="none")
    """A GTP program, as for `gozero match --opponent.command`, that some of the points also
    play."""

    anchor_games: int = setting(40, least=2, most=10**6, step=2)
    """Games of each such point against the program."""

    anchor_parallel: int = setting(8, least=1, most=4096)
    """Processes of the program at once."""

    out: pathlib.Path = setting(pathlib.Path("runs/sweep"), SWEEP_FOLDER)

    player: PlayerFlags = PlayerFlags()
    opponent: PlayerFlags = setting(PlayerFlags())
    """Flags of the points' opponents, on top of the experiment's; those of --player apply to the
    players whose scores are measured. A flag is left out where the player's search does not have
    it, and refused where the experiment sets it."""

    def __post_init__(self):
        check(self)

    @property
    def num_plies(self) -> int:
        """The bound on --openings: twice the number of points."""
        return 2 * self.size**2

    @property
    def piece(self) -> int:
        """Games in a piece."""
        return min(self.parallel, self.games)

    @property
    def num_pieces(self) -> int:
        """Pieces of each point."""
        return -(-self.games // self.piece)

    @property
    def terms(self) -> dict:
        """The settings that all games in a folder share."""
        names = ("size", "komi", "openings", "seed")
        return {"parallel": self.piece} | {name: getattr(self, name) for name in names}
