"""The flags of ``gozero selfplay``. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Literal

from gozero.games.registry import ALL_NAMES
from gozero.go.coords import MAX_KOMI, MAX_SIZE, MIN_SIZE, KoRule
from gozero.play.player_config import MAX_NARROW, board_size
from gozero.runs.settings import Conflict, check, seed_setting, setting

KIND, LOCK = "self-play", "run.lock"
_MANY = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class SelfPlayFlags:
    """Play games of Go, or of another game, by self-play in lockstep, and record them."""

    games: int = setting(64, "Games to play.", group="run", least=1, most=_MANY)
    batch: int = setting(32, "Games played at once.", least=1, most=_MANY, unit="games")
    seed: int = seed_setting(
        "The seed of all chance in the run: the same seed, flags and number of devices play the "
        "same games."
    )
    out: pathlib.Path = setting(
        pathlib.Path("runs/selfplay"),
        "A new or empty folder for games/*.sgf (of other games than Go *.txt), shards/*.npz and "
        "the records of the run.",
    )
    resume: bool = setting(
        False,
        "Go on with the run in --out, which was stopped or killed, by the same flags: its games "
        "will be those of a run that was never broken off.",
    )

    game: str = setting("go", f"The game: {ALL_NAMES}.", group="game")
    size: int | None = setting(
        None,
        "Points on a side of the board.",
        least=MIN_SIZE,
        most=MAX_SIZE,
        unset="that of --weights, else 9; of hex 11",
    )
    komi: float = setting(
        7.0, "Points for White.", least=-MAX_KOMI, most=MAX_KOMI, step=0.5, unit="points"
    )
    ko: KoRule = setting(
        "positional", "The ko rule: simple ko, or positional or situational superko."
    )
    suicide: bool = setting(False, "Whether a play may remove its own chain; never a single stone.")
    max_moves: int | None = setting(
        None,
        "The move limit. A game it ends is scored as it stands.",
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
        None, "The network's weights, of one board size.", unset="random weights"
    )
    features: Literal["compact", "full", "full-no-ladders", "zero"] | None = setting(
        None,
        "The planes of a network of random weights; weights from a file bring their own.",
        unset="compact",
    )
    simulations: int = setting(
        64, "Simulations of the search at every move.", least=1, most=MAX_NARROW
    )
    reuse_subtree: bool = setting(
        False, "Whether a search goes on from what the last one found below the move played."
    )
    temperature_moves: int = setting(
        16,
        "Opening moves drawn in proportion to the visits; after them the most visited is played.",
        least=0,
        unit="moves",
    )

    CONFLICTS = (
        Conflict("weights features", "!evaluator=network", "playouts take none"),
        Conflict("komi ko suicide max_moves features", "!game=go", "others have none"),
    )
    EXAMPLES = (
        "gozero selfplay --size 9 --games 64 --simulations 64 --out runs/first",
        "gozero selfplay --weights NET.safetensors --size 9 --batch 256 --out runs/second",
        "gozero selfplay --size 9 --games 64 --simulations 64 --out runs/first --resume",
    )

    def __post_init__(self):
        check(self)
        if self.game == "go":
            object.__setattr__(self, "size", board_size(self.size, self.weights))
