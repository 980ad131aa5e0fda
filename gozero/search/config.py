"""The settings of a search and of its options."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.limits import MAX_VISITS, MOST_VISITS, AmafPlays, FinalMove
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
from gozero.search.game import Ancestors
from gozero.search.rules.operators import Operator
from gozero.search.rules.puct import Puct
from gozero.search.score import ScoreUtility
from gozero.search.values import CONFIDENCE

_OPTIONAL_COUNT = COUNT._replace(optional=True)


@dataclasses.dataclass(frozen=True)
class Transpositions:
    """How transpositions share evaluations.

    Attributes:
      key: ``(context, position, ancestors) -> u32[2]``; positions with equal keys share an
        evaluation. None: a hash of the observation, which is all that the evaluator sees.
      rounds: the most simulations, for each leaf of a step, that a tree makes between two calls of
        the evaluator while another tree waits for the next call. With 1, the evaluator is called
        for every simulation; sharing then reduces the positions needed in each call, but not the
        number of calls.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    key: Callable[[Any, Any, Ancestors], jax.Array] | None = None
    rounds: int = 8

    def __post_init__(self):
        if self.key is not None and not callable(self.key):
            raise ValueError(f"key: {self.key!r} is not a function of a position")
        check_ranges(self, rounds=COUNT)


@dataclasses.dataclass(frozen=True)
class Grandfather:
    """Initial values from the grandparent, and how many simulations each counts for at a new node.

    The value is the mean of the simulations through the action at the grandparent, at the time the
    node is added; for an action without simulations, its all-moves-as-first value there, which may
    itself have begun with a heuristic's. An action with neither gets no initial value. The counts
    of the evaluator's heuristic, if any, are added to these.

    Attributes:
      visits: C, added to the simulations through the action; 0 for none.
      amaf_visits: M, added to those that played it later; 0 for none.

    Raises:
      ValueError: a number that is negative or not whole; both 0.
    """

    visits: int = 0
    amaf_visits: int = 0

    def __post_init__(self):
        check_ranges(self, visits=CONFIDENCE, amaf_visits=CONFIDENCE)
        if self.visits == self.amaf_visits == 0:
            raise ValueError(
                "visits, amaf_visits: both are 0, so the grandfather has no effect; set one above 0"
            )


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """How many trees a game has, when they exchange statistics, and at which nodes.

    Attributes:
      trees: K.
      every: simulations of each tree between two exchanges; None: the roots are merged at the end,
        and nothing is exchanged before.
      depth: the most actions below the root at which nodes are exchanged.
      share: the least share, above 0, of the visits of all roots together that such a node has.
        (MoGo has depth 3 and share 0.05.)
      devices: D, which divides K: every device has K / D trees of each game. With more than one,
        the search runs on each of them with the same arguments, under `axis`; see
        `over_devices.search`.
      axis: the name of the mapped axis of these devices.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    trees: int = 8
    every: int | None = 50
    depth: int = 3
    share: float = 0.05
    devices: int = 1
    axis: str = "device"

    def __post_init__(self):
        check_ranges(self, trees=COUNT, every=_OPTIONAL_COUNT, depth=Range(0, whole=True))
        check_ranges(self, share=Range(above=0, most=1), devices=COUNT)
        if self.trees % self.devices:
            raise ValueError(f"devices: {self.devices} does not divide the {self.trees} trees")

    @property
    def own_trees(self) -> int:
        """The number of trees of each game on a device."""
        return self.trees // self.devices

    def own_copies(self, x: Any) -> Any:
        """A pytree with a leading axis [B] -> [B K / D]: each entry once for each tree of a
        device."""
        return jax.tree.map(lambda x: jnp.repeat(x, self.own_trees, axis=0), x)

    def copies(self, x: Any) -> Any:
        """A pytree with a leading axis [B] -> [B K]: each entry K times, once for each tree."""
        return jax.tree.map(lambda x: jnp.repeat(x, self.trees, axis=0), x)

    def total(self, x: Any) -> Any:
        """The sum over the devices of each one's `x`."""
        return x if self.devices == 1 else lax.psum(x, self.axis)

    def greatest(self, x: Any) -> Any:
        """The maximum over the devices of each one's `x`."""
        return x if self.devices == 1 else lax.pmax(x, self.axis)

    def device(self) -> jax.Array | int:
        """The device's index, i32[]."""
        return 0 if self.devices == 1 else lax.axis_index(self.axis)

    def own_key(self, key: jax.Array) -> jax.Array:
        """The device's own PRNG key, so that trees on other devices draw other numbers."""
        return key if self.devices == 1 else jax.random.fold_in(key, self.device())

    def num_places(self, capacity: int) -> int:
        """S: the most shared nodes of a game that can be exchanged at a time.

        The nodes of one level have no more visits together than the roots.
        """
        return 1 + min(self.depth * int(1 / self.share), self.trees * (capacity - 1))


