"""The flags of ``gozero selfplay``. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Literal

from gozero.games.registry import ALL_NAMES
from gozero.go.coords import MAX_KOMI, MAX_SIZE, MIN_SIZE, KoRule
from gozero.limits import MAX_VISITS, Dtype, FeaturesName
from gozero.play.player_config import PlayerConfig, SymmetryMode, board_size, symmetries_for
from gozero.runs.settings import Conflict, check, same_as, seed_setting, setting

KIND, LOCK = "self-play", "run.lock"
_MANY = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class SelfPlayFlags:
    """Play games of Go, or of another game, by self-play in lockstep, and record them."""

    games: int = setting(64, "Games to play.", group="run", least=1, most=_MANY)
    batch: int = setting(32, "Games played at once.", least=1, most=_MANY, unit="games")
    seed: int = seed_setting(
        "The random seed: the same seed, flags and number of devices play the same games."
    )
    out: pathlib.Path = setting(
        pathlib.Path("runs/selfplay"),
        "A new or empty folder for games/*.sgf (*.txt for games other than Go), shards/*.npz, "
        "config.json, manifest.json and metrics.jsonl.",
    )
    resume: bool = setting(
        False,
        "Continue the run in --out, which was stopped or killed, with the same flags; it plays the "
        "same games as an uninterrupted run.",
    )

    game: str = setting("go", f"The game: {ALL_NAMES}.", group="game")
    size: int | None = setting(
        None,
        "Points on a side of the board.",
        least=MIN_SIZE,
        most=MAX_SIZE,
        unset="the size of --weights, else 9, or 11 for hex",
    )
    komi: float = setting(
        7.0, "Points for White.", least=-MAX_KOMI, most=MAX_KOMI, step=0.5, unit="points"
    )
    ko: KoRule = setting(
        "positional", "The ko rule: simple ko, or positional or situational superko."
    )
    suicide: bool = setting(
        False, "Whether suicide of several stones is legal; that of a single stone never is."
    )
    max_moves: int | None = setting(
        None,
        "The move limit; a game that reaches it is scored as it stands.",
        least=1,
        most=2**15 - 1,
        unset="2 * size^2",
    )

    evaluator: Literal["network", "playout"] = setting(
        "network",
        "What evaluates a position: a policy and value network, or uniform random playouts.",
        group="search",
    )
    weights: pathlib.Path | None = setting(
        None, "The network's weights, for one board size.", unset="random weights"
    )
    features: FeaturesName | None = setting(
        None,
        "The input planes of a network with random weights; a weights file has its own.",
        unset="compact",
    )
    symmetries: SymmetryMode | None = same_as(PlayerConfig, "symmetries")  # noqa: RUF009 (a string)
    dtype: Dtype | None = same_as(PlayerConfig, "dtype")  # noqa: RUF009 (a string)
    simulations: int = setting(64, "Simulations for each move.", least=1, most=MAX_VISITS)
    reuse_subtree: bool = setting(
        False,
        "Whether each search starts from the subtree that the previous one built below the move "
        "played.",
    )
    temperature_moves: int = setting(
        16,
        "The number of moves at the start of a game that are sampled in proportion to visits; "
        "later the most visited move is played.",
        least=0,
        unit="moves",
    )

    CONFLICTS = (
        Conflict(
            "weights features symmetries dtype", "!evaluator=network", "playouts use no network"
        ),
        Conflict(
            "komi ko suicide max_moves features", "!game=go", "other games have no such setting"
        ),
    )
    EXAMPLES = (
        "gozero selfplay --size 9 --games 64 --simulations 64 --out runs/first",
        "gozero selfplay --weights NET.safetensors --size 9 --batch 256 --out runs/second",
        "gozero selfplay --size 9 --games 64 --simulations 64 --out runs/first --resume",
    )

    @property
    def effective_symmetries(self) -> SymmetryMode:
        """The symmetries in effect."""
        return self.symmetries or symmetries_for(self.weights)

    def __post_init__(self):
        check(self)
        if self.game == "go":
            object.__setattr__(self, "size", board_size(self.size, self.weights))
