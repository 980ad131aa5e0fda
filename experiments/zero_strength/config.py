"""Settings of the matches of trained networks. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.matches.config import GNUGO_0, Match, MatchesConfig, strong_without_experts
from gozero.apps.match.config import SIDES, MatchConfig, Side
from gozero.runs.settings import setting

RESULTS = pathlib.Path("experiments/zero_strength/results")
"""Relative to the checkout's root, where experiments are started, so that the path in a match's
record is valid on other machines."""

_RAVE = Side(
    search="rave",
    simulations=3000,
    leaves=2,
    rave_bias=0.01,
    nakade=True,
    heuristic="shape",
    heuristic_amaf_visits=50,
    heuristic_good_visits=12,
    reuse=True,
    resign=-0.95,
)


_RAVE_13X13 = Side(**strong_without_experts(13), reuse=True, resign=-0.95)
"""There are no local shapes of 13x13."""

FIRST_9X9 = RESULTS / "9x9-first.safetensors"
"""The network with which that of 9x9 was averaged; older matches were played with it."""

RESIGN_9X9 = RESULTS / "9x9-resign.safetensors"
"""A network of 9x9 trained by one command, with resignation."""


def _network(size: int, weights: pathlib.Path | None = None) -> Side:
    return Side(
        evaluator="network",
        weights=weights or RESULTS / f"{size}x{size}.safetensors",
        search="katago",
        symmetries="random",
        simulations=200,
        reuse=True,
        resign=-0.95,
    )


def _averaged(player: Side) -> Side:
    """The player with each evaluation averaged over all eight symmetries."""
    return dataclasses.replace(player, symmetries="all")


_7X7 = {"size": 7, "komi": 9.0, "openings": 2}
_9X9 = {"size": 9, "komi": 7.0, "openings": 2}
_13X13 = {"size": 13, "komi": 7.0, "openings": 2}

MATCHES = {
    "7x7-rave": Match(_network(7), 200, (0.60, 1.0), opponent=_RAVE, **_7X7),
    "7x7-gnugo": Match(_network(7), 200, (0.97, 1.0), **_7X7),
    "7x7-gnugo-all": Match(_averaged(_network(7)), 200, (0.97, 1.0), **_7X7),
    "7x7-gnugo-1600": Match(dataclasses.replace(_network(7), simulations=1600), 200, **_7X7),
    "7x7-gnugo-empty": Match(_network(7), 200, (0.97, 1.0), size=7, komi=9.0),
    "7x7-openings": Match(_network(7), 200, opponent=_network(7), **_7X7),
    "9x9-rave": Match(_network(9), 400, (0.90, 1.0), opponent=_RAVE, **_9X9),
    "9x9-rave-all": Match(_averaged(_network(9)), 400, (0.90, 1.0), opponent=_RAVE, **_9X9),
    "9x9-gnugo": Match(_network(9), 400, (0.90, 1.0), 0.95, **_9X9),
    "9x9-gnugo-all": Match(_averaged(_network(9)), 400, (0.90, 1.0), 0.95, **_9X9),
    "9x9-bf16": Match(
        dataclasses.replace(_network(9, FIRST_9X9), dtype="bfloat16"),
        400,
        opponent=_network(9, FIRST_9X9),
        **_9X9,
    ),
    "9x9-resign-rave": Match(_network(9, RESIGN_9X9), 400, (0.90, 1.0), opponent=_RAVE, **_9X9),
    "9x9-resign-gnugo": Match(_network(9, RESIGN_9X9), 400, (0.90, 1.0), 0.95, **_9X9),
    "9x9-resign-mean": Match(_network(9, RESIGN_9X9), 400, opponent=_network(9), **_9X9),
    "13x13-rave": Match(_network(13), 50, opponent=_RAVE_13X13, **_13X13),
    "13x13-gnugo-0": Match(
        _network(13), 200, (0.50, 1.0), opponent=Side(command=GNUGO_0), **_13X13
    ),
    "13x13-gnugo": Match(_network(13), 100, **_13X13),
}
"""The matches, named by board and opponent; in those ending in -all the network's evaluations are
averaged over all symmetries; in those with -resign another network plays, in 9x9-resign-mean
against that of the other matches. Three of 7x7 ask what is missing there: 1,600 simulations in
place of 200, games from the empty board, and the openings that White wins with the same player on
both sides."""


@dataclasses.dataclass(frozen=True)
class ZeroStrengthConfig(MatchesConfig):
    """Networks trained by self-play, with 200 or 1,600 simulations per move, against MC-RAVE with a
    heuristic and 3,000 simulations, and against GNU Go 3.8 at level 10, on 13x13 also at level 0;
    pairs of random openings, area scoring, positional superko on both sides, dead stones
    played out."""

    MATCHES: ClassVar = MATCHES
    QUICK: ClassVar = {"only": ("7x7-rave",), "games": 4, "parallel": 4}

    only: tuple[str, ...] = setting(tuple(MATCHES))
    """Which matches to play."""

    weights: pathlib.Path | None = setting(None, unset="those in the folder results")
    """Your own network, from `python -m train`."""

    out: pathlib.Path = setting(pathlib.Path("runs/zero_strength"))
    """The folder of the matches, results.csv and results.svg."""

    EXAMPLES = (
        "python -m experiments.zero_strength.run",
        "python -m experiments.zero_strength.run --weights NET.safetensors --games 20",
    )

    def match(self, name: str) -> MatchConfig:
        """The flags of a match."""
        match = super().match(name)
        if self.weights is None:
            return match
        sides = {side: getattr(match, side) for side in SIDES}
        networks = {
            name: dataclasses.replace(side, weights=self.weights)
            for name, side in sides.items()
            if side.evaluator == "network"
        }
        return dataclasses.replace(match, **networks)
