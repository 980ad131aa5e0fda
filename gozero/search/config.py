"""The settings of a search, and what each of its options is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, Protocol, get_args

import jax
import jax.numpy as jnp

from gozero.search.edges import Edges
from gozero.search.game import Trail
from gozero.search.rules.operators import Operator
from gozero.search.rules.puct import Puct
from gozero.search.values import MAX_VISITS


class RootRule(Protocol):
    """A rule for the root alone; hashable.

    It may have two methods more: ``final_action(edges, gumbel) -> i32[]``, the action that is
    played, and ``policy_target(edges) -> f32[A]``. Without them the visits decide.
    """

    def score_root(self, edges: Edges, gumbel: jax.Array, num_simulations: int) -> jax.Array:
        """f32[A]: what to visit next has the highest score; -inf where illegal.

        Args:
          edges: all actions of the root.
          gumbel: f32[A], samples of Gumbel(0, 1), the same in every simulation.
          num_simulations: of the search.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Transpositions:
    """How evaluations are shared.

    Attributes:
      key: ``(context, position, trail) -> u32[2]``; equal keys share an evaluation. None: a hash
        of the observation, which is all that the evaluator sees.
      rounds: the most simulations that a tree makes between two calls of the evaluator, while
        another tree waits for the second. With 1 the evaluator is called for every simulation,
        and shared evaluations make fewer lanes of the call needed, not fewer calls.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    key: Callable[[Any, Any, Trail], jax.Array] | None = None
    rounds: int = 8

    def __post_init__(self):
        if self.key is not None and not callable(self.key):
            raise ValueError(f"key: {self.key!r} is not a function of a position")
        if not isinstance(self.rounds, int) or self.rounds < 1:
            raise ValueError(f"rounds: {self.rounds!r} is not a whole number of at least 1")


@dataclasses.dataclass(frozen=True)
class Grandfather:
    """What the value of an action at the grandfather counts for at a new node.

    The value is the mean of the simulations through the action there, when the node is made; of an
    action that had none, its all-moves-as-first value there, which may itself have begun with a
    heuristic's. Of an action without either nothing is believed. What the evaluator believes of
    the actions counts beside it.

    Attributes:
      visits: C, beside the simulations through the action; 0 for none.
      amaf_visits: M, beside those that played it later; 0 for none.

    Raises:
      ValueError: a number that is negative or not whole; both 0.
    """

    visits: int = 0
    amaf_visits: int = 0

    def __post_init__(self):
        for name in ("visits", "amaf_visits"):
            count = getattr(self, name)
            if not (isinstance(count, int) and 0 <= count <= MAX_VISITS):
                raise ValueError(f"{name}: {count!r} is not a whole number from 0 to {MAX_VISITS}")
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
        for name, least in (("trees", 1), ("every", 1), ("depth", 0)):
            value = getattr(self, name)
            is_none = name == "every" and value is None
            if not is_none and (not isinstance(value, int) or value < least):
                raise ValueError(f"{name}: {value!r} is not a whole number of at least {least}")
        if not 0 < self.share <= 1:
            raise ValueError(f"share: {self.share!r} is not above 0 and at most 1")

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
      first: "either": those where the first play of it, by either player, was his, as the
        paper's text has it; "same": those where he has played it at all, as its Algorithm 2. Of the
        path: what the evaluator's `first_play` says of the playout has to be of the same kind, as
        that of `playout_evaluator(first_plays=...)`.
      ancestor: visits that a node needs to go by its own statistics. One with fewer goes by those
        of its nearest ancestor with the same player to move that has as many, if there is one in
        the tree; what a heuristic believes of the node's actions is then not seen. None: by its
        own always.

    Raises:
      ValueError: another `first`; an `ancestor` that is no whole number from 1 on.
    """

    first: Colours = "either"
    ancestor: int | None = None

    def __post_init__(self):
        if self.ancestor is not None and not (
            isinstance(self.ancestor, int) and self.ancestor >= 1
        ):
            raise ValueError(f"ancestor: {self.ancestor!r} is not a whole number from 1 on")
        if self.first not in get_args(Colours):
            raise ValueError(f"first: {self.first!r} is not one of {', '.join(get_args(Colours))}")


