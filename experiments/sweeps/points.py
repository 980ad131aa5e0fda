"""The parts of a sweep: the players, and the points and curves that they belong to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

from gozero.go.rules import Rules
from gozero.play.arena import Player
from gozero.play.player_config import TREELESS, PlayerConfig
from gozero.play.setups import Setup, make_player, make_setup, player_of
from gozero.runs.settings import flag_of, is_excluded


@dataclasses.dataclass(frozen=True)
class Change:
    """A change to a player that its flags cannot express."""

    about: str
    """Its description in the records; different changes need different descriptions."""

    apply: Callable[[Rules, Setup], Setup]
    """Maps the setup made from the flags to the changed one."""


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One of our players."""

    flags: PlayerConfig
    reuse: bool = False
    """Whether a search starts from the subtree of the last one."""

    change: Change | None = None

    def setup(self, rules: Rules) -> Setup:
        """Its evaluator and its search.

        Raises:
          ValueError: if the flags are inconsistent.
        """
        setup = make_setup(rules, self.flags)
        return setup if self.change is None else self.change.apply(rules, setup)

    def with_flags(self, given: Mapping[str, Any], prefix: str = "") -> Contestant:
        """The same player with further flags, without those that its search does not have.

        Raises:
          ValueError: if the flags conflict, or it has a `change`, with which they might not agree.
        """
        if not given:
            return self
        if self.change is not None:
            raise ValueError(
                f"{flag_of(next(iter(given)), prefix)}: {self.change.about!r} is more than flags "
                "and takes no others; leave that player out"
            )
        own = {k: v for k, v in given.items() if not is_excluded(self.flags, k, by="search")}
        flags = dataclasses.replace(self.flags, **own)
        flags.check(prefix)
        return dataclasses.replace(self, flags=flags)

    @property
    def has_tree(self) -> bool:
        """Whether it searches a tree, and so has a `setup`."""
        return self.flags.search not in TREELESS

    def player(self, rules: Rules) -> Player:
        """The player for the arena. Each call makes a new one, which is compiled separately."""
        if not self.has_tree:
            return make_player(rules, self.flags, reuse=self.reuse).player
        return player_of(rules, self.setup(rules), self.reuse)

    @property
    def text(self) -> str:
        """A short description."""
        shown = {k: v for k, v in self._changed_flags.items() if k not in _IN_TEXT}
        number = lambda value: f"{value:g}" if isinstance(value, int | float) else str(value)
        words = [
            _SYMBOLS.get(name, name) + ("" if value is True else f" {number(value)}")
            for name, value in shown.items()
        ]
        words += ["reuse"] if self.reuse else []
        words += [self.change.about] if self.change else []
        return ", ".join([self.flags.text, *words])

    def record(self, rules: Rules) -> dict[str, str]:
        """Everything that defines it, as plain data, including the SHA-256 of learnt weights."""
        about = {} if self.change is None else {"change": self.change.about}
        evaluator_facts = (
            self.setup(rules).evaluator.about
            if self.has_tree
            else make_player(rules, self.flags).about
        )
        recorded = lambda name: name.endswith("_sha256") or name == "learnt_bias"
        about |= {k: v for k, v in evaluator_facts.items() if recorded(k)}
        return {k: str(v) for k, v in (self._changed_flags | {"reuse": self.reuse} | about).items()}

    @property
    def _changed_flags(self) -> dict[str, Any]:
        """The flags that differ from their defaults."""
        fields = {field.name: field.default for field in dataclasses.fields(self.flags)}
        return {k: v for k, v in vars(self.flags).items() if v != fields[k]}


_OF_EXPERIMENT = {"evaluator", "search", "simulations", "resign"}
"""Flags that every experiment determines, also where it leaves them at their defaults."""

_IN_TEXT = {"evaluator", "playouts", "search", "simulations", "leaves", "heuristic"}
_SYMBOLS = {
    "rave_bias": "b",
    "rave_k": "k",
    "exploration": "c",
    "heuristic_visits": "C",
    "heuristic_amaf_visits": "M",
}


