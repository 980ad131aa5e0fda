"""The settings of a search and of its options."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from gozero.runs.settings import (
    ABOVE_0,
    AT_LEAST_0,
    COUNT,
    SHARE,
    Conflict,
    Range,
    check_choice,
    check_ranges,
    first_conflict,
)
from gozero.search.edges import Rule, SelectionRule, as_rule
from gozero.search.game import Trail
from gozero.search.rules.operators import Operator
from gozero.search.rules.puct import Puct
from gozero.search.score import ScoreUtility
from gozero.search.values import CONFIDENCE, MAX_VISITS, MOST_VISITS

_OPTIONAL_COUNT = COUNT._replace(optional=True)


@dataclasses.dataclass(frozen=True)
class Transpositions:
    """How evaluations are shared.

    Attributes:
      key: ``(context, position, trail) -> u32[2]``; equal keys share an evaluation. None: a hash
        of the observation, which is all that the evaluator sees.
      rounds: the most simulations, for each leaf of a step, that a tree makes between two calls of
        the evaluator, while another tree waits for the second. With 1 the evaluator is called for
        every simulation, and shared evaluations make fewer lanes of the call needed, not fewer
        calls.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    key: Callable[[Any, Any, Trail], jax.Array] | None = None
    rounds: int = 8

    def __post_init__(self):
        if self.key is not None and not callable(self.key):
            raise ValueError(f"key: {self.key!r} is not a function of a position")
        check_ranges(self, rounds=COUNT)


