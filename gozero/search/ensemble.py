"""Several trees of one position, which exchange statistics near their roots.

Root parallelisation, as in MoGo on a cluster: Gelly, Hoock, Rimmel, Teytaud & Kalemkarian
(2008), "The parallelization of Monte-Carlo planning"; Gelly & Silver (2011), section 6. The K trees
of a game differ in their keys: in ties, noise, and the evaluator's random numbers. (Without any
randomness, all K trees are equal.) After every `Ensemble.every` simulations, the nodes near the
roots, which have most of the simulations, receive the visits and values that all of the trees have
added there since the last exchange. At the end the roots are merged.

Nodes of different trees are the same shared node if the same actions lead to them. The statistics
of a shared node right after an exchange are the same in all trees that had the node then, and they
are stored (`tree.LastSync`); anything beyond them was added since, by the node's own tree. So
nothing counts twice, and a tree that reaches a shared node late receives all of its statistics at
once. The sums are integers, so the order of the trees does not matter.

The trees of game b are trees b K to b K + K - 1. They may be divided among devices
(`over_devices`): each then has its own trees and finds the same shared nodes, and their totals are
summed over the devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.search import proofs, root, rows, values
from gozero.search import tree as trees
from gozero.search.config import Ensemble
from gozero.search.edges import Edges
from gozero.search.tree import NO_NODE, ROOT, Tree

_NO_DEVICE = 2**30
"""More than the index of any device."""


class _SharedNode(NamedTuple):
    """The nodes of the K trees of a game that the same actions lead to; K: on this device."""

    ensemble: Ensemble
    exists: jax.Array  # bool[B, K, ...]: whether a tree has the node
    row: jax.Array  # i32[B, K, ...]; the root's where the tree does not have it
    leads: jax.Array  # bool[B, K, ...]: one of all the trees that exchanged here before; these have
    # the same `LastSync`, which is counted for this one only

    def pooled(self, now: Any, last_sync: Any) -> jax.Array:
        """i32[B, ...]: the total over all trees, from arrays [R, ...] now and at the last sync."""
        now, synced = rows.read(now, self.row), rows.read(last_sync, self.row)
        expanded = lambda x: x.reshape(*x.shape, *[1] * (now.ndim - x.ndim))
        added = now - jnp.where(expanded(self.leads), 0, synced)
        own = jnp.sum(jnp.where(expanded(self.exists), added, 0), axis=1)
        return self.ensemble.total(own)

    def visits(self, tree: Tree) -> jax.Array:
        """i32[B, ...]."""
        return self.pooled(tree.visits, _last_sync(tree).visits)

    def sums(self, tree: Tree) -> jax.Array:
        """i32[B, ...], fixed point, for the player to move at the nodes."""
        return self.pooled(tree.value_sum, _last_sync(tree).sums)


def _last_sync(tree: Tree) -> trees.LastSync:
    assert tree.last_sync is not None, "trees of no ensemble"
    return tree.last_sync


def _shared_node(tree: Tree, ensemble: Ensemble, node: jax.Array) -> _SharedNode:
    """The shared nodes for nodes i32[B, K, ...]; NO_NODE where a tree does not have one."""
    first = tree.row(ROOT).reshape(*node.shape[:2], *[1] * (node.ndim - 2))
    row, exists = first + jnp.maximum(node, ROOT), node != NO_NODE
    # A tree that exchanged here before has visits from then; all such trees have the same number.
    synced_visits = jnp.where(exists, rows.read(_last_sync(tree).visits, row), -1)
    most = ensemble.greatest(jnp.max(synced_visits, axis=1, keepdims=True))
    has_most = synced_visits == most
    is_first = jnp.cumsum(has_most, axis=1, dtype=jnp.int32) == 1
    first = jnp.where(jnp.any(has_most, axis=1, keepdims=True), -ensemble.device(), -_NO_DEVICE)
    is_first &= first == ensemble.greatest(first)  # on one device only
    return _SharedNode(ensemble, exists, row, exists & has_most & is_first)


def _children(tree: Tree, node: jax.Array) -> jax.Array:
    """i32[B, K, A]: the children of nodes i32[B, K] by action; NO_NODE where there is none."""
    first = tree.row(ROOT).reshape(node.shape)
    row = first + jnp.maximum(node, ROOT)
    count = jnp.where(node == NO_NODE, 0, rows.read(tree.num_children, row))
    is_child = jnp.arange(tree.num_actions)[None, None] < count[..., None]
    child = jnp.where(is_child, rows.read(tree.children, row).astype(jnp.int32), ROOT)
    action = rows.read(tree.action, first[..., None] + child).astype(jnp.int32)
    action = jnp.where(is_child, action, tree.num_actions)
    game, which = (jnp.arange(n)[:, None] for n in node.shape)
    none = jnp.full(child.shape, NO_NODE, jnp.int32)
    return none.at[game[..., None], which[None], action].set(child, mode="drop")


class _SharedNodes(NamedTuple):
    """The shared nodes of each game, in the order they were found: by level, then by action."""

    nodes: jax.Array  # i32[S, B, K]; NO_NODE where a tree has none, and beyond the size
    depth: jax.Array  # i32[S, B]
    size: jax.Array  # i32[B]


def _find(tree: Tree, ensemble: Ensemble, is_due: jax.Array) -> _SharedNodes:
    """The shared nodes to exchange; none unless `is_due`. Trip bound: S."""
    num_places = ensemble.num_places(tree.capacity)
    num_games = tree.num_trees // ensemble.own_trees
    game = jnp.arange(num_games)[:, None]
    roots = jnp.full((num_games, ensemble.own_trees), ROOT, jnp.int32)
    visits = _shared_node(tree, ensemble, roots).visits(tree)
    least = jnp.float32(ensemble.share) * visits.astype(jnp.float32)

    def look_below(carry):
        s, places = carry
        child = _children(tree, places.nodes[s])
        visits = _shared_node(tree, ensemble, child).visits(tree)
        is_open = (s < places.size) & (places.depth[s] < ensemble.depth)
        joins = (visits > 0) & (visits.astype(jnp.float32) >= least[:, None]) & is_open[:, None]
        at = places.size[:, None] + jnp.cumsum(joins, axis=1, dtype=jnp.int32) - 1
        at = jnp.where(joins, at, num_places)
        below = jnp.broadcast_to(places.depth[s][:, None] + 1, at.shape)
        return s + 1, _SharedNodes(
            places.nodes.at[at, game].set(jnp.moveaxis(child, 1, 2), mode="drop"),
            places.depth.at[at, game].set(below, mode="drop"),
            jnp.minimum(places.size + jnp.sum(joins, axis=1, dtype=jnp.int32), num_places),
        )

    places = _SharedNodes(
        nodes=jnp.full((num_places, *roots.shape), NO_NODE, jnp.int32).at[0].set(roots),
        depth=jnp.zeros((num_places, num_games), jnp.int32),
        size=jnp.broadcast_to(is_due, (num_games,)).astype(jnp.int32),
    )
    has_more = lambda carry: carry[0] < jnp.max(carry[1].size)
    return lax.while_loop(has_more, look_below, (jnp.int32(0), places))[1]


class Exchanged(NamedTuple):
    """Trees after an exchange, and the exchanged nodes, where choices must be made again."""

    tree: Tree
    nodes: jax.Array  # i32[S, B K]
    count: jax.Array  # i32[B K]: the number of such nodes in each tree; the root is the first


def exchange(tree: Tree, ensemble: Ensemble, is_due: jax.Array | bool = True) -> Exchanged:
    """Give the exchanged nodes the total visits and sums over all trees of their game.

    A second exchange right after the first changes nothing.

    Args:
      tree: B K trees; K: on this device.
      ensemble: the settings, which say which nodes are exchanged.
      is_due: bool[]; False: exchange nothing.

    Returns:
      The trees with new `visits`, `value_sum`, `amaf` and `last_sync`, and the exchanged nodes.
    """
    places = _find(tree, ensemble, jnp.asarray(is_due))
    shape = places.nodes.shape[1:]
    outside = tree.num_rows + jnp.arange(tree.num_trees, dtype=jnp.int32).reshape(shape)

    def pool_at(s, tree):
        place = _shared_node(tree, ensemble, places.nodes[s])
        target = jnp.where(place.exists & (s < places.size)[:, None], place.row, outside)

        def pool(now, synced):
            new = place.pooled(now, synced)[:, None]
            new = jnp.broadcast_to(new, (*shape, *new.shape[2:]))
            return rows.write(now, target, new), rows.write(synced, target, new)

        synced = _last_sync(tree)
        visits, synced_visits = pool(tree.visits, synced.visits)
        value_sum, synced_sums = pool(tree.value_sum, synced.sums)
        amaf = synced_amaf = None
        if tree.amaf is not None and synced.amaf is not None:
            both = [pool(*x) for x in zip(tree.amaf, synced.amaf, strict=True)]
            amaf, synced_amaf = (trees.Counts(*x) for x in zip(*both, strict=True))
        synced = trees.LastSync(synced_visits, synced_sums, synced_amaf)
        return tree.replace(visits=visits, value_sum=value_sum, amaf=amaf, last_sync=synced)

    tree = lax.fori_loop(0, jnp.max(places.size), pool_at, tree)
    return Exchanged(tree, *_packed(places.nodes.reshape(-1, tree.num_trees)))


def _packed(nodes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(nodes i32[S, T] with every NO_NODE moved behind the others, i32[T] the number of nodes)."""
    exists = nodes != NO_NODE
    at = jnp.where(exists, jnp.cumsum(exists, axis=0, dtype=jnp.int32) - 1, nodes.shape[0])
    lanes = jnp.arange(nodes.shape[1])[None]
    packed = jnp.full_like(nodes, NO_NODE).at[at, lanes].set(nodes, mode="drop")
    return packed, jnp.sum(exists, axis=0, dtype=jnp.int32)


