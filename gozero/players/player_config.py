"""What a search player is: its evaluator, its rule and its size, as flags. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Literal, get_args

MAX_SIMULATIONS = 131_070
"""The most visits that the search's sums hold; here too, so that checking it starts no JAX."""

EvaluatorName = Literal["network", "playout"]
RuleName = Literal["puct", "uct", "rave"]
PolicyName = Literal["uniform", "mogo"]


@dataclasses.dataclass(frozen=True)
class PlayerConfig:
    """A search player; `setups.make_setup` makes one of it. `check` says what cannot be."""

    evaluator: EvaluatorName = "playout"
    """What judges a position: a network, or playouts."""

    playouts: PolicyName | None = None
    """How playouts are played: all moves alike, or by MoGo's rules. Without it mogo for rave, and
    else uniform."""

    weights: pathlib.Path | None = None
    """The network's weights (.npz); without, random ones. They fix the board size."""

    search: RuleName = "puct"
    """The rule of the search: puct, uct (UCB1), or rave (MC-RAVE, for playouts)."""

    simulations: int = 400
    """Simulations of each move, rounded up to whole steps of leaves; with a limit of time at
    most so many, and a tree has room for them."""

    leaves: int = 1
    """Leaves of a tree that are judged together, at most as many as simulations: more are faster,
    and play a little worse."""

    exploration: float | None = None
    """The weight of a rule's bonus: c of puct (3 with playouts, 1.5 with a network), of uct (0.5)
    and of UCT-RAVE (0)."""

    rave_bias: float | None = None
    """Of rave: the bias that is assumed of all-moves-as-first values, for the schedule of least
    mean squared error, from 0 to 1; 0.1 without it."""

    rave_k: float | None = None
    """Of rave: another schedule, sqrt(k / (3 N + k)): one half after k simulations at a node."""

    def check(self, prefix: str = "") -> None:
        """Refuse what cannot be.

        Raises:
          ValueError: naming the field, `prefix` before it, what it was and what is allowed.
        """
        for wrong, message in self._complaints():
            if wrong:
                raise ValueError(prefix + message)

    def _complaints(self) -> list[tuple[bool, str]]:
        """(whether it applies, what it says), the first that matters first."""
        most, c, bias, k = MAX_SIMULATIONS, self.exploration, self.rave_bias, self.rave_k
        evaluators, rules = get_args(EvaluatorName), get_args(RuleName)
        policies = get_args(PolicyName)
        return [
            (
                self.evaluator not in evaluators,
                f"evaluator: {self.evaluator!r} is not {' or '.join(map(repr, evaluators))}",
            ),
            (
                self.weights is not None and self.evaluator != "network",
                "weights: playouts take none; use --evaluator network",
            ),
            (
                self.playouts is not None and self.evaluator != "playout",
                "playouts: a network plays none; use --evaluator playout",
            ),
            (
                self.playouts not in (None, *policies),
                f"playouts: {self.playouts!r} is not one of {', '.join(policies)}",
            ),
            (self.search not in rules, f"search: {self.search!r} is not one of {', '.join(rules)}"),
            (
                self.search == "rave" and self.evaluator != "playout",
                "search: rave asks who played where first, which only playouts say; use "
                "--evaluator playout, or puct",
            ),
            (
                not 1 <= self.simulations <= most,
                f"simulations: {self.simulations} is not from 1 to {most}",
            ),
            (
                not 1 <= self.leaves <= self.simulations,
                f"leaves: {self.leaves} is not from 1 to the {self.simulations} simulations",
            ),
            (self.num_simulations > most, f"simulations: {self.num_simulations} is above {most}"),
            (
                c is not None and not 0 <= c < 1e6,
                f"exploration: {c} is not a number from 0 to a million",
            ),
            (
                (bias is not None or k is not None) and self.search != "rave",
                "rave_bias, rave_k: only --search rave has a schedule",
            ),
            (bias is not None and k is not None, "rave_k: with rave_bias; give one schedule"),
            (bias is not None and not 0 <= bias <= 1, f"rave_bias: {bias} is not from 0 to 1"),
            (k is not None and not 0 < k < 1e9, f"rave_k: {k} is not above 0"),
        ]

    @property
    def policy(self) -> PolicyName:
        """How playouts are played."""
        return self.playouts or ("mogo" if self.search == "rave" else "uniform")

    @property
    def num_simulations(self) -> int:
        """Simulations in whole steps: 3,000 with 64 leaves are 3,008."""
        return -(-self.simulations // max(self.leaves, 1)) * self.leaves

    @property
    def text(self) -> str:
        """In a few words, for the records of a game: ``mogo playouts rave 3000``."""
        leaves = f" leaves {self.leaves}" if self.leaves > 1 else ""
        judge = self.evaluator if self.evaluator == "network" else f"{self.policy} playouts"
        return f"{judge} {self.search} {self.num_simulations}{leaves}"
