"""The parts of a sweep: who plays, at which point of which curve."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from gozero.go.rules import Rules
from gozero.play.arena import Player
from gozero.play.player import search_player
from gozero.play.player_config import TREELESS, PlayerConfig
from gozero.play.setups import Setup, make_player, make_setup


@dataclasses.dataclass(frozen=True)
class Change:
    """What no flag of a player says."""

    about: str
    """For the records: two changes that differ must read differently."""

    apply: Callable[[Rules, Setup], Setup]
    """What it does to what the flags have made."""


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A player of ours."""

    flags: PlayerConfig
    reuse: bool = False
    """Whether a search goes on from what the last one found."""

    change: Change | None = None

    def setup(self, rules: Rules) -> Setup:
        """Its evaluator and its search.

        Raises:
          ValueError: flags that do not go together.
        """
        setup = make_setup(rules, self.flags)
        return setup if self.change is None else self.change.apply(rules, setup)

    @property
    def has_tree(self) -> bool:
        """Whether it is a search with a `setup`."""
        return self.flags.search not in TREELESS

    def player(self, rules: Rules) -> Player:
        """As the arena has it; players made apart are compiled apart."""
        if not self.has_tree:
            return make_player(rules, self.flags, reuse=self.reuse).player
        setup = self.setup(rules)
        return search_player(
            rules,
            setup.evaluator,
            setup.search,
            reuse_subtree=self.reuse,
            resign=setup.resign,
        )

    @property
    def text(self) -> str:
        """In a few words."""
        said = {k: v for k, v in self._asked.items() if k not in _IN_TEXT}
        number = lambda value: f"{value:g}" if isinstance(value, int | float) else str(value)
        words = [
            _CALLED.get(name, name) + ("" if value is True else f" {number(value)}")
            for name, value in said.items()
        ]
        words += ["reuse"] if self.reuse else []
        words += [self.change.about] if self.change else []
        return ", ".join([self.flags.text, *words])

    def record(self, rules: Rules) -> dict[str, str]:
        """All that it is, as plain data: the SHA-256 of what was learnt, too."""
        about = {} if self.change is None else {"change": self.change.about}
        told = (
            self.setup(rules).evaluator.about
            if self.has_tree
            else make_player(rules, self.flags).about
        )
        about |= {k: v for k, v in told.items() if k.endswith("_sha256")}
        return {k: str(v) for k, v in (self._asked | {"reuse": self.reuse} | about).items()}

    @property
    def _asked(self) -> dict[str, Any]:
        """The flags that are not their defaults."""
        fields = {field.name: field.default for field in dataclasses.fields(self.flags)}
        return {k: v for k, v in vars(self.flags).items() if v != fields[k]}


_IN_TEXT = {"evaluator", "playouts", "search", "simulations", "leaves", "heuristic"}
_CALLED = {
    "rave_bias": "b",
    "rave_k": "k",
    "exploration": "c",
    "heuristic_visits": "C",
    "heuristic_amaf_visits": "M",
}


@dataclasses.dataclass(frozen=True)
class Point:
    """A match, and where its score stands in the picture."""

    series: str
    """The curve."""

    x: float | None
    """Where on it; None for a level that goes right across."""

    label: str
    """What it is called; with the series its name, which no other point of the sweep has."""

    player: Contestant
    """Whose score it is."""

    opponent: Contestant
    """Against whom."""

    anchor: bool = False
    """Whether the player also plays against a program, if one is given."""

    @property
    def name(self) -> str:
        return f"{self.series}, {self.label}"

    def record(self, rules: Rules) -> dict[str, str]:
        """What has to be the same for games to count for the same point."""
        player = {f"player.{k}": v for k, v in self.player.record(rules).items()}
        return player | {f"opponent.{k}": v for k, v in self.opponent.record(rules).items()}


Scale = Literal["linear", "log", "names"]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """An experiment: its points, and how they are drawn.

    Raises:
      ValueError: no points, or two of one name.
    """

    name: str
    points: tuple[Point, ...]
    title: str
    x_label: str
    x_scale: Scale = "linear"
    """names: the labels stand below, x says in which order."""

    chained: bool = False
    """Each point's opponent is the point before it in its series: the picture adds their Elo up."""

    def __post_init__(self):
        names = [point.name for point in self.points]
        twice = next((name for name in names if names.count(name) > 1), None)
        if not names:
            raise ValueError("points: there are none")
        if twice is not None:
            raise ValueError(f"points: two are called {twice!r}")

    def resigning(self, below: float | None) -> Sweep:
        """The same, with players that resign below a value; None: none does."""

        def change(one: Contestant) -> Contestant:
            return dataclasses.replace(one, flags=dataclasses.replace(one.flags, resign=below))

        points = (
            dataclasses.replace(p, player=change(p.player), opponent=change(p.opponent))
            for p in self.points
        )
        return dataclasses.replace(self, points=tuple(points))
