"""Settings of the matches against GNU Go. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.matches.config import Match, MatchesConfig
from gozero.apps.match.config import Side
from gozero.play.players import settings_of
from gozero.runs.settings import setting


def _ours(simulations: int = 3000, **more) -> Side:
    flags = {"search": "rave", "leaves": 2, "rave_bias": 0.01, "nakade": True}
    flags |= {"reuse": True, "resign": -0.95} | more
    return Side(simulations=simulations, **flags)


_UCT = _ours(
    search="uct", playouts="mogo", leaves=1, exploration=0.25, first_play=1.0, rave_bias=None
)
_HEURISTIC = {"heuristic": "shape", "heuristic_amaf_visits": 50, "heuristic_good_visits": 12}

_LITERAL = Side(**settings_of("literal", 9), resign=-0.95)
"""Algorithm 2 as the paper prints it."""
_PLAIN = {"leaves": 1, "nakade": False, "reuse": False}
_DEVIATIONS = {
    "first-action": {"first_action": True},
    "same-colour": {"rave_colours": "same"},
    "legal": {"rave_legal": True},
    "eval": {"final_move": "eval"},
}
"""What the letter has otherwise than the default."""

_SMALL_K = {
    "small-k": {},
    "small-k-first-action": {"first_action": True},
    "small-k-exploration": {"exploration": 0.1},
    "small-k-exploration-0.25": {"exploration": 0.25},
    "small-k-reuse": {"exploration": 0.1, "reuse": True},
    "small-k-initial-0.5": {"rave_initial": 0.5},
    "small-k-initial-0.6": {"rave_initial": 0.6, "exploration": 0.05},
    "small-k-initial-1.1": {"rave_initial": 1.1},
    "small-k-grandfather": {
        "heuristic": "grandfather",
        "heuristic_visits": 1,
        "exploration": 0.05,
    },
}
"""What might let k = 1 win as in Figure 5."""
_AS_THERE = {"leaves": 1, "reuse": False, "resign": -0.9}


def _of_small_k(**flags) -> Match:
    player = _ours(**(_AS_THERE | {"playouts": "mogo", "rave_bias": None, "rave_k": 1.0} | flags))
    return Match(player, 40, opponent=_ours(**_AS_THERE, playouts="mogo"), openings=4)


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
        openings=2,
    ),
    "literal": Match(_LITERAL, 200, opponent=_ours(**_PLAIN), openings=4),
} | {
    f"literal-{name}": Match(
        _ours(1000, **_PLAIN, **flags), 100, opponent=_ours(1000, **_PLAIN), openings=4
    )
    for name, flags in _DEVIATIONS.items()
}
MATCHES |= {name: _of_small_k(**flags) for name, flags in _SMALL_K.items()}
MATCHES["small-k-uct"] = _of_small_k(search="uct", rave_k=None, exploration=0.25, first_play=1.0)
"""By name. Ours against ours are `playouts`, MoGo's against uniform ones, and the paper's algorithm
to the letter, `literal`, and parts of it, against what is played by default. The paper is Gelly &
Silver (2011), who have GNU Go 3.7.10."""


@dataclasses.dataclass(frozen=True)
class AgainstGnugoConfig(MatchesConfig):
    """Our searches against GNU Go 3.8 at level 10, 9x9, komi 7, area scoring, positional superko on
    both sides, dead stones played out. Each match is one of `gozero match` in a folder of its own;
    the same command goes on where it was stopped."""

    MATCHES: ClassVar = MATCHES
    QUICK: ClassVar = {"only": ("playouts",), "games": 4, "parallel": 4}

    only: tuple[str, ...] = setting(tuple(MATCHES))
    """Which of the matches."""

    out: pathlib.Path = setting(pathlib.Path("runs/against_gnugo"))
    """The folder of the matches, results.csv and results.svg."""

    EXAMPLES = (
        "python -m experiments.against_gnugo.run",
        "python -m experiments.against_gnugo.run --games 20 --parallel 8",
    )