@dataclasses.dataclass(frozen=True)
class Amaf:
    """Which later plays of an action count for all-moves-as-first (AMAF) statistics.

    Attributes:
      first: "either": plays where the player was the first of the two players to play the action,
        as in the paper's text; "same": any play by the player, as in its Algorithm 2. This applies
        to the path; for the playout, the evaluator's `played` must follow the same definition,
        as with `playout_evaluator(first_plays=...)`; without `played`, only moves inside the tree
        count.
      ancestor: the visits that a node needs for its own AMAF statistics to be used. A node with
        fewer uses those of its nearest ancestor in the tree that has this many visits and the same
        player to move, if there is one, and ignores a heuristic's AMAF counts of its own actions.
        None: a node always uses its own.
      legal_only: do not count an action at a node where it is illegal, such as a play at a point
        that is occupied at the node and empty later; Gelly & Silver (2011), section 4.3. It affects
        what is read of a node elsewhere (by an `ancestor`'s descendants, rules with `above`, the
        grandfather heuristic) and reported; an illegal action is never chosen in any case.

    Raises:
      ValueError: another `first`; an `ancestor` that is not a whole number of at least 1.
    """

    first: AmafPlays = "either"
    ancestor: int | None = None
    legal_only: bool = False

    def __post_init__(self):
        check_ranges(self, ancestor=_OPTIONAL_COUNT)
        check_choice(self, "first", AmafPlays)


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
"""The allowed ranges of the numbers of a `SearchConfig`."""

CONFLICTS = (
    Conflict("final_move", "temperature", "it does not sample; use temperature=0"),
    Conflict("early_stop", "transpositions", "their trees are at different simulations"),
    Conflict("early_stop", "prove", "a later proof may change the move"),
    Conflict("early_stop", "temperature", "only the most visited action is settled early"),
    Conflict("leaves", "grandfather", "its values would include virtual losses; use leaves=1"),
    Conflict(
        "virtual_losses", "own_visits", "its root counts a leaf as one visit; use virtual_loss=1"
    ),
    Conflict("backup", "leaves", "an operator's values show no virtual losses; use leaves=1"),
    Conflict("backup", "amaf", "all-moves-as-first values are averages; use amaf=None"),
    Conflict("backup", "prior_counts", "prior counts are averaged with visits"),
    Conflict("amaf", "transpositions", "playouts are not shared"),
    Conflict("transpositions", "prove", "a proof is backed up along one path only"),
    Conflict("transpositions", "backup", "its values are backed up along one path only"),
    Conflict("transpositions", "heuristic", "its values of actions are not shared"),
    Conflict("grandfather", "transpositions", "nodes of one position start with different values"),
    Conflict("grandfather", "backup", "its counts need values that are averaged"),
    Conflict("prove", "own_visits", "it would visit actions that are proven to lose"),
    Conflict("ensemble", "transpositions", "their trees are at different simulations"),
    Conflict("ensemble", "backup", "an operator's values cannot be summed over trees"),
    Conflict("ensemble", "eval", "it uses the statistics of a single tree"),
    Conflict("ensemble", "early_stop", "an exchange may change which action is most visited"),
    Conflict("ensemble", "grandfather", "its nodes start with different values in each tree"),
    Conflict("ensemble", "ancestor", "it uses ancestors in a single tree"),
    Conflict("ensemble", "own_visits", "it counts the visits of a single tree"),
    Conflict("above", "ensemble", "an exchange changes the values above a node"),
    Conflict("above", "ancestor", "it uses each node's own values and those above"),
    Conflict("variance", "ensemble", "trees do not exchange sums of squares"),
    Conflict("variance", "prior_counts", "prior counts have no sums of squares"),
    Conflict("score", "transpositions", "shared evaluations have no score"),
    Conflict("score", "backup", "an operator's values have no score"),
    Conflict("score", "prove", "proven results have no score"),
    Conflict("score", "ensemble", "trees do not exchange utilities of scores"),
    Conflict("score", "amaf", "all-moves-as-first values have no score"),
    Conflict("score", "prior_counts", "prior counts have no score"),
    Conflict("prune", "transpositions", "their tables refer to nodes by number"),
    Conflict("prune", "prove", "nodes that prove another might be dropped"),
    Conflict("prune", "ensemble", "nodes that were exchanged might be dropped"),
    Conflict("prune", "backup", "a node would keep the value of dropped children"),
    Conflict("prune", "own_visits", "it counts the visits of all tried actions"),
    Conflict("siblings", "amaf", "it scores an action by its siblings, and does not see all here"),
    Conflict(
        "siblings",
        "prior_counts",
        "it scores an action by its siblings, and does not see all here",
    ),
    Conflict(
        "own_visits", "heuristic_visits", "it would count a heuristic's visits as simulations"
    ),
    Conflict(
        "tree", "own_visits", "it counts the visits of one search from the start; give no tree"
    ),
)
"""Pairs of features that cannot be combined, by their names in `SearchConfig.features`."""


