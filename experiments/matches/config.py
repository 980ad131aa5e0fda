"""A list of matches, and its flags. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import ClassVar

from experiments.command import ExperimentConfig
from gozero.apps.match.config import MatchConfig, Side
from gozero.runs.settings import check, seed_setting, setting

GNUGO = (
    "gnugo --mode gtp --quiet --level 10 --chinese-rules --positional-superko "
    "--play-out-aftermath --capture-all-dead --seed {game}"
)

TIMEOUT_S = 1800.0
"""For a move of a program; many think at once on few cores, and none is to lose by the clock."""


@dataclasses.dataclass(frozen=True)
class Match:
    """One of the matches, and what it is to show: scores from 0 to 1."""

    player: Side
    games: int
    must: tuple[float, float] | None = None
    """None: nothing was set, the score is measured."""
    aim: float | None = None
    paper: str = ""
    """What a paper has."""
    opponent: Side = Side(command=GNUGO)  # noqa: RUF009 (frozen)
    size: int = 9
    komi: float = 7.0
    openings: int = 0
    """Random plies that each pair of games begins with; 0: no pairs."""


@dataclasses.dataclass(frozen=True)
class MatchesConfig(ExperimentConfig):
    """Matches by name. Each is one of `gozero match` in a folder of its own; the same command goes
    on where it was stopped."""

    MATCHES: ClassVar[Mapping[str, Match]]

    only: tuple[str, ...] = setting()
    """Which of the matches."""

    games: int | None = setting(None, least=2, step=2, unset="as many as each match has")
    """Games of each match."""

    parallel: int = setting(64, least=1, unit="games")
    """Games at once, each with a process of the opponent, if that is a program."""

    seed: int = seed_setting(default=1)
    """The seed of our searches."""

    out: pathlib.Path = setting(pathlib.Path("runs/matches"))
    """The folder of the matches, results.csv and results.svg."""

    def __post_init__(self):
        check(self)
        for name in self.only:
            if name not in self.MATCHES:
                raise ValueError(f"--only {name}: expected one of {', '.join(self.MATCHES)}")

    MINUTES_A_GAME: ClassVar[float] = 0.1
    """On two cores, many games at once; about what the recorded matches had."""

    @property
    def estimate(self) -> float:
        games = sum(self.games or self.MATCHES[name].games for name in self.only)
        return len(self.only) + self.MINUTES_A_GAME * games

    def match(self, name: str) -> MatchConfig:
        """The flags of a match; the side of ours that is measured is its player."""
        match = self.MATCHES[name]
        return MatchConfig(
            player=match.player,
            opponent=match.opponent,
            games=match.games if self.games is None else self.games,
            parallel=self.parallel,
            size=match.size,
            komi=match.komi,
            openings=match.openings,
            timeout=TIMEOUT_S,
            seed=self.seed,
            out=self.out / name,
        )
