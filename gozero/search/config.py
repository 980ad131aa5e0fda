"""The settings of a search."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax

from gozero.search import selection
from gozero.search import tree as trees


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Static settings of a search.

    Attributes:
      num_simulations: leaves visited by each tree, the root's evaluation not counted.
      capacity: nodes a tree has room for; None for num_simulations + 1, all that a new tree
        needs. With fewer a tree fills up: then it goes on searching without new nodes, and a
        leaf is evaluated again. A search that goes on from an earlier tree keeps `num_kept` of
        its nodes, so reuse wants more: `roomy` says how many.
      max_depth: a node this deep is evaluated, not expanded.
      select: the selection rule, ``selection.Edges -> f32[K]``.
      root_select: the root's, if it is another; it tries actions in the order of `select`.
      root_temperature: softens the root's priors, before the noise; see `noise.soften`.
      dirichlet_fraction: weight of the Dirichlet noise in the root's priors; 0 for none.
      dirichlet_alpha: its concentration.
      temperature: of the action drawn from the visits; 0 for the most visited.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    num_simulations: int = 64
    capacity: int | None = None
    max_depth: int = 64
    select: Callable[[selection.Edges], jax.Array] = selection.Puct()  # noqa: RUF009 (frozen)
    root_select: Callable[[selection.Edges], jax.Array] | None = None
    root_temperature: float = 1.0
    dirichlet_fraction: float = 0.0
    dirichlet_alpha: float = 0.03
    temperature: float = 0.0

    def __post_init__(self):
        for name in ("num_simulations", "max_depth"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name}: {getattr(self, name)!r} is not a whole number")
        if not 1 <= self.num_simulations <= trees.MAX_VISITS:
            raise ValueError(
                f"num_simulations: {self.num_simulations} is not from 1 to {trees.MAX_VISITS} "
                "(the most that a fixed-point value sum holds)"
            )
        if self.capacity is not None and self.capacity < 2:
            raise ValueError(
                f"capacity: {self.capacity} nodes do not hold a root and a move; use at least 2"
            )
        if self.max_depth < 1:
            raise ValueError(f"max_depth: {self.max_depth} is not at least 1")
        if not self.root_temperature > 0:
            raise ValueError(f"root_temperature: {self.root_temperature} is not above 0")
        if not 0 <= self.dirichlet_fraction <= 1:
            raise ValueError(f"dirichlet_fraction: {self.dirichlet_fraction} is not from 0 to 1")
        if not self.dirichlet_alpha > 0:
            raise ValueError(f"dirichlet_alpha: {self.dirichlet_alpha} is not above 0")
        if not self.temperature >= 0:
            raise ValueError(f"temperature: {self.temperature} is not at least 0")

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