def by_turns(
    start: jax.Array,
    end: jax.Array | int,
    every: int,
    simulate: Callable[[jax.Array, Any], Any],
    exchange_trees: Callable[[Tree, jax.Array], Tree],
    state: Any,
) -> Any:
    """``fori_loop(start, end, simulate, state)``; the trees exchange before every `every`-th step.

    Args:
      start, end: i32[], steps.
      every: the number of steps between two exchanges. There is none before step 0.
      simulate: (i, state) -> state; the trees are the first element of `state`.
      exchange_trees: (tree, is_due bool[]) -> tree.
      state: the carry of the loop.
    """

    def turn(carry):
        i, (tree, *others) = carry
        until = jnp.minimum((i // every + 1) * every, end)
        tree = exchange_trees(tree, (i > 0) & (i % every == 0))
        return until, lax.fori_loop(i, until, simulate, (tree, *others))

    start = jnp.asarray(start, jnp.int32)
    return lax.while_loop(lambda carry: carry[0] < end, turn, (start, state))[1]


def merged_roots(tree: Tree, ensemble: Ensemble) -> root.RootResult:
    """The merged root of each game's trees; priors are averaged, because their noise differs."""
    num_games = tree.num_trees // ensemble.own_trees
    by_game = lambda x: x.reshape(num_games, ensemble.own_trees, *x.shape[1:])
    roots = jnp.full((num_games, ensemble.own_trees), ROOT, jnp.int32)
    here, below = (
        _shared_node(tree, ensemble, roots),
        _shared_node(tree, ensemble, _children(tree, roots)),
    )
    of_trees = trees.all_edges(tree, ROOT)
    value, visits = values.mean(here.sums(tree), here.visits(tree)), below.visits(tree)
    edges = Edges(
        prior=ensemble.total(jnp.mean(by_game(of_trees.prior), axis=1)) / ensemble.devices,
        visits=visits,
        q=values.mean(-below.sums(tree), visits),
        value=value,
        total=jnp.sum(visits, axis=1),
    )
    if tree.proven is None or of_trees.proven is None:
        return root.RootResult(edges, value, None)
    # A proof in one tree holds for all; and together they may prove all actions, each some.
    results = ensemble.greatest(jnp.max(by_game(of_trees.proven), axis=1))
    of_legal = jnp.where(edges.legal, results, -1)
    has_untried = jnp.zeros(num_games, bool)  # untried actions are legal with unknown results
    own_proven = jnp.max(by_game(rows.read(tree.proven, tree.row(ROOT))), axis=1)
    proven = ensemble.greatest(own_proven)
    proven = jnp.maximum(proven, jax.vmap(proofs.of_actions)(of_legal, has_untried))
    edges = edges._replace(q=proofs.exact_or(results, edges.q), proven=results)
    return root.RootResult(edges, proofs.exact_or(proven, value), proven)