FinalMove = Literal["visits", "value", "bound"]


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Static settings of a search.

    Attributes:
      num_simulations: leaves visited by each tree, the root's evaluation not counted.
      capacity: nodes a tree has room for; None for num_simulations + 1, all that a new tree
        needs. With fewer a tree fills up: then it goes on searching without new nodes, and a
        leaf is evaluated again. A search that goes on from an earlier tree keeps `num_kept` of
        its nodes, so reuse wants more: `roomy` says how many.
      leaves: leaves of a tree that are judged together at a step; divides the simulations. One
        with a `RootRule`.
      virtual_loss: simulations that count as lost on the path to each until then.
      max_depth: a node this deep is evaluated, not expanded.
      select: the selection rule, ``Edges -> f32[K]``.
      amaf: which later plays count as first ones, for a rule that asks; None: none are kept.
      grandfather: a new node begins with the values that its actions have two plies above, counted
        as so many simulations. Not with several leaves, transpositions or `backup`.
      expand_after: visits that a node needs before it gets its first child, the root apart; until
        then it is judged again. Virtual losses count among them.
      root_select: the root's, if it is another: of all actions, ``Edges -> f32[A]``, or a
        `RootRule`, which may also say what is played and learnt (see `rules.gumbel.GumbelRoot`).
      root_temperature: softens the root's priors, before the noise; see `root.soften`.
      dirichlet_fraction: weight of the Dirichlet noise in the root's priors; 0 for none.
      dirichlet_alpha: its concentration; None: scaled to the number of actions, see
        `root.board_alpha`.
      transpositions: positions of a tree that the evaluator sees alike share one evaluation: True,
        or `Transpositions`, which says what counts as alike. Not with several
        leaves, `amaf` or a heuristic.
      temperature: of the action drawn from the visits; 0 for the most visited. A root rule that
        says what is played does not ask for it.
      final_move: what an action has most of to be chosen at temperature 0: "visits", "value", or
        "bound", the lower confidence bound of its value, see `move_choice.by_value`.
      early_stop: end the search when in no tree the most visited action can be overtaken any
        more; see `root.decided`. For playing: the most visited action stays the same; visits,
        values and policy targets do not, nor what "value" and "bound" choose.
      backup: a node's value by its children, the Q that its parent sees: one of
        `rules.operators`, ``Edges -> f32[]``; None for the mean. Not with several leaves or `amaf`.
      prove: results are proven, and a proven node is visited no further, see `proofs`; what is
        proven to win is played, and what is proven to lose is not. Not with a `RootRule`.
      ensemble: several trees for each game, which exchange what they find, see `ensemble`; all that
        is said above of a tree is said of each of them. The result is one for the game, and its
        trees are all of them. Not with a tree to go on from, transpositions, backup, early_stop, a
        grandfather, ancestors' statistics or a `RootRule`.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    num_simulations: int = 64
    capacity: int | None = None
    leaves: int = 1
    virtual_loss: int = 3
    max_depth: int = 64
    select: Callable[[Edges], jax.Array] = Puct()  # noqa: RUF009 (frozen)
    amaf: Amaf | None = None
    grandfather: Grandfather | None = None
    expand_after: int = 1
    root_select: Callable[[Edges], jax.Array] | RootRule | None = None
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
        for name in ("num_simulations", "leaves", "virtual_loss", "max_depth", "expand_after"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name}: {getattr(self, name)!r} is not a whole number")
        if not 1 <= self.num_simulations <= MAX_VISITS:
            raise ValueError(
                f"num_simulations: {self.num_simulations} is not from 1 to {MAX_VISITS} "
                "(the most that a fixed-point value sum holds)"
            )
        if self.capacity is not None and self.capacity < 2:
            raise ValueError(
                f"capacity: {self.capacity} nodes do not hold a root and a move; use at least 2"
            )
        if not callable(self.select):
            raise ValueError(f"select: {self.select!r} is not a function of Edges")
        if not (
            self.root_select is None
            or callable(self.root_select)
            or hasattr(self.root_select, "score_root")
        ):
            raise ValueError(f"root_select: {self.root_select!r} is not a rule for a root")
        for name in ("leaves", "virtual_loss", "max_depth", "expand_after"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not at least 1")
        if self.final_move not in get_args(FinalMove):
            allowed = ", ".join(get_args(FinalMove))
            raise ValueError(f"final_move: {self.final_move!r} is not one of {allowed}")
        if self.final_move != "visits" and self.temperature > 0:
            raise ValueError(
                f"final_move: {self.final_move!r} has no temperature; use temperature=0"
            )
        if self.early_stop and self.sharing is not None:
            raise ValueError("early_stop: not with transpositions, whose trees do not keep step")
        if self.early_stop and self.prove:
            raise ValueError("early_stop: not with prove, by which a later proof changes the move")
        if self.early_stop and self.temperature > 0:
            raise ValueError(
                "early_stop: only the most visited action is settled early, and temperature "
                f"{self.temperature} draws others; use temperature=0"
            )
        if self.num_simulations % self.leaves:
            raise ValueError(
                f"leaves: {self.leaves} do not divide {self.num_simulations} simulations; "
                f"use {-(-self.num_simulations // self.leaves) * self.leaves} simulations"
            )
        if self.num_simulations + self.most_lost > MAX_VISITS:
            raise ValueError(
                f"virtual_loss: {self.virtual_loss} on {self.leaves} leaves and "
                f"{self.num_simulations} simulations are more than the {MAX_VISITS} that a "
                "fixed-point value sum holds"
            )
        if getattr(self.select, "needs_amaf", False) and self.amaf is None:
            raise ValueError(f"amaf: {self.select} needs such statistics; give amaf=Amaf()")
        if self.grandfather is not None:
            self._check_grandfather(self.grandfather)
        if not self.root_temperature > 0:
            raise ValueError(f"root_temperature: {self.root_temperature} is not above 0")
        if not 0 <= self.dirichlet_fraction <= 1:
            raise ValueError(f"dirichlet_fraction: {self.dirichlet_fraction} is not from 0 to 1")
        if self.dirichlet_alpha is not None and not self.dirichlet_alpha > 0:
            raise ValueError(f"dirichlet_alpha: {self.dirichlet_alpha} is not above 0")
        if not isinstance(self.transpositions, Transpositions | bool):
            raise ValueError(
                f"transpositions: {self.transpositions!r} is neither a bool nor Transpositions(...)"
            )
        if self.sharing is not None and self.leaves > 1:
            raise ValueError(f"leaves: {self.leaves}; transpositions want a leaf a step, leaves=1")
        if self.sharing is not None and self.amaf is not None:
            raise ValueError(f"amaf: {self.amaf}; playouts are not shared by transpositions")
        if not (self.backup is None or callable(self.backup)):
            raise ValueError(f"backup: {self.backup!r} is not a function of Edges")
        if self.backup is not None and self.leaves > 1:
            raise ValueError(f"backup: {self.backup} shows no virtual losses; use leaves=1")
        if self.backup is not None and self.amaf is not None:
            raise ValueError(f"backup: {self.backup} is not mixed with amaf; use amaf=None")
        if self.sharing is not None and (self.prove or self.backup is not None):
            raise ValueError("transpositions: not with prove or backup, which see one parent")
        if self.prove and hasattr(self.root_select, "score_root"):
            raise ValueError(f"prove: {self.root_select} would visit what is proven to lose")
        if self.leaves > 1 and hasattr(self.root_select, "score_root"):
            raise ValueError(
                f"leaves: {self.leaves}; {self.root_select} counts visits, and would count virtual "
                "losses among them; use leaves=1"
            )
        if not self.temperature >= 0:
            raise ValueError(f"temperature: {self.temperature} is not at least 0")
        if self.ensemble is not None:
            self._check_ensemble(self.ensemble)

    def _check_ensemble(self, ensemble: Ensemble):
        if not isinstance(ensemble, Ensemble):
            raise ValueError(f"ensemble: {ensemble!r} is neither None nor Ensemble(...)")
        most = (MAX_VISITS + 1) // ensemble.trees - 1
        if self.num_simulations > most:
            raise ValueError(
                f"ensemble: {ensemble.trees} trees of {self.num_simulations} simulations have more "
                f"visits together than a fixed-point value sum holds; use {most} simulations, or "
                "fewer trees"
            )
        if ensemble.every is not None and ensemble.every % self.leaves:
            raise ValueError(
                f"ensemble: exchanges every {ensemble.every} simulations, but a step has "
                f"{self.leaves} leaves; use a multiple"
            )
        refused = {
            "transpositions, whose trees do not keep step": self.sharing is not None,
            f"backup={self.backup}, for which values do not add up": self.backup is not None,
            "early_stop, for an exchange may change what is most visited": self.early_stop,
            f"{self.grandfather}, for trees differ in what they begin with": self.grandfather
            is not None,
            f"{self.amaf}, which goes by a tree's own ancestors": self.amaf is not None
            and self.amaf.ancestor is not None,
            f"{self.root_select}, which counts its tree's own visits": hasattr(
                self.root_select, "score_root"
            ),
        }
        for what, is_asked in refused.items():
            if is_asked:
                raise ValueError(f"ensemble: not with {what}")

    def _check_grandfather(self, grandfather: Grandfather):
        if not isinstance(grandfather, Grandfather):
            raise ValueError(f"grandfather: {grandfather!r} is not a Grandfather(...)")
        if grandfather.amaf_visits > 0 and self.amaf is None:
            raise ValueError(f"amaf: {grandfather} begins such statistics; give amaf=Amaf()")
        most = MAX_VISITS - max(grandfather.visits, grandfather.amaf_visits)
        if self.num_simulations > most:
            raise ValueError(
                f"grandfather: {grandfather} and {self.num_simulations} simulations are more "
                f"together than the {MAX_VISITS} that a fixed-point value sum holds"
            )
        if self.leaves > 1:
            raise ValueError(
                f"leaves: {self.leaves}; grandfathers show virtual losses; use leaves=1"
            )
        if self.sharing is not None or self.backup is not None:
            raise ValueError(
                "grandfather: not with transpositions or backup, which have other values"
            )

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
    def num_nodes(self) -> int:
        """N, the nodes a tree has room for."""
        return self.num_simulations + 1 if self.capacity is None else self.capacity

    @property
    def path_limit(self) -> int:
        """D, the longest path a simulation can take."""
        return min(self.max_depth, self.num_nodes - 1)

    @property
    def fills(self) -> bool:
        """A tree may run out of room in the midst of a search."""
        return self.num_nodes <= self.num_simulations

    @property
    def num_kept(self) -> int:
        """The most nodes that a search takes over from an earlier tree; see `reuse.prune`.

        What leaves room for a new node a simulation; half the room if there is not so much.
        """
        return self.num_nodes // 2 if self.fills else self.num_nodes - self.num_simulations

    @property
    def roomy(self) -> SearchConfig:
        """With room for reuse, 2 num_simulations + 1 nodes, unless the capacity is given."""
        if self.capacity is not None:
            return self
        return dataclasses.replace(self, capacity=2 * self.num_simulations + 1)