@dataclasses.dataclass(frozen=True)
class Grandfather:
    """What the value of an action at the grandfather counts for at a new node.

    The value is the mean of the simulations through the action there, when the node is made; of an
    action that had none, its all-moves-as-first value there, which may itself have begun with a
    heuristic's. Of an action without either nothing is known. What the evaluator's heuristic says
    of the actions counts beside it.

    Attributes:
      visits: C, beside the simulations through the action; 0 for none.
      amaf_visits: M, beside those that played it later; 0 for none.

    Raises:
      ValueError: a number that is negative or not whole; both 0.
    """

    visits: int = 0
    amaf_visits: int = 0

    def __post_init__(self):
        check_ranges(self, visits=CONFIDENCE, amaf_visits=CONFIDENCE)
        if self.visits == self.amaf_visits == 0:
            raise ValueError("visits, amaf_visits: both 0; then the grandfather counts for nothing")


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """How many trees a game has, and when they exchange what.

    Attributes:
      trees: K.
      every: simulations of each tree between two exchanges; None: roots are merged in the end, and
        nothing is exchanged before.
      depth: nodes that are exchanged lie so many actions below the root at most.
      share: ... and have this share of the visits that all roots have together, above 0. (By MoGo:
        depth 3, share 0.05.)

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    trees: int = 8
    every: int | None = 50
    depth: int = 3
    share: float = 0.05

    def __post_init__(self):
        check_ranges(self, trees=COUNT, every=_OPTIONAL_COUNT, depth=Range(0, whole=True))
        check_ranges(self, share=Range(above=0, most=1))

    def copies(self, x: Any) -> Any:
        """A pytree with a leading axis [B] -> [B K]: each as often as it has trees."""
        return jax.tree.map(lambda x: jnp.repeat(x, self.trees, axis=0), x)

    def num_places(self, capacity: int) -> int:
        """S: the most places of a game that are exchanged at a time.

        The visits of the nodes of one level are no more than those of the roots.
        """
        return 1 + min(self.depth * int(1 / self.share), self.trees * (capacity - 1))


Colours = Literal["either", "same"]


@dataclasses.dataclass(frozen=True)
class Amaf:
    """Which later plays of an action count.

    Attributes:
      first: "either": those where the player was the first of the two to play it, as the paper's
        text has it; "same": those where the player has played it at all, as its Algorithm 2. This
        is for the path: what the evaluator's `first_play` says of the playout has to be of the
        same kind, as that of `playout_evaluator(first_plays=...)`.
      ancestor: visits that a node needs to go by its own statistics. One with fewer goes by those
        of its nearest ancestor with the same player to move that has as many, if there is one in
        the tree; a heuristic's counts of the node's own actions are then not seen. None: by its
        own always.
      legal_only: an action that is illegal at a node, as that of a point which is taken there and
        free later, is not counted there, as section 4.3 has it. It makes a difference where
        `ancestor` looks, and in what is told of a node; nowhere is an illegal action chosen.

    Raises:
      ValueError: another `first`; an `ancestor` that is no whole number from 1 on.
    """

    first: Colours = "either"
    ancestor: int | None = None
    legal_only: bool = False

    def __post_init__(self):
        check_ranges(self, ancestor=_OPTIONAL_COUNT)
        check_choice(self, "first", Colours)


FinalMove = Literal["visits", "value", "bound", "eval"]


RANGES = {
    "num_simulations": Range(
        1, MOST_VISITS, whole=True, why="the most that a fixed-point value sum holds"
    ),
    "capacity": Range(2, whole=True, optional=True),
    "leaves": COUNT,
    "virtual_loss": COUNT,
    "max_depth": COUNT,
    "expand_after": COUNT,
    "root_temperature": ABOVE_0,
    "dirichlet_fraction": SHARE,
    "dirichlet_alpha": ABOVE_0._replace(optional=True),
    "temperature": AT_LEAST_0,
}
"""What the numbers of a `SearchConfig` may be."""

CONFLICTS = (
    Conflict("final_move", "temperature", "it draws no action; use temperature=0"),
    Conflict("early_stop", "transpositions", "their trees are at different simulations"),
    Conflict("early_stop", "prove", "a later proof may change the move"),
    Conflict("early_stop", "temperature", "only the most visited action is settled early"),
    Conflict("leaves", "grandfather", "its values would show virtual losses; use leaves=1"),
    Conflict("virtual_losses", "own_visits", "a leaf is to count as one; use virtual_loss=1"),
    Conflict("backup", "leaves", "a backup by an operator shows no virtual losses; use leaves=1"),
    Conflict("backup", "amaf", "first plays are averaged; use amaf=None"),
    Conflict("backup", "prior_counts", "values that count as visits are averaged"),
    Conflict("amaf", "transpositions", "playouts are not shared"),
    Conflict("transpositions", "prove", "a proof goes up one path only"),
    Conflict("transpositions", "backup", "a backup value goes up one path only"),
    Conflict("transpositions", "heuristic", "what it says of actions is not shared"),
    Conflict("grandfather", "transpositions", "nodes of one position begin with other values"),
    Conflict("grandfather", "backup", "its counts stand for values that are averaged"),
    Conflict("prove", "own_visits", "it would visit actions that are proven to lose"),
    Conflict("ensemble", "transpositions", "their trees are at different simulations"),
    Conflict("ensemble", "backup", "such values do not add up"),
    Conflict("ensemble", "eval", "it goes by the statistics of one tree"),
    Conflict("ensemble", "early_stop", "an exchange may change which action is most visited"),
    Conflict("ensemble", "grandfather", "the trees differ in what their nodes begin with"),
    Conflict("ensemble", "ancestor", "it goes by ancestors in one tree"),
    Conflict("ensemble", "own_visits", "it counts the visits of one tree"),
    Conflict("above", "ensemble", "an exchange changes what is above a node"),
    Conflict("above", "ancestor", "it goes by the nodes' own values beside those above"),
    Conflict("variance", "ensemble", "trees do not exchange sums of squares"),
    Conflict("variance", "prior_counts", "values that count as visits have no squares"),
    Conflict("score", "transpositions", "what is shared of an evaluation has no score"),
    Conflict("score", "backup", "such values have no score"),
    Conflict("score", "prove", "what is proven has no score"),
    Conflict("score", "ensemble", "trees do not exchange utilities of scores"),
    Conflict("score", "amaf", "first plays have no score"),
    Conflict("score", "prior_counts", "values that count as visits have no score"),
    Conflict("prune", "transpositions", "their tables know nodes by numbers"),
    Conflict("prune", "prove", "what proves a node might go"),
    Conflict("prune", "ensemble", "what has been exchanged might go"),
    Conflict("prune", "backup", "a value by children that go would stay"),
    Conflict("prune", "own_visits", "it counts the visits of all that were tried"),
    Conflict("siblings", "amaf", "it scores an action by its siblings, not all of which it sees"),
    Conflict("siblings", "prior_counts", "it scores an action by its siblings, not all seen"),
    Conflict("own_visits", "heuristic_visits", "it would count those that a heuristic stands for"),
    Conflict("tree", "own_visits", "it counts the visits of one search, from none on; give none"),
)
"""What does not go with what: two features by their names, see `SearchConfig.features`."""


class Feature(NamedTuple):
    """Something that a search does besides, as an error names it."""

    field: str
    value: Any

    def __str__(self) -> str:
        return f"{self.field}={self.value}"


def _check_conflicts(used: Mapping[str, Feature]) -> None:
    """Refuse features, by their names, that do not go together.

    Raises:
      ValueError: naming both, and the reason.
    """
    found = first_conflict(CONFLICTS, used.__contains__)
    if found is not None:
        one, other = used[found.first], used[found.second]
        raise ValueError(f"{one.field}: {one.value} does not go with {other}; {found.reason}")


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Static settings of a search.

    Attributes:
      num_simulations: leaves visited by each tree, the root's evaluation not counted.
      capacity: nodes a tree has room for; None for num_simulations + 1, all that a new tree
        needs. With fewer a tree fills up: then it goes on searching without new nodes, and a
        leaf is evaluated again (but see `prune`). A search that goes on from an earlier tree keeps
        `num_kept` of its nodes, so reuse wants more: `roomy` says how many.
      prune: a tree that is full drops its least visited nodes, half of them all, and goes on with
        new ones; see `reuse.with_room`.
      leaves: leaves of a tree that are evaluated together at a step; divides the simulations.
      virtual_loss: simulations that count as lost on the path to each until then.
      max_depth: a node this deep is evaluated, not expanded.
      select: the selection rule, ``Edges -> f32[K]``.
      amaf: which later plays count as first ones, for a rule that asks; None: none are kept.
      grandfather: a new node begins with the values that its actions have two plies above, counted
        as so many simulations.
      expand_after: visits that a node needs before it gets its first child, the root apart; until
        then it is evaluated again. Virtual losses count among them.
      root_select: the root's, if it is another: of all actions, ``Edges -> f32[A]``, or a
        `SelectionRule`, which may also say what is played and learnt (`rules.gumbel.GumbelRoot`).
      root_temperature: softens the root's priors, before the noise; see `root.soften`.
      dirichlet_fraction: weight of the Dirichlet noise in the root's priors; 0 for none.
      dirichlet_alpha: its concentration; None: scaled to the number of actions, see
        `root.board_alpha`.
      transpositions: positions of a tree that the evaluator sees alike share one evaluation: True,
        or `Transpositions`, which says what counts as alike. With several leaves a step, so many
        wait for the evaluator, and what is known does not.
      temperature: of the action drawn from the visits; 0 for the most visited. A root rule that
        says what is played does not ask for it.
      final_move: what an action has most of to be chosen at temperature 0: "visits", "value",
        "bound", the lower confidence bound of its value, see `move_choice.by_value`, or "eval",
        what the rule says of it without what explores, see `SelectionRule.evaluation`: with RAVE
        the mixture of both values, also of what was only played later. A heuristic's counts are in
        it.
      early_stop: end the search when in no tree the most visited action can be overtaken any
        more; see `root.decided`. For playing: the most visited action stays the same; visits,
        values and policy targets do not, nor what "value" and "bound" choose.
      backup: a node's value by its children, the Q that its parent sees: one of
        `rules.operators`, ``Edges -> f32[]``; None for the mean.
      prove: results are proven, and a proven node is visited no further, see `proofs`; what is
        proven to win is played, and what is proven to lose is not.
      ensemble: several trees for each game, which exchange what they find, see `ensemble`; all that
        is said above of a tree is said of each of them. The result is one for the game, and its
        trees are all of them.

    `CONFLICTS` says what does not go together, `RANGES` what the numbers may be.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    num_simulations: int = 64
    capacity: int | None = None
    prune: bool = False
    leaves: int = 1
    virtual_loss: int = 3
    max_depth: int = 64
    select: Rule = Puct()  # noqa: RUF009 (frozen)
    amaf: Amaf | None = None
    grandfather: Grandfather | None = None
    expand_after: int = 1
    root_select: Rule | None = None
    root_temperature: float = 1.0
    dirichlet_fraction: float = 0.0
    dirichlet_alpha: float | None = None
    transpositions: Transpositions | bool = False
    temperature: float = 0.0
    final_move: FinalMove = "visits"
    early_stop: bool = False
    backup: Operator | None = None
    prove: bool = False
    ensemble: Ensemble | None = None

    def __post_init__(self):
        check_ranges(self, **RANGES)
        check_choice(self, "final_move", FinalMove)
        self._check_kinds()
        _check_conflicts(self.features())
        self._check_counts()

    def _check_kinds(self):
        """Refuse what is no rule, and a rule without the statistics that it needs."""
        if not callable(self.select) or as_rule(self.select).needs.own_visits:
            raise ValueError(f"select: {self.select!r} is not a function of Edges")
        for name in ("root_select", "backup"):
            if not (getattr(self, name) is None or callable(getattr(self, name))):
                raise ValueError(f"{name}: {getattr(self, name)!r} is not a function of Edges")
        kinds = {"transpositions": Transpositions | bool, "ensemble": Ensemble | None}
        for name, kind in {**kinds, "grandfather": Grandfather | None, "amaf": Amaf | None}.items():
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name}: {getattr(self, name)!r} is not of {kind}")
        if self.amaf is None and as_rule(self.select).needs.amaf:
            raise ValueError(f"amaf: {self.select} needs such statistics; give amaf=Amaf()")
        if self.amaf is None and self.grandfather is not None and self.grandfather.amaf_visits > 0:
            raise ValueError(f"amaf: {self.grandfather} begins such statistics; give amaf=Amaf()")

    def _check_counts(self):
        """Refuse leaves that do not divide what they should, and more visits than a sum holds."""
        if self.num_simulations % self.leaves:
            raise ValueError(
                f"leaves: {self.leaves} do not divide {self.num_simulations} simulations; "
                f"use {-(-self.num_simulations // self.leaves) * self.leaves} simulations"
            )
        if self.ensemble and self.ensemble.every and self.ensemble.every % self.leaves:
            raise ValueError(
                f"ensemble: exchanges every {self.ensemble.every} simulations, but a step has "
                f"{self.leaves} leaves; use a multiple"
            )
        if self.prune and self.num_nodes - self.num_nodes // 2 < self.leaves:
            raise ValueError(
                f"capacity: {self.num_nodes} nodes, of which half are kept where trees are pruned, "
                f"have no room for the {self.leaves} leaves of a step"
            )
        if self.num_simulations > self.most_simulations:
            raise ValueError(
                f"num_simulations: {self.num_simulations}; with what else counts as visits here, "
                f"{self.most_simulations} are the most that a fixed-point value sum holds"
            )

    def features(self) -> dict[str, Feature]:
        """What a search does besides, by the names in `CONFLICTS`."""
        named = "leaves", "amaf", "grandfather", "transpositions", "backup", "prove", "early_stop"
        plain = {field.name: field.default for field in dataclasses.fields(self)}
        used = {
            name: Feature(name, getattr(self, name))
            for name in (*named, "ensemble", "temperature", "final_move")
            if getattr(self, name) != plain[name]
        }
        if self.leaves > 1 and self.virtual_loss > 1:
            used["virtual_losses"] = Feature("virtual_loss", self.virtual_loss)
        if self.prune and self.overflows:
            used["prune"] = Feature("prune", self.prune)
        if self.final_move == "eval":
            used["eval"] = Feature("final_move", self.final_move)
        if self.amaf is not None and self.amaf.ancestor is not None:
            used["ancestor"] = Feature("amaf", self.amaf)
        if self.grandfather is not None and self.grandfather.visits > 0:
            used["prior_counts"] = Feature("grandfather", self.grandfather)
        if as_rule(self.select).needs.siblings:
            used["siblings"] = Feature("select", self.select)
        if as_rule(self.select).needs.above:
            used["above"] = Feature("select", self.select)
        if self.keeps_squares:
            used["variance"] = Feature("select", self.select)
        if self.score_utility is not None:
            used["score"] = Feature("select", self.select)
        if self.root_rule is not None and self.root_rule.needs.own_visits:
            used["own_visits"] = Feature("root_select", self.root_select)
        return used

    def check_with(
        self, tree: bool = False, heuristic: bool = False, prior_counts: bool = False
    ) -> None:
        """Refuse what does not go with what a search is given beside its settings.

        Args:
          tree: a tree to go on from.
          heuristic: an evaluator with a heuristic's values of actions,
          prior_counts: ... that count as visits.

        Raises:
          ValueError: naming both, and the reason.
        """
        given: dict[str, Any] = {
            "tree": tree and Feature("tree", "one to go on from"),
            "heuristic": heuristic and Feature("evaluator", "a heuristic"),
            "heuristic_visits": prior_counts
            and Feature("evaluator", "one with visits of a heuristic"),
        }
        used = self.features() | {name: x for name, x in given.items() if x}
        if prior_counts:
            used["prior_counts"] = given["heuristic_visits"]
        _check_conflicts(used)

    @property
    def root_rule(self) -> SelectionRule | None:
        """`root_select` as a rule."""
        return None if self.root_select is None else as_rule(self.root_select)

    @property
    def keeps_squares(self) -> bool:
        """Trees keep sums of squared values, for a rule that asks for variances."""
        rules = as_rule(self.select), self.root_rule
        return any(rule is not None and rule.needs.variance for rule in rules)

    @property
    def score_utility(self) -> ScoreUtility | None:
        """What scores add to values, for a rule that asks; None: nothing."""
        rules = as_rule(self.select), self.root_rule
        return next((rule.needs.score for rule in rules if rule and rule.needs.score), None)

    @property
    def plays_by_rule(self) -> bool:
        """The root's rule chooses the action that is played."""
        return self.root_rule is not None and self.root_rule.final_action is not None

    @property
    def sharing(self) -> Transpositions | None:
        """How transpositions share evaluations; None: they do not."""
        if isinstance(self.transpositions, bool):
            return Transpositions() if self.transpositions else None
        return self.transpositions

    @property
    def most_lost(self) -> int:
        """Simulations that are virtually lost at once, at most."""
        return self.leaves * self.virtual_loss if self.leaves > 1 else 0

    @property
    def most_simulations(self) -> int:
        """That a value sum holds, beside virtual losses, the grandfather's counts and other trees.

        (The roots' own evaluations are the one visit to spare of each tree.)
        """
        return self._visits_left(MOST_VISITS if self.wide else self._max_visits)

    @property
    def wide(self) -> bool:
        """Value sums are `values.Wide`: an i32 might not hold them. (An ensemble's are not.)"""
        return self.ensemble is None and self.num_simulations > self._visits_left(self._max_visits)

    @property
    def _max_visits(self) -> int:
        """That sums in an i32 hold: with utilities of scores squares of values go up to 4."""
        return MAX_VISITS if self.score_utility is None else MAX_VISITS // 4

    def _visits_left(self, most: int) -> int:
        """Of so many visits what else counts leaves to the simulations of each tree."""
        first, trees = self.grandfather, self.ensemble.trees if self.ensemble else 1
        initial = max(first.visits, first.amaf_visits) if first else 0
        return (most + 1) // trees - 1 - self.most_lost - initial

    @property
    def num_nodes(self) -> int:
        """N, the nodes a tree has room for."""
        return self.num_simulations + 1 if self.capacity is None else self.capacity

    @property
    def path_limit(self) -> int:
        """D, the longest path a simulation can take."""
        return min(self.max_depth, self.num_nodes - 1)

    @property
    def fills(self) -> bool:
        """A tree may run out of room in the midst of a search, and stay so."""
        return self.overflows and not self.prune

    @property
    def overflows(self) -> bool:
        """A tree has no room for a new node a simulation."""
        return self.num_nodes <= self.num_simulations

    @property
    def num_kept(self) -> int:
        """The most nodes that a search takes over from an earlier tree; see `reuse.prune`.

        What leaves room for a new node a simulation; half the room if there is not so much.
        """
        return self.num_nodes // 2 if self.overflows else self.num_nodes - self.num_simulations

    @property
    def roomy(self) -> SearchConfig:
        """With room for reuse, 2 num_simulations + 1 nodes, unless the capacity is given."""
        if self.capacity is not None:
            return self
        return dataclasses.replace(self, capacity=2 * self.num_simulations + 1)
