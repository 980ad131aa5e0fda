"""What a search player is: its evaluator, its rule and its size, as flags. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Literal, get_args

MAX_SIMULATIONS = 131_070
"""The most visits that the search's sums hold; here too, so that checking it starts no JAX."""

EvaluatorName = Literal["network", "playout"]
RuleName = Literal["puct", "uct", "rave", "gumbel", "td"]
PolicyName = Literal["uniform", "mogo", "mm", "balanced"]
HeuristicName = Literal["even", "grandfather", "mogo", "shape"]

AMAF_VISITS = 50
"""M of a heuristic beside rave, without a flag: the best of the paper's."""

SHAPE_SIZES = (7, 9)
"""Boards whose local shapes come with the package; here too, so that checking it starts no JAX."""

LEARNT_POLICIES = ("mm", "balanced")
"""Playouts by strengths of moves' features."""

FILES = ("weights", "strengths", "shapes")
"""Flags that name what was learnt; evaluators say the SHA-256 of each, as weights_sha256."""


@dataclasses.dataclass(frozen=True)
class PlayerConfig:
    """A search player; `setups.make_setup` makes one of it. `check` says what cannot be."""

    evaluator: EvaluatorName = "playout"
    """What judges a position: a network, or playouts."""

    playouts: PolicyName | None = None
    """How playouts are played: all moves alike, by MoGo's rules, or in proportion to the strengths
    of moves' features, learnt by minorisation-maximisation or by balancing. Without it mogo for
    rave, and else uniform."""

    strengths: pathlib.Path | None = None
    """Strengths for mm or balanced playouts, a file of train.classical.mm or .balancing; without,
    those that come with the package."""

    nakade: bool = False
    """Whether MoGo's playouts play at vital points of eye spaces."""

    diversity: int = 0
    """Tries of MoGo's playouts to play where all is empty, 0 to 8."""

    weights: pathlib.Path | None = None
    """The network's weights, a file; without, random ones. They are of one board size: give it as
    --size."""

    search: RuleName = "puct"
    """The rule of the search: puct, uct (UCB1), rave (MC-RAVE, for playouts), gumbel (sequential
    halving at the root, without its noise; the stronger for a network of `python -m train`; it
    goes on from no search before: reuse is off), or td (temporal-difference search: no tree,
    but local shapes that learn before each move)."""

    simulations: int = 400
    """Simulations of each move, rounded up to whole steps of leaves; with a limit of time at
    most so many, and a tree has room for them."""

    leaves: int = 1
    """Leaves of a tree that are judged together, at most as many as simulations: more are faster,
    and play a little worse."""

    trees: int = 1
    """Trees of a position, which share its simulations and exchange what they find near their
    roots (root parallelisation); they go on from no search before, so not with reuse."""

    considered: int | None = None
    """Moves that the root of gumbel considers, at most; 16 without it. A network of `python -m
    train` plays as it was trained by its run's --max-considered."""

    exploration: float | None = None
    """The weight of a rule's bonus: c of puct (3 with playouts, 1.5 with a network), of uct (0.25)
    and of UCT-RAVE (0)."""

    rave_bias: float | None = None
    """Of rave: the bias that is assumed of all-moves-as-first values, for the schedule of least
    mean squared error, from 0 to 1; 0.01 without it."""

    rave_k: float | None = None
    """Of rave: another schedule, sqrt(k / (3 N + k)): one half after k simulations at a node."""

    first_play: float | None = None
    """Of uct and rave: what an action counts for, as a probability of winning, of which nothing is
    known; without it, it comes first."""

    heuristic: HeuristicName | None = None
    """What new nodes begin with: every move even, what its player knew of it two plies before, what
    MoGo's rules hold of it, or the value of local shapes (7x7, 9x9, or of --shapes)."""

    shapes: pathlib.Path | None = None
    """What local shapes are worth, a file of train.classical.td, for --heuristic shape and --search
    td; without, what comes with the package. They are of one board size."""

    heuristic_visits: int = 0
    """C: what a heuristic counts for, in simulations through a move."""

    heuristic_amaf_visits: int | None = None
    """M: what it counts for in all-moves-as-first simulations, of rave; without it 50, and 0 for
    another search."""

    heuristic_good_visits: int = 0
    """Beside a heuristic of rave: what the moves of MoGo's rules count for besides, in
    all-moves-as-first simulations that were won."""

    resign: float | None = None
    """Resign when the position and its best move are worth less than this, from -1 (lost) to 0
    (even): -0.95, say. Without, never."""

    def check(self, prefix: str = "") -> None:
        """Refuse what cannot be.

        Raises:
          ValueError: naming the field, `prefix` before it and before flags, what it was and what is
            allowed.
        """
        for wrong, message in self._complaints():
            if wrong:
                raise ValueError(prefix + message.replace("--", f"--{prefix}"))

    def check_size(self, size: int, prefix: str = "") -> None:
        """Refuse a board that nothing shipped is for; what a file is for is known when it is read.

        Raises:
          ValueError: as `check`.
        """
        if self._has_shapes and self.shapes is None and size not in SHAPE_SIZES:
            there = " and ".join(f"{n}x{n}" for n in SHAPE_SIZES)
            flag = "search: td" if self.search == "td" else "heuristic: shape"
            raise ValueError(
                f"{prefix}{flag} has no local shapes of {size}x{size}; those of {there} "
                f"come with the package, others with --{prefix}shapes"
            )

    @property
    def _has_shapes(self) -> bool:
        return self.search == "td" or self.heuristic == "shape"

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
            (
                self.strengths is not None and self.policy not in LEARNT_POLICIES,
                f"strengths: {self.policy} playouts have none; use --playouts mm or balanced",
            ),
            (self.search not in rules, f"search: {self.search!r} is not one of {', '.join(rules)}"),
            *self._complaints_of_gumbel(),
            *self._complaints_of_td(),
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
                not 1 <= self.trees <= self.simulations,
                f"trees: {self.trees} is not from 1 to the {self.simulations} simulations",
            ),
            (
                self.trees > 1 and getattr(self, "reuse", False),
                f"trees: {self.trees} with reuse; use --no-reuse, or one tree",
            ),
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
            (
                self.resign is not None and not -1 <= self.resign < 0,
                f"resign: {self.resign} is not a value from -1 to below 0, as -0.95",
            ),
            *self._complaints_of_heuristics(),
        ]

    def _complaints_of_gumbel(self) -> list[tuple[bool, str]]:
        """Its root counts the visits of one search, one after the other."""
        gumbel = self.search == "gumbel"
        return [
            (
                gumbel and (self.leaves > 1 or self.trees > 1),
                "search: gumbel goes with one tree and one leaf a step; use --leaves 1",
            ),
            (
                gumbel and getattr(self, "reuse", False),
                "search: gumbel goes on from no search before; use --no-reuse",
            ),
            (
                self.considered is not None and not gumbel,
                "considered: only the root of --search gumbel considers some moves",
            ),
            (
                self.considered is not None and self.considered < 1,
                f"considered: {self.considered} is not at least 1",
            ),
            (
                gumbel and (self.exploration is not None or self.heuristic is not None),
                "exploration, heuristic: not of --search gumbel",
            ),
        ]

    def _complaints_of_td(self) -> list[tuple[bool, str]]:
        """It has neither a tree nor anything beside it that judges."""
        is_td = self.search == "td"
        other = PlayerConfig(
            search="td", simulations=self.simulations, shapes=self.shapes, resign=self.resign
        )
        names = [field.name for field in dataclasses.fields(PlayerConfig)]
        odd = [name for name in names if getattr(self, name) != getattr(other, name)]
        return [
            (is_td and bool(odd), f"{', '.join(odd)}: not of --search td"),
        ]

    def _complaints_of_heuristics(self) -> list[tuple[bool, str]]:
        names, first_play = get_args(HeuristicName), self.first_play
        visits, amaf_visits = self.confidences
        room = max(MAX_SIMULATIONS - self.num_simulations, 0)
        return [
            (
                (self.nakade or self.diversity != 0) and self.policy != "mogo",
                "nakade, diversity: only MoGo's playouts have them; use --playouts mogo",
            ),
            (not 0 <= self.diversity <= 8, f"diversity: {self.diversity} is not from 0 to 8"),
            (
                first_play is not None and self.search not in ("uct", "rave"),
                "first_play: of --search uct or rave",
            ),
            (
                first_play is not None and not 0 <= first_play < 1e6,
                f"first_play: {first_play} is not a number from 0 to a million",
            ),
            (
                self.heuristic not in (None, *names),
                f"heuristic: {self.heuristic!r} is not one of {', '.join(names)}",
            ),
            (
                self.shapes is not None and not self._has_shapes,
                "shapes: nothing is of them; use --heuristic shape, or --search td",
            ),
            (
                self.heuristic is None
                and (self.heuristic_visits, self.heuristic_amaf_visits) != (0, None),
                "heuristic_visits, heuristic_amaf_visits: without --heuristic",
            ),
            *(
                (
                    not 0 <= count <= room,
                    f"{name}: {count} is not from 0 to {room}, the {MAX_SIMULATIONS} that sums "
                    "hold less the others and the simulations",
                )
                for name, count, room in (
                    ("heuristic_visits", visits, room),
                    ("heuristic_amaf_visits", amaf_visits, room - self.heuristic_good_visits),
                    ("heuristic_good_visits", self.heuristic_good_visits, room),
                )
            ),
            (
                amaf_visits != 0 and self.search != "rave",
                "heuristic_amaf_visits: only --search rave has such values; use heuristic_visits",
            ),
            (
                self.heuristic_good_visits != 0
                and (amaf_visits == 0 or self.heuristic in (None, "grandfather")),
                "heuristic_good_visits: beside --heuristic even, mogo or shape of --search rave",
            ),
            (
                self.heuristic is not None and visits == amaf_visits == 0,
                "heuristic: counts for nothing; give --heuristic-visits",
            ),
            (
                self.heuristic == "grandfather" and (self.leaves > 1 or self.trees > 1),
                "heuristic: grandfather goes with one tree and one leaf a step; use --leaves 1",
            ),
        ]

    @property
    def confidences(self) -> tuple[int, int]:
        """(C, M) of the heuristic."""
        given = self.heuristic_amaf_visits
        default = AMAF_VISITS if self.heuristic is not None and self.search == "rave" else 0
        return self.heuristic_visits, default if given is None else given

    @property
    def policy(self) -> PolicyName:
        """How playouts are played."""
        return self.playouts or ("mogo" if self.search == "rave" else "uniform")

    @property
    def num_simulations(self) -> int:
        """Simulations in whole steps of all trees: 3,000 with 64 leaves are 3,008."""
        step = max(self.leaves * self.trees, 1)
        return -(-self.simulations // step) * step

    @property
    def text(self) -> str:
        """In a few words, for the records of a game: ``mogo playouts rave 3000``."""
        if self.search == "td":
            return f"local shapes td {self.simulations}"
        leaves = f" leaves {self.leaves}" if self.leaves > 1 else ""
        leaves += f" trees {self.trees}" if self.trees > 1 else ""
        judge = self.evaluator if self.evaluator == "network" else f"{self.policy} playouts"
        beside = "" if self.heuristic is None else f" {self.heuristic} heuristic"
        leaves += "" if self.considered is None else f" considered {self.considered}"
        return f"{judge} {self.search}{beside} {self.num_simulations}{leaves}"