class Feature(NamedTuple):
    """An optional feature of a search, as error messages name it."""

    field: str
    value: Any

    def __str__(self) -> str:
        return f"{self.field}={self.value}"


def _check_conflicts(used: Mapping[str, Feature]) -> None:
    """Refuse features, given by name, that cannot be combined.

    Raises:
      ValueError: naming both, and the reason.
    """
    conflict = first_conflict(CONFLICTS, used.__contains__)
    if conflict is not None:
        first, second = used[conflict.first], used[conflict.second]
        raise ValueError(
            f"{first.field}: {first.value} cannot be combined with {second}; {conflict.reason}"
        )


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Static settings of a search.

    Attributes:
      num_simulations: the number of simulations of each tree, without the root's evaluation.
      capacity: the number of nodes a tree has room for; None: num_simulations + 1, all that a new
        tree needs. With less, a tree can fill up: the search then continues without adding nodes,
        and evaluates leaves again (but see `prune`). A search that continues from an earlier tree
        keeps `num_kept` of its nodes, so reuse needs a larger capacity: see `for_reuse`.
      prune: a full tree drops its least visited nodes, half of all its nodes, and goes on adding
        nodes; see `reuse.make_room`.
      leaves: leaves of a tree that are evaluated together in one step; must divide num_simulations.
      virtual_loss: lost simulations added to the path of each such leaf until it is evaluated.
      max_depth: a node this deep is evaluated, not expanded.
      select: the selection rule, ``Edges -> f32[K]``. None: `Puct()`.
      amaf: which later plays count for all-moves-as-first statistics, for a rule that needs them;
        None: they are not kept.
      grandfather: a new node begins with the values that its actions have two plies above, each
        counted as a number of simulations.
      expand_after: visits that a node, other than the root, needs before it gets its first child;
        until then it is evaluated again. Virtual losses count as visits.
      root_select: the root's rule, if it differs: a function of all actions, ``Edges -> f32[A]``,
        or a `SelectionRule`, which may also determine the action to play and the policy target
        (`rules.gumbel.GumbelRoot`).
      root_temperature: softens the root's priors before noise is added; see `root.soften`.
      dirichlet_fraction: weight of the Dirichlet noise in the root's priors; 0 for none.
      dirichlet_alpha: its concentration, if there is noise; None: scaled to the number of actions,
        see `root.board_alpha`.
      transpositions: positions of a tree that look the same to the evaluator share one evaluation:
        True, or `Transpositions`, which defines "the same". With several leaves a step, only
        leaves that need the evaluator wait for it; those with a known evaluation do not.
      temperature: for drawing the action from the visits; 0 for the most visited one. Not used if
        the root's rule chooses the action to play.
      final_move: the criterion for the action at temperature 0, which is the action with the most
        "visits", the highest "value", the highest lower confidence "bound" of its value, see
        `move_choice.by_value` (both are of results alone, without a score utility), or the highest
        "eval", the rule's score without its exploration term, see `SelectionRule.evaluation`. With
        RAVE, "eval" is the mixture of both values, also for actions that were only played later. It
        includes a heuristic's counts. Not used if the root's rule chooses the action to play.
      early_stop: end the search when in no tree the most visited action can still be overtaken;
        see `root.decided`. For play: the most visited action stays the same, but visits, values
        and policy targets change, and so may a choice by anything else: another `final_move`, or a
        root's rule that chooses the action, such as KataGo's.
      backup: an operator that computes a node's value, the Q that its parent sees, from its
        children: one of `rules.operators`, ``Edges -> f32[]``; None for the mean.
      prove: prove results, and descend no further than to proven nodes, see `proofs`; an action
        proven to win is played, and one proven to lose is not, unless all are.
      ensemble: several trees for each game, which exchange statistics, see `ensemble`; all settings
        above then apply to each tree. There is one result for each game, and it has all the trees.

    `CONFLICTS` lists features that cannot be combined, `RANGES` the allowed numbers.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    num_simulations: int = 64
    capacity: int | None = None
    prune: bool = False
    leaves: int = 1
    virtual_loss: int = 3
    max_depth: int = 64
    select: Rule | None = Puct()  # noqa: RUF009 (frozen)
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
        """Refuse values of the wrong type, and rules whose statistics are not kept."""
        for name in ("select", "root_select"):
            rule = getattr(self, name)
            if isinstance(rule, type):
                raise ValueError(f"{name}: {rule.__name__} is a class; give {rule.__name__}(...)")
        if not (self.select is None or callable(self.select)) or self.rule.needs.own_visits:
            raise ValueError(f"select: {self.select!r} is not a function of Edges for every node")
        for name in ("root_select", "backup"):
            if not (getattr(self, name) is None or callable(getattr(self, name))):
                raise ValueError(f"{name}: {getattr(self, name)!r} is not a function of Edges")
        kinds = {"transpositions": Transpositions | bool, "ensemble": Ensemble | None}
        for name, kind in {**kinds, "grandfather": Grandfather | None, "amaf": Amaf | None}.items():
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name}: {getattr(self, name)!r} is not of {kind}")
        for rule in (self.select, self.root_select):
            if self.amaf is None and rule is not None and as_rule(rule).needs.amaf:
                raise ValueError(
                    f"amaf: {rule} needs all-moves-as-first statistics; set amaf=Amaf()"
                )
        if self.amaf is None and self.grandfather is not None and self.grandfather.amaf_visits > 0:
            raise ValueError(
                f"amaf: {self.grandfather} needs all-moves-as-first statistics; set amaf=Amaf()"
            )

    def _check_counts(self):
        """Refuse counts that do not fit together, and more visits than a value sum can hold."""
        if self.num_simulations % self.leaves:
            raise ValueError(
                f"leaves: {self.leaves} does not divide {self.num_simulations} simulations; "
                f"use {-(-self.num_simulations // self.leaves) * self.leaves} simulations"
            )
        if self.ensemble and self.ensemble.every and self.ensemble.every % self.leaves:
            raise ValueError(
                f"ensemble: exchanges every {self.ensemble.every} simulations, but a step has "
                f"{self.leaves} leaves; use a multiple of {self.leaves}"
            )
        if self.prune and self.num_nodes - self.num_nodes // 2 < self.leaves:
            raise ValueError(
                f"capacity: {self.num_nodes} nodes, of which half are kept where trees are pruned, "
                f"have no room for the {self.leaves} leaves of a step"
            )
        if self.most_lost > MAX_VISITS // 2:
            raise ValueError(
                f"virtual_loss: {self.virtual_loss} for each of {self.leaves} leaves may overflow; "
                f"use at most {MAX_VISITS // 2 // self.leaves}"
            )
        if self.num_simulations > self.most_simulations:
            raise ValueError(
                f"num_simulations: {self.num_simulations} is too many; with everything else that "
                f"counts as visits here, a value sum holds at most {self.most_simulations}"
            )

    def features(self) -> dict[str, Feature]:
        """The optional features that are in use, by their names in `CONFLICTS`."""
        names = "leaves", "amaf", "grandfather", "transpositions", "backup", "prove", "early_stop"
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        used = {
            name: Feature(name, getattr(self, name))
            for name in (*names, "ensemble", "temperature", "final_move")
            if getattr(self, name) != defaults[name]
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
        if self.rule.needs.siblings:
            used["siblings"] = Feature("select", self.rule)
        if self.rule.needs.above:
            used["above"] = Feature("select", self.rule)
        if self.keeps_squares:
            used["variance"] = Feature("select", self.rule)
        if self.score_utility is not None:
            used["score"] = Feature("select", self.rule)
        if self.root_rule is not None and self.root_rule.needs.own_visits:
            used["own_visits"] = Feature("root_select", self.root_select)
        return used

    def check_with(
        self, tree: bool = False, heuristic: bool = False, prior_counts: bool = False
    ) -> None:
        """Refuse settings that cannot be combined with the other inputs of a search.

        Args:
          tree: whether there is a tree to continue from.
          heuristic: whether the evaluator has a heuristic's values of actions.
          prior_counts: whether that heuristic's values count as visits.

        Raises:
          ValueError: naming both, and the reason.
        """
        inputs: dict[str, Any] = {
            "tree": tree and Feature("tree", "an earlier one"),
            "heuristic": heuristic and Feature("evaluator", "one with a heuristic"),
            "heuristic_visits": prior_counts
            and Feature("evaluator", "one whose heuristic has visits"),
        }
        used = self.features() | {name: x for name, x in inputs.items() if x}
        if prior_counts:
            used["prior_counts"] = inputs["heuristic_visits"]
        _check_conflicts(used)

    @property
    def rule(self) -> SelectionRule:
        """`select` as a `SelectionRule`."""
        return as_rule(self.select or Puct())

    @property
    def root_rule(self) -> SelectionRule | None:
        """`root_select` as a `SelectionRule`."""
        return None if self.root_select is None else as_rule(self.root_select)

    @property
    def keeps_squares(self) -> bool:
        """Whether trees keep sums of squared values, for a rule that needs variances."""
        rules = self.rule, self.root_rule
        return any(rule is not None and rule.needs.variance for rule in rules)

    @property
    def score_utility(self) -> ScoreUtility | None:
        """The utility of the score that is added to values, if a rule needs it; None: nothing."""
        rules = self.rule, self.root_rule
        return next((rule.needs.score for rule in rules if rule and rule.needs.score), None)

    @property
    def plays_by_rule(self) -> bool:
        """Whether the root's rule chooses the action that is played."""
        return self.root_rule is not None and self.root_rule.final_action is not None

    @property
    def sharing(self) -> Transpositions | None:
        """How transpositions share evaluations; None: they do not share any."""
        if isinstance(self.transpositions, bool):
            return Transpositions() if self.transpositions else None
        return self.transpositions

    @property
    def most_lost(self) -> int:
        """The most virtual losses that a node can have at once."""
        return self.leaves * self.virtual_loss if self.leaves > 1 else 0

    @property
    def most_simulations(self) -> int:
        """The most simulations that a value sum can hold, given what else counts as visits.

        That is virtual losses, the grandfather's counts, and the other trees of an ensemble. (The
        root's own evaluation is covered by one spare visit of each tree.)
        """
        return self._visits_left(MOST_VISITS if self.wide else self._max_visits)

    @property
    def counts_left(self) -> int:
        """The most visits of each kind that a heuristic may count for at an action; their values
        are in i32 sums also where those of simulations are wide."""
        most = MAX_VISITS - self._initial_visits
        return min(self.most_simulations - self.num_simulations, most)

    @property
    def wide(self) -> bool:
        """Whether value sums are `values.Wide`, because an i32 might overflow.

        (Those of an ensemble never are.)
        """
        return self.ensemble is None and self.num_simulations > self._visits_left(self._max_visits)

    @property
    def _max_visits(self) -> int:
        """The most visits that an i32 sum can hold.

        With score utilities, squares of values go up to 4.
        """
        return MAX_VISITS if self.score_utility is None else MAX_VISITS // 4

    def _visits_left(self, most: int) -> int:
        """How many of `most` visits remain for each tree's simulations, after all other counts."""
        trees = self.ensemble.trees if self.ensemble else 1
        return (most + 1) // trees - 1 - self.most_lost - self._initial_visits

    @property
    def _initial_visits(self) -> int:
        """The most visits that an action takes over from the grandfather's."""
        grandfather = self.grandfather
        return max(grandfather.visits, grandfather.amaf_visits) if grandfather else 0

    @property
    def num_nodes(self) -> int:
        """N, the number of nodes a tree has room for."""
        return self.num_simulations + 1 if self.capacity is None else self.capacity

    @property
    def path_limit(self) -> int:
        """D, the longest path a simulation can take."""
        return min(self.max_depth, self.num_nodes - 1)

    @property
    def fills(self) -> bool:
        """Whether a tree may run out of room during a search without being pruned."""
        return self.overflows and not self.prune

    @property
    def overflows(self) -> bool:
        """Whether the capacity is too small for one new node per simulation."""
        return self.num_nodes <= self.num_simulations

    @property
    def num_kept(self) -> int:
        """The most nodes that a search keeps of an earlier tree; see `reuse.prune`.

        This leaves room for one new node per simulation; if the capacity is too small for that, it
        is half the capacity.
        """
        return self.num_nodes // 2 if self.overflows else self.num_nodes - self.num_simulations

    @property
    def for_reuse(self) -> SearchConfig:
        """The config with room for reuse, 2 num_simulations + 1 nodes, unless capacity is set.

        Just below the number of simulations from which sums are `wide`, a search drops an earlier
        tree of many visits, because both together would not fit: see `reuse.fit`.
        """
        if self.capacity is not None:
            return self
        return dataclasses.replace(self, capacity=2 * self.num_simulations + 1)
