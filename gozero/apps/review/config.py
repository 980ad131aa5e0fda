"""The flags of ``gozero review``. Imports no JAX."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from tyro.conf import Positional

from gozero.apps import sgf
from gozero.apps.named import AnalystConfig
from gozero.go.coords import MAX_KOMI, KoRule
from gozero.play.player_config import PlayerConfig, TreeName
from gozero.runs import settings
from gozero.runs.settings import setting

KINDS = (".html", ".sgf", ".csv")


@dataclasses.dataclass(frozen=True)
class ReviewConfig(AnalystConfig):
    """Review games of Go from SGF files: who was ahead at each move, and which moves lost the most.
    All positions of all games are searched in lockstep."""

    search: TreeName = settings.same_as(PlayerConfig, "search")  # noqa: RUF009 (a string)
    simulations: int = settings.same_as(PlayerConfig, "simulations", 200)

    games: Positional[tuple[pathlib.Path, ...]] = setting((), group="review", positional=True)
    """The games, as SGF files of one board size; every game of a file is reviewed."""

    out: pathlib.Path | None = setting(None, unset="a summary on the terminal")
    """The report to write: .html with pictures, .sgf with variations, or .csv of all positions."""

    mistakes: int = setting(5, least=0)
    """The number of moves of each game to show, those that lost the most."""

    batch: int = setting(64, least=1, most=2**16, unit="positions")
    """Positions searched at once."""

    score_playouts: int = setting(32, least=1, most=2**16)
    """Playouts per position that forecast score and ownership, if the network does not."""

    komi: float | None = setting(
        None, least=-MAX_KOMI, most=MAX_KOMI, step=0.5, unit="points", unset="that of each game"
    )
    """Points for White, in place of those of the games; a game without komi has 0."""

    ko: KoRule = setting("positional")
    """Which repeated boards are illegal: that of two moves ago, any earlier one, or any earlier one
    with the same player to move."""

    suicide: bool = setting(False)
    """Whether suicide of several stones is legal; that of a single stone never is."""

    seed: int = settings.seed_setting()
    """The random seed: the same seed, games and flags give the same report."""

    EXAMPLES = (
        "gozero review GAME.sgf --out REPORT.html",
        "gozero review games/*.sgf --search rave --simulations 1000",
    )

    @classmethod
    def _size_of(cls, flags: Mapping[str, Any]) -> int:
        """The board size of the games; if they cannot be read, the command reports that later."""
        for path in flags.get("games", ()):
            with contextlib.suppress(ValueError):
                return sgf.read(path).size
        return super()._size_of(flags)

    def __post_init__(self):
        if not self.games:
            raise ValueError("expected games as SGF files: gozero review GAME.sgf")
        self.check()
        if self.out is not None and self.out.suffix not in KINDS:
            raise ValueError(f"--out {self.out}: expected a .html, .sgf or .csv file")
