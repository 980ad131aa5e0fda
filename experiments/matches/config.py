"""A list of matches, and its flags. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import ClassVar

from experiments.command import ExperimentConfig
from gozero.apps.match.config import MatchConfig, Side
from gozero.compile import mode
from gozero.play.players import settings_of
from gozero.runs.settings import check, seed_setting, setting

GNUGO = (
    "gnugo --mode gtp --quiet --level 10 --chinese-rules --positional-superko "
    "--play-out-aftermath --capture-all-dead --seed {game}"
)
GNUGO_0 = GNUGO.replace("--level 10", "--level 0")
"""At its lowest level."""
GNUGO_3_7_10 = GNUGO.replace("gnugo", "gnugo-3.7.10", 1)
"""The version that Gelly & Silver (2011) play, compiled from its public source."""

_EXPERTS = "priors", "expert_bonus", "expert_visits"


def strong_without_experts(size: int) -> dict:
    """The player `strong` of a board without a network, but for its expert bias, as it was until
    2026-11-30: fields of `Side`."""
    settings = settings_of("strong", size)
    return {name: value for name, value in settings.items() if name not in _EXPERTS}


TIMEOUT_S = 1800.0
"""A program's time for a move: long, because many run at once on few cores."""


@dataclasses.dataclass(frozen=True)
class Match:
    """A match and the scores expected of it, from 0 to 1."""

    player: Side
    games: int
    must: tuple[float, float] | None = None
    """The required range of the score; None: no requirement, the score is only measured."""
    aim: float | None = None
    paper: str = ""
    """The score in the paper."""
    opponent: Side = Side(command=GNUGO)  # noqa: RUF009 (frozen)
    size: int = 9
    komi: float = 7.0
    openings: int = 0
    """Random plies at the start of each pair of games; 0: no pairs."""

    @property
    def main_time(self) -> int | None:
        """Seconds of a game for the player's moves; None: it plays without a clock."""
        return self.player.main_time


@dataclasses.dataclass(frozen=True)
class MatchesConfig(ExperimentConfig):
    """Matches by name. Each is run by `gozero match` in a folder of its own; the same command
    resumes where it was stopped."""

    MATCHES: ClassVar[Mapping[str, Match]]

    only: tuple[str, ...] = setting()
    """Which matches to play."""

    games: int | None = setting(None, least=2, step=2, unset="as many as each match has")
    """Games of each match."""

    parallel: int = setting(64, least=1, unit="games")
    """Games played at once, each with its own process of the opponent, if that is a program; in
    matches with a clock at most one a core, which the two programs use in turn."""

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
    """On 9x9, on two cores with many games at once, about as in the recorded matches of up to
    10,000 simulations; beyond, it grows with their number. Moves and the cost of each grow with
    the board's points, so a game takes (size / 9)^4 times as long."""

    @property
    def estimate(self) -> float:
        """Minutes on two idle cores."""
        return sum(1 + self._games(name) * self._minutes_a_game(name) for name in self.only)

    def _games(self, name: str) -> int:
        return self.MATCHES[name].games if self.games is None else self.games

    def _minutes_a_game(self, name: str) -> float:
        match = self.MATCHES[name]
        if match.main_time is not None:
            return match.main_time / 60 / min(self.parallel, 2)
        more = max(1.0, match.player.simulations / 10_000)
        return self.MINUTES_A_GAME * more * (match.size / 9) ** 4

    def _games_at_once(self, match: Match) -> int:
        if match.main_time is None:
            return self.parallel
        return min(self.parallel, mode.cores())

    def match(self, name: str) -> MatchConfig:
        """The flags of a match; its player is the side that is measured."""
        match = self.MATCHES[name]
        return MatchConfig(
            player=match.player,
            opponent=match.opponent,
            games=self._games(name),
            parallel=self._games_at_once(match),
            size=match.size,
            komi=match.komi,
            openings=match.openings,
            timeout=TIMEOUT_S,
            seed=self.seed,
            out=self.out / name,
        )
