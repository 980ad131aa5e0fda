"""Settings of the matches against GNU Go. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib

from gozero.apps.flags import check_seed
from gozero.apps.match_config import MatchConfig, Side

GNUGO = (
    "gnugo --mode gtp --quiet --level 10 --chinese-rules --positional-superko "
    "--play-out-aftermath --capture-all-dead --seed {game}"
)
_GNU_GO = Side(command=GNUGO)


@dataclasses.dataclass(frozen=True)
class Match:
    """One of the matches, and what it is to show: scores from 0 to 1."""

    player: Side
    games: int
    must: tuple[float, float]
    aim: float | None = None
    paper: str = ""
    """What Gelly & Silver (2011) have, against GNU Go 3.7.10."""
    opponent: Side = _GNU_GO


def _ours(simulations: int = 3000, **more) -> Side:
    flags = {"search": "rave", "leaves": 2, "rave_bias": 0.01, "nakade": True}
    flags |= {"reuse": True, "resign": -0.95} | more
    return Side(simulations=simulations, **flags)


_UCT = _ours(
    search="uct", playouts="mogo", nakade=False, exploration=0.25, first_play=1.0, rave_bias=None
)
_HEURISTIC = {"heuristic": "shape", "heuristic_amaf_visits": 50, "heuristic_good_visits": 12}

MATCHES = {
    "uct": Match(_UCT, 200, (0.12, 0.40), None, "24%"),
    "rave": Match(_ours(), 200, (0.50, 1.0), 0.65, "50-60%"),
    "heuristic": Match(_ours(**_HEURISTIC), 400, (0.65, 1.0), 0.80, "69%"),
    "heuristic-10000": Match(_ours(10_000, **_HEURISTIC), 200, (0.75, 1.0), 0.90, "82%"),
    "playouts": Match(
        _ours(400, nakade=False),
        200,
        (0.70, 1.0),
        0.85,
        opponent=_ours(400, playouts="uniform", nakade=False),
    ),
}
"""By name. `playouts` is ours against ours: MoGo's playouts against uniform ones."""


@dataclasses.dataclass(frozen=True)
class AgainstGnugoConfig:
    """Our searches against GNU Go 3.8 at level 10, 9x9, komi 7, area scoring, positional superko on
    both sides, dead stones played out. Each match is one of `gozero match` in a folder of its own;
    the same command goes on where it was stopped."""

    only: tuple[str, ...] = tuple(MATCHES)
    """Which of the matches."""

    games: int | None = None
    """Of each match; without it what each has, 200 or 400."""

    parallel: int = 64
    """Games at once, each with a process of GNU Go."""

    seed: int = 1
    """Of our searches."""

    out: pathlib.Path = pathlib.Path("runs/against_gnugo")
    """The folder of the matches, results.csv and results.svg."""

    def __post_init__(self):
        check_seed(self.seed)
        for name in self.only:
            if name not in MATCHES:
                raise ValueError(f"only: {name!r} is not one of {', '.join(MATCHES)}")
        if self.games is not None and (self.games < 2 or self.games % 2):
            raise ValueError(f"games: {self.games} is not an even number of at least 2")
        if self.parallel < 1:
            raise ValueError(f"parallel: {self.parallel} is not at least 1")

    def match(self, name: str) -> MatchConfig:
        """The flags of a match; the side of ours that is measured is its player."""
        match = MATCHES[name]
        ours = match.opponent.command is None
        return MatchConfig(
            player=match.player,
            opponent=match.opponent,
            games=match.games if self.games is None else self.games,
            parallel=self.parallel,
            openings=2 if ours else 0,
            seed=self.seed,
            out=self.out / name,
        )
