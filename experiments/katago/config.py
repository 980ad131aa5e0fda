"""Settings of the matches with KataGo's networks. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
from typing import ClassVar

from experiments.matches.config import Match, MatchesConfig
from gozero.apps.match.config import SIDES, MatchConfig, Side
from gozero.play.player_config import SymmetryMode
from gozero.runs.settings import setting

PEER = pathlib.Path("experiments/katago/peer.cfg")
"""KataGo's settings, relative to the checkout's root, where experiments are started."""


def _visits(number: int, symmetries: SymmetryMode | None = None) -> Side:
    """A player with `number` visits as KataGo counts them, including the root's own evaluation.

    One visit plays the move with the highest prior, and so does one simulation; it never resigns,
    as one evaluation is little to resign on. The score utility is set explicitly, though "on" is
    the default: the first games were played before it existed, and must not be resumed.
    """
    options = {"simulations": max(number - 1, 1), "symmetries": symmetries}
    if number == 1:
        return Side("network", **options)
    return Side("network", **options, score_utility="on", resign=-0.95)


_KATAGO = Side(command="katago")

REDUCTIONS = (
    "useGraphSearch=false,subtreeValueBiasFactor=0,useNoisePruning=false,valueWeightExponent=0,"
    "rootEndingBonusPoints=0,rootSymmetryPruning=false"
)
"""Disables the parts of KataGo's search that ours lacks."""

_ONE_VISIT = (
    "maxVisits=1,chosenMoveTemperature=0,chosenMoveTemperatureEarly=0,allowResignation=false"
)

VARIANTS = {
    Side(command="katago, reduced"): REDUCTIONS,
    Side(command="katago, one visit"): _ONE_VISIT,
    Side(command="katago, one visit, symmetries"): _ONE_VISIT + ",rootNumSymmetriesToSample=8",
}
"""KataGo with settings that override `PEER`'s."""

_REDUCED, _PRIOR, _MEAN = VARIANTS

MATCHES = {
    "gnugo-1": Match(_visits(1, "random"), 200, (0.93, 1.0)),
    "gnugo-1-symmetries": Match(_visits(1, "all"), 200, (0.93, 1.0)),
    "gnugo-16": Match(_visits(16), 200, (0.99, 1.0)),
    "katago-9x9": Match(_visits(200), 200, (0.45, 1.0), 0.5, opponent=_KATAGO, openings=4),
    "katago-13x13": Match(
        _visits(200), 200, (0.45, 1.0), 0.5, opponent=_KATAGO, openings=4, size=13
    ),
    "katago-reduced": Match(_REDUCED, 200, opponent=_KATAGO, openings=4),
    "katago-gnugo-1": Match(_PRIOR, 200),
    "katago-gnugo-1-symmetries": Match(_MEAN, 200),
}
"""The matches, named by the opponent and our visits or the board. `katago-reduced` is KataGo with
`REDUCTIONS` against KataGo without, on 9x9; in the last two KataGo takes our place against GNU Go,
with one visit, which also plays the move with the highest prior."""


@dataclasses.dataclass(frozen=True)
class KataGoConfig(MatchesConfig):
    """A KataGo network in gozero's search: against GNU Go 3.8 at level 10 with 1 and with 16
    visits, and against KataGo itself with the same network and 200 visits, pairs of random
    openings; KataGo against itself without what our search lacks, and against GNU Go with one
    visit. Area scoring, positional superko on both sides, dead stones played out."""

    MATCHES: ClassVar = MATCHES
    QUICK: ClassVar = {"only": ("gnugo-1",), "games": 4, "parallel": 4}
    MINUTES_A_GAME: ClassVar = 0.2

    only: tuple[str, ...] = setting(tuple(MATCHES))
    """Which matches to play."""

    weights: pathlib.Path | None = setting(None, unset="none; the matches require it")
    """KataGo's network, NAME.bin.gz."""

    katago: str = setting("katago")
    """KataGo's executable, for the matches with it."""

    out: pathlib.Path = setting(pathlib.Path("runs/katago"))
    """The folder of the matches, results.csv and results.svg."""

    EXAMPLES = (
        "python -m experiments.katago.run --weights NAME.bin.gz",
        "python -m experiments.katago.run --weights NAME.bin.gz --only katago-9x9 --games 40",
    )

    def match(self, name: str) -> MatchConfig:
        """The flags of a match."""
        match = super().match(name)
        sides = {side: self._side(getattr(match, side)) for side in SIDES}
        return dataclasses.replace(match, **sides)

    def _side(self, side: Side) -> Side:
        """The side with the network filled in, and KataGo's with its full command line."""
        if side.evaluator == "network":
            return dataclasses.replace(side, weights=self.weights)
        if side not in (_KATAGO, *VARIANTS):
            return side
        words = [self.katago, "gtp", "-model", str(self.weights), "-config", str(PEER)]
        words += ["-override-config", VARIANTS[side]] if side in VARIANTS else []
        return dataclasses.replace(side, command=shlex.join(words))