@dataclasses.dataclass(frozen=True)
class Point:
    """A match, and the place of its score in the figure."""

    series: str
    """The curve."""

    x: float | None
    """Its position on the x axis; None: a horizontal line across the figure."""

    label: str
    """Its label; series and label together are its name, unique within the sweep."""

    player: Contestant
    """The player whose score is measured."""

    opponent: Contestant
    """Its opponent."""

    anchor: bool = False
    """Whether the player also plays against the GTP program, if one is given."""

    @property
    def name(self) -> str:
        return f"{self.series}, {self.label}"

    def record(self, rules: Rules) -> dict[str, str]:
        """The settings that must be equal for games to count for the same point."""
        player = {f"player.{k}": v for k, v in self.player.record(rules).items()}
        return player | {f"opponent.{k}": v for k, v in self.opponent.record(rules).items()}


@dataclasses.dataclass(frozen=True)
class Rung:
    """A player of a tournament."""

    series: str
    """The curve."""

    x: float
    """Its position on the x axis."""

    player: Contestant


Scale = Literal["linear", "log", "names"]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """An experiment: its points, and how they are drawn.

    Raises:
      ValueError: if there are no points, or two have the same name.
    """

    name: str
    points: tuple[Point, ...]
    title: str
    x_label: str
    x_scale: Scale = "linear"
    """With "names" the x axis shows the points' labels, in the order of their x."""

    chained: bool = False
    """Whether each point's opponent is the previous point of its series; the figure then shows the
    cumulative Elo."""

    ladder: tuple[Rung, ...] = ()
    """The players of a tournament, whose matches are the points: they are rated together, and the
    figure shows their Elo. Empty: no tournament."""

    def __post_init__(self):
        names = [point.name for point in self.points]
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if not names:
            raise ValueError("points: the sweep has none")
        if duplicate is not None:
            raise ValueError(f"points: two have the name {duplicate!r}")

    def with_flags(self, player: Mapping[str, Any], opponent: Mapping[str, Any]) -> Sweep:
        """The same sweep with further flags of the points' players and of their opponents.

        Raises:
          ValueError: if the experiment sets one of them itself, no player has it, or as
            `Contestant.with_flags`.
        """
        if self.ladder and (player or opponent):
            side, given = ("player", player) if player else ("opponent", opponent)
            raise ValueError(
                f"{flag_of(next(iter(given)), f'{side}.')}: not in a tournament, whose players "
                "are on both sides"
            )
        for side, given in (("player", player), ("opponent", opponent)):
            every = [getattr(point, side).flags for point in self.points]
            for name in given:
                default = getattr(PlayerConfig, name)
                flag = flag_of(name, f"{side}.")
                if name in _OF_EXPERIMENT or any(getattr(one, name) != default for one in every):
                    raise ValueError(f"{flag}: the experiment's own flags determine this one")
                if all(is_excluded(one, name, by="search") for one in every):
                    raise ValueError(f"{flag}: no search of this experiment has it")
        points = (
            dataclasses.replace(
                point,
                player=point.player.with_flags(player, "player."),
                opponent=point.opponent.with_flags(opponent, "opponent."),
            )
            for point in self.points
        )
        return dataclasses.replace(self, points=tuple(points))

    def resigning(self, below: float | None) -> Sweep:
        """The same sweep with players that resign below a value; None: they never resign."""

        def change(one: Contestant) -> Contestant:
            return dataclasses.replace(one, flags=dataclasses.replace(one.flags, resign=below))

        points = (
            dataclasses.replace(p, player=change(p.player), opponent=change(p.opponent))
            for p in self.points
        )
        ladder = (dataclasses.replace(rung, player=change(rung.player)) for rung in self.ladder)
        return dataclasses.replace(self, points=tuple(points), ladder=tuple(ladder))
