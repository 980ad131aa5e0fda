"""Dense selection: the cached choice at each node of the paths, from the whole row of its actions.

For searches whose actions without visits differ in more than their priors: all-moves-as-first
(AMAF) statistics and a heuristic's counts belong to actions, tried or not. A node is scored in two
parts: its untried actions, in the row of all A actions, and its children. The best untried action
then represents all of them beside the children, so a rule cannot score an action by its siblings
(`Needs.siblings`).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.compile import indexing, mode, stages
from gozero.search import proofs, rows, values
from gozero.search import tree as trees
from gozero.search.edges import Edges, Rule, as_rule, best_edge, score_edges, tie_break
from gozero.search.tree import NO_NODE, Path, Tree


def open_rows(tree: Tree, row: jax.Array) -> Tree:
    """Mark that new nodes at rows i32[B] may try actions: `untried_prior` is not -inf."""
    return tree.replace(untried_prior=rows.write(tree.untried_prior, row, jnp.zeros(row.shape)))


class Credit(NamedTuple):
    """The all-moves-as-first credit of a simulation for the actions along its path."""

    counted: jax.Array  # u32[D + 1, B, W]: the actions that count, from `backup.amaf_counted`
    value: jax.Array  # i32[B], fixed point, for the player to move where the path ends
    legal_only: bool = False  # static: `Amaf.legal_only`


def choose_again(
    tree: Tree,
    path: Path,
    select: Rule,
    tie_seeds: jax.Array,
    credit: Credit | None,
    tree_full: jax.Array | None = None,
) -> Tree:
    """Credit the actions at every node of the paths, and choose again there.

    The nodes are processed level by level, in chunks without gaps. Trip bound: D + 1 chunks.

    Args:
      tree: the trees, with the values backed up.
      path: the paths.
      select: the rule.
      tie_seeds: u32[B], one per tree, for ties.
      credit: for all-moves-as-first statistics; None if there is nothing to add.
      tree_full: bool[B]: whether the last node of the path must choose among its children only,
        because the tree is full. From then on, its `untried_prior` is -inf.

    Returns:
      The trees with new all-moves-as-first statistics, `next`, `untried` and `untried_prior`.
    """
    num_trees = tree.num_trees
    max_chunk = _CHUNK if mode.writes_sequentially() else num_trees
    chunk = max(2, min(num_trees, max_chunk, stages.MAX_REDUCED // (tree.num_actions + 1)))
    packed = trees.packed(path.length, path.nodes.shape[0])

    def choose_some(i, carry):
        slots = packed.slots(i * chunk + jnp.arange(chunk, dtype=jnp.int32))
        changing = tree.replace(**carry)
        return _choose_at(changing, path, select, tie_seeds, credit, tree_full, slots)

    names = ["next", "untried", "untried_prior"]
    if credit is not None:
        names += ["amaf"]
    carry = {name: getattr(tree, name) for name in names}
    return tree.replace(
        **lax.fori_loop(0, (packed.ends[-1] + chunk - 1) // chunk, choose_some, carry)
    )


def _choose_at(
    tree: Tree,
    path: Path,
    select,
    tie_seeds: jax.Array,
    credit: Credit | None,
    tree_full,
    slots: trees.PathSlots,
) -> dict[str, jax.Array]:
    """The changed arrays, by name."""
    node = jnp.maximum(path.nodes[slots.level, slots.index], trees.ROOT)
    row = slots.index * tree.capacity + node
    place = jnp.arange(row.size, dtype=jnp.int32)
    target = jnp.where(slots.counts, row, tree.num_rows + place)
    changed = {}
    if credit is not None and tree.amaf is not None:
        is_credited = rows.unpack(credit.counted[slots.level, slots.index], tree.num_actions)
        if credit.legal_only:
            is_credited &= _legal(tree, slots.index, node)
        plies = path.length[slots.index] - slots.level
        gained = values.opponent(credit.value[slots.index], plies)
        visits = rows.read(tree.amaf.visits, row) + is_credited
        sums = values.plus(
            rows.read(tree.amaf.sums, row), jnp.where(is_credited, gained[:, None], 0)
        )
        changed["amaf"] = trees.Counts(
            rows.write(tree.amaf.visits, target, visits), rows.write(tree.amaf.sums, target, sums)
        )
        tree = tree.replace(**changed)

    is_full = jnp.zeros(row.shape, bool)
    if tree_full is not None:
        is_last = slots.level == path.length[slots.index]
        is_full = jnp.isneginf(rows.read(tree.untried_prior, row))
        is_full |= is_last & tree_full[slots.index]
    max_children = jnp.max(jnp.where(slots.counts, rows.read(tree.num_children, row), 0))
    chosen = choose(tree, select, slots.index, node, max_children, tie_seeds, is_full)
    changed["next"] = rows.write(tree.next, target, chosen.next)
    changed["untried"] = rows.write(tree.untried, target, chosen.untried)
    changed["untried_prior"] = rows.write(tree.untried_prior, target, chosen.untried_prior)
    return changed


def _legal(tree: Tree, index: jax.Array, node: jax.Array) -> jax.Array:
    """bool[M, A]: the legal actions at nodes i32[M] of trees i32[M], tried or not."""
    entries = trees.children(tree, index, node, tree.num_actions)
    action = jnp.where(entries.nodes == NO_NODE, tree.num_actions, entries.actions)
    is_untried = rows.read(tree.prior, index * tree.capacity + node) >= 0
    lane = jnp.arange(node.size, dtype=jnp.int32)[:, None]
    return is_untried.at[lane, action].set(True, mode="drop")


_CHUNK = 32


class Chosen(NamedTuple):
    next: jax.Array  # i32[M]: the child; NO_NODE for the best untried action
    untried: jax.Array  # i32[M]: the best untried action
    untried_prior: jax.Array  # f32[M]: its prior; -inf if there is none


def choose(
    tree: Tree,
    select,
    index: jax.Array,
    node: jax.Array,
    max_children: jax.Array,
    tie_seeds: jax.Array,
    tree_full: jax.Array,
    amaf_source: jax.Array | None = None,
) -> Chosen:
    """A rule's choices at some nodes.

    Args:
      tree: the trees.
      select: the rule.
      index, node: i32[M]: node `node` of tree `index`; few enough for one kernel.
      max_children: i32[]: the most children of any of these nodes; further ones may be missed.
      tie_seeds: u32[B], one per tree, for ties.
      tree_full: bool[M]: whether the node must choose among its children.
      amaf_source: i32[M]: the rows to read all-moves-as-first statistics from; None: the nodes'
        own rows.
    """
    above = ["parent"] if as_rule(select).needs.above else []
    inputs = trees.with_only(tree, "prior", *trees.READ_OF_CHILDREN, *above)
    args = (
        inputs,
        index,
        node,
        tie_seeds,
        tree_full,
        *([] if amaf_source is None else [amaf_source]),
    )

    def choose_here(width):
        return stages.one_kernel(functools.partial(_choose, select, width), *args)

    return rows.by_width(max_children, tree.num_actions, choose_here)


def _choose(
    select,
    width: int,
    tree: Tree,
    index: jax.Array,
    node: jax.Array,
    tie_seeds: jax.Array,
    tree_full: jax.Array,
    amaf_source: jax.Array | None = None,
) -> Chosen:
    tie_seed = rows.read(tie_seeds, index)
    tried = trees.children(tree, index, node, width, amaf_source)
    row = _untried(tree, index * tree.capacity + node, tried.edges, amaf_source)
    total = tried.edges.total + jnp.sum(row.visits, axis=1)
    tried_edges, row = tried.edges._replace(total=total), row._replace(total=total)
    if as_rule(select).needs.above:
        above = _above(tree, index, node)
        actions = jnp.maximum(tried.actions, 0)
        row = row._replace(above_visits=above.visits, above_q=above.q)
        at_children = lambda x: jnp.take_along_axis(x, actions, axis=1)
        tried_edges = tried_edges._replace(
            above_visits=at_children(above.visits), above_q=at_children(above.q)
        )

    scores = score_edges(select, row)
    scores = jnp.where(row.prior >= 0, scores, -jnp.inf)
    actions = jnp.arange(tree.num_actions, dtype=jnp.int32)
    priority = jax.vmap(tie_break, in_axes=(0, 0, None))(tie_seed, node, actions)
    untried = jax.vmap(best_edge)(scores, priority)
    is_best = actions[None] == untried[:, None]
    best = jnp.where(tree_full, -jnp.inf, indexing.highest(scores))

    tried_scores = proofs.avoid_lost(score_edges(select, tried_edges), tried_edges.proven)
    tried_scores = jnp.where(tried.nodes >= 0, tried_scores, -jnp.inf)
    scores = jnp.concatenate([tried_scores, best[:, None]], axis=1)
    nodes = jnp.concatenate([tried.nodes, jnp.full_like(tried.nodes[:, :1], NO_NODE)], axis=1)
    priority = jax.vmap(tie_break)(tie_seed, node, nodes)
    entry = jax.vmap(best_edge)(scores, priority)
    chosen = jnp.take_along_axis(nodes, entry[:, None], axis=1)[:, 0]
    return Chosen(
        next=trees.unless_proven(tree, index * tree.capacity + node, chosen),
        untried=untried,
        untried_prior=jnp.where(
            tree_full, -jnp.inf, indexing.highest(jnp.where(is_best, row.prior, -jnp.inf))
        ),
    )


class _Above(NamedTuple):
    visits: jax.Array  # i32[M, A]: N~; 0 if there is no node two plies above
    q: jax.Array  # f32[M, A]: Q~


def _above(tree: Tree, index: jax.Array, node: jax.Array) -> _Above:
    """All-moves-as-first statistics two plies above nodes i32[M] of trees i32[M]."""
    assert tree.amaf is not None  # the rule needs it
    first, ancestor = index * tree.capacity, node
    for _ in range(2):
        parent = rows.read(tree.parent, first + jnp.maximum(ancestor, trees.ROOT)).astype(jnp.int32)
        ancestor = jnp.where(ancestor == NO_NODE, NO_NODE, parent)
    counts, sums = (rows.read(x, first + jnp.maximum(ancestor, trees.ROOT)) for x in tree.amaf)
    counts = jnp.where((ancestor == NO_NODE)[:, None], 0, counts)
    return _Above(counts, jnp.where(counts > 0, values.mean(sums, counts), 0.0))


def _untried(tree: Tree, row: jax.Array, tried: Edges, amaf_source: jax.Array | None) -> Edges:
    """The untried actions of nodes in rows i32[M]: [M, A]; actions with a child have prior -inf.

    `amaf_source` is as in `choose`.
    """
    prior = rows.read(tree.prior, row)
    visits = jnp.zeros(prior.shape, jnp.int32)
    edges = Edges(prior, visits, jnp.zeros_like(prior), tried.value, tried.total)
    if tree.squares is not None:
        edges = edges._replace(variance=jnp.zeros_like(prior))
    if tree.prior_counts is not None:
        visits = jnp.where(prior >= 0, rows.read(tree.prior_counts.visits, row), 0)
        edges = edges._replace(
            visits=visits, q=values.mean(rows.read(tree.prior_counts.sums, row), visits)
        )
    if tree.amaf is not None:
        count, sums = (rows.read(x, row if amaf_source is None else amaf_source) for x in tree.amaf)
        edges = edges._replace(amaf_visits=count, amaf_q=values.mean(sums, count))
    return edges
