"""Continuing from an earlier tree: re-root it, prune it, refresh its root.

When a game has moved on, its tree is compacted: the nodes to keep move to the front in their old
order, so parents still precede their children. The nodes below a node are found by pointer
doubling over parents, and lists of children are rebuilt from the parents of the kept nodes, so
`children` is the one array with an action axis that is not moved.

Visits from the earlier tree count towards the maximum that a value sum can hold: a tree in which
this search could exceed it is rebuilt from scratch.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gozero.compile import indexing
from gozero.search import backup, expand, root, rows
from gozero.search import tree as trees
from gozero.search.choose import Draws
from gozero.search.config import SearchConfig
from gozero.search.evaluate import Evaluated
from gozero.search.memory import optional_arrays
from gozero.search.tree import NO_NODE, ROOT, Tree

_STATIC = {"capacity", "codec"}
_REBUILT = {"children", "num_children", "parent", "size"}
_NODE_NUMBERS = {"next"}
_WRITTEN_WHOLE = {"prior"}
"""Rows of new nodes are written whole, so rows that are not in use need not be blank."""
_BLANK = {
    "untried_prior": -jnp.inf,
    "edge_prior": -jnp.inf,
    "next": NO_NODE,
}
"""The values that `allocate` fills rows with; all other fields are 0."""

_NODES_AT_ONCE = 16


def empty(roots: Any, num_actions: int, config: SearchConfig, prior_counts: bool = False) -> Tree:
    """Empty trees for a first search with ``tree=``, which initialises all of them.

    Args:
      roots: positions with a leading axis [B], as `game.positions_of(game, states)` returns them
        (for Go they are not the states); only their shapes matter.
      num_actions: A.
      config: the search's settings.
      prior_counts: whether the evaluator has a heuristic whose values count as visits.
    """
    if config.ensemble is not None:
        roots = jax.eval_shape(config.ensemble.copies, roots)
    return trees.allocate(
        roots, num_actions, config.num_nodes, optional_arrays(config, prior_counts)
    )


def reroot(tree: Tree, action: jax.Array) -> Tree:
    """Make the root's child by an action the new root, and keep the subtree below it.

    The new root has the priors of its own evaluation, because only roots get noise, and the visits
    that it had as a child. Nodes at the old depth limit can be expanded again.

    Args:
      tree: the trees, R = B * N rows.
      action: i32[B]. With -1, or any action for which the root has no child, the tree becomes
        empty, and the next search initialises it. For an ensemble, one action per game.

    Returns:
      The trees, in arrays of the same shapes; `size` is 0 where nothing is left.

    Raises:
      ValueError: actions of another batch size.
    """
    if tree.last_sync is not None and action.size and tree.num_trees % action.size == 0:
        action = jnp.repeat(action, tree.num_trees // action.size)
    if action.shape != (tree.num_trees,):
        raise ValueError(
            f"action: shape {action.shape}; give one action for each tree, {(tree.num_trees,)}"
        )
    parent = _by_tree(tree, tree.parent)
    node = jnp.arange(tree.capacity, dtype=jnp.int32)[None]
    in_use = node < tree.size[:, None]
    is_child = in_use & (parent == ROOT) & (_by_tree(tree, tree.action) == action[:, None])
    child = jnp.max(jnp.where(is_child, node, NO_NODE), axis=1)[:, None]
    up = jnp.where(in_use & (node != child), parent, node)
    kept = (_furthest(tree, jnp.maximum(up, ROOT)) == child) & in_use
    return _compact(tree, kept)


def prune(tree: Tree, max_nodes: int | jax.Array) -> Tree:
    """Keep the `max_nodes` most visited nodes of each tree; among equals, the earlier ones.

    Visits decrease along a path, so the parents of kept nodes are kept. A dropped child's prior is
    returned to its parent's untried actions, and if the parent's cached choice was that child, it
    tries its best untried action instead. The parent's visits and value sum stay. (The best untried
    action is by prior here; the rule's own order applies again once an action is tried.)

    Args:
      tree: the trees.
      max_nodes: a number, or i32[B]; 0 empties a tree.
    """
    return keep(tree, _most_visited(tree, max_nodes).reshape(-1))


def keep(tree: Tree, kept: jax.Array) -> Tree:
    """The trees with only the nodes bool[R], in their old order; rows after them are blank, except
    for priors and lists of children, which are undefined there.

    Args:
      tree: the trees.
      kept: which nodes to keep; the parent of a kept node must be kept. The priors of dropped
        children are returned to their parents, as in `prune`.

    Raises:
      ValueError: `kept` does not have one entry for each row.
    """
    if kept.shape != tree.visits.shape:
        raise ValueError(
            f"kept: shape {kept.shape}; give one entry for each row of the trees, "
            f"{tree.visits.shape}"
        )
    in_use = jnp.arange(tree.capacity)[None] < tree.size[:, None]
    kept = _by_tree(tree, kept) & in_use
    return _return_priors(tree, _compact(tree, kept), kept)


def _by_tree(tree: Tree, x: jax.Array) -> jax.Array:
    """Reshape [R] -> [B, N]; integers become i32."""
    x = x.reshape(tree.num_trees, tree.capacity)
    return x if x.dtype == bool else x.astype(jnp.int32)


def _furthest(tree: Tree, up: jax.Array) -> jax.Array:
    """i32[B, N]: the node that each node reaches by following `up` to a fixed point.

    Pointer doubling: trip bound log2(depth) + 2.
    """
    first = trees.first_row(tree)

    def double(carry):
        _, up = carry
        further = rows.read(up.reshape(-1), first + up)
        return jnp.any(further != up), further

    return lax.while_loop(lambda carry: carry[0], double, (jnp.bool_(True), up))[1]


def _most_visited(tree: Tree, max_nodes: int | jax.Array) -> jax.Array:
    """bool[B, N]: the most visited nodes of each tree, at most `max_nodes`."""
    in_use = jnp.arange(tree.capacity)[None] < tree.size[:, None]
    visits = jnp.where(in_use, _by_tree(tree, tree.visits), 0)
    max_nodes = jnp.broadcast_to(
        jnp.asarray(max_nodes, jnp.int32).reshape(-1, 1), (tree.num_trees, 1)
    )
    max_nodes = jnp.minimum(max_nodes, tree.capacity)
    lowest = jnp.take_along_axis(
        -jnp.sort(-visits, axis=1), jnp.maximum(max_nodes - 1, 0), axis=1, mode="promise_in_bounds"
    )
    is_above, is_equal = visits > lowest, visits == lowest
    num_equal = max_nodes - jnp.sum(is_above, axis=1, dtype=jnp.int32, keepdims=True)
    first = jnp.cumsum(is_equal, axis=1, dtype=jnp.int32) <= num_equal
    # An equal child comes after its parent.
    return (visits > 0) & (max_nodes > 0) & (is_above | (is_equal & first))


def _compact(tree: Tree, kept: jax.Array) -> Tree:
    """The trees with only the nodes bool[B, N], and rows after them as `keep` says.

    Fields that are not named here contain no node numbers: their rows are moved unchanged.
    """
    first, node = trees.first_row(tree), jnp.arange(tree.capacity, dtype=jnp.int32)[None]
    new = _new_numbers(kept)
    size = jnp.sum(kept, axis=1, dtype=jnp.int32)
    target = jnp.where(kept, first + new, trees.outside(tree)).reshape(-1)
    source = rows.write(jnp.zeros(tree.num_rows, jnp.int32), target, jnp.arange(tree.num_rows))
    in_use = (node < size[:, None]).reshape(-1)

    def moved(name, x):
        if name in _WRITTEN_WHOLE:
            return _moved_rows(tree, x, source, size, None)
        blank = jnp.asarray(_BLANK.get(name, 0), x.dtype)
        if x.ndim == 1:
            return jnp.where(in_use, rows.read(x, source), blank)
        return _moved_rows(tree, x, source, size, blank)

    def renumbered(x):  # [R]: node numbers, in the new rows
        old = _by_tree(tree, x)
        number = rows.read(new.reshape(-1), first + jnp.maximum(old, ROOT))
        return jnp.where(old >= 0, number, NO_NODE).reshape(-1)

    fields = {}
    for field in dataclasses.fields(tree):
        if field.name in _STATIC | _REBUILT:
            continue
        values = jax.tree.map(lambda x, name=field.name: moved(name, x), getattr(tree, field.name))
        fields[field.name] = (
            renumbered(values).astype(values.dtype) if field.name in _NODE_NUMBERS else values
        )
    parent = jnp.where(in_use, rows.read(tree.parent, source), NO_NODE).astype(jnp.int32)
    parent = renumbered(parent)
    # In a full tree, nodes may have -inf here despite untried actions: `select.Leaf.tree_full`.
    untried_prior = fields["prior"][jnp.arange(tree.num_rows), fields["untried"].astype(jnp.int32)]
    fields["untried_prior"] = jnp.where(in_use, untried_prior, _BLANK["untried_prior"])
    children, num_children = trees.children_of(tree, parent)
    return tree.replace(
        **fields,
        children=children,
        num_children=num_children,
        parent=parent.astype(tree.parent.dtype),
        size=size,
    )


def _moved_rows(
    tree: Tree, x: jax.Array, source: jax.Array, size: jax.Array, blank: jax.Array | None
) -> jax.Array:
    """[R, ...]: row i is the old row source[i], or blank beyond the tree's new size, i32[B].

    Moves some nodes of all trees at a time, in place, which works because no row moves to a higher
    number. It stops at the size of the largest old tree: later rows are blank already; or, if
    `blank` is None and rows beyond the size stay as they are, of the largest new one. Trip bound:
    N / _NODES_AT_ONCE, rounded up.
    """
    chunk, source = min(_NODES_AT_ONCE, tree.capacity), source.reshape(tree.num_trees, -1)

    def move_some(i, moved):
        # The last chunk may overlap the one before it; rows that were moved already stay.
        start = jnp.minimum(i * chunk, tree.capacity - chunk)
        node = start + jnp.arange(chunk, dtype=jnp.int32)
        own = trees.first_row(tree) + node[None]
        from_row = lax.dynamic_slice_in_dim(source, start, chunk, axis=1)
        from_row = jnp.where(node[None] < i * chunk, own, from_row)
        in_use = node[None] < size[:, None]
        if blank is None:
            values = rows.read(moved, jnp.where(in_use, from_row, own))
        else:
            in_use = in_use.reshape(*own.shape, *[1] * (x.ndim - 1))
            values = jnp.where(in_use, rows.read(moved, from_row), blank)
        return rows.write(moved, own.reshape(-1), values.reshape(-1, *x.shape[1:]))

    num_chunks = (jnp.max(size if blank is None else tree.size) + chunk - 1) // chunk
    return lax.fori_loop(0, num_chunks, move_some, x)


def _new_numbers(kept: jax.Array) -> jax.Array:
    """i32[B, N]: the new number of each node; NO_NODE where not kept."""
    return jnp.where(kept, jnp.cumsum(kept, axis=1, dtype=jnp.int32) - 1, NO_NODE)


def _return_priors(old: Tree, tree: Tree, kept: jax.Array) -> Tree:
    """`tree`, which has the nodes `kept` of `old`, with the priors of dropped children returned."""
    first, new, outside = trees.first_row(old), _new_numbers(kept), trees.outside(old)
    in_use = jnp.arange(old.capacity)[None] < old.size[:, None]
    parent = _by_tree(old, old.parent)
    parent = jnp.where(
        parent >= 0, rows.read(new.reshape(-1), first + jnp.maximum(parent, 0)), NO_NODE
    )
    # (Priors are no larger than 2.)
    is_sound = rows.read(tree.untried_prior, first + jnp.maximum(parent, 0)) <= 2
    is_dropped = indexing.after(in_use & ~kept & (parent >= 0), is_sound)
    row = jnp.where(is_dropped, first + parent, outside).reshape(-1)
    prior = old.edge_prior
    best = jnp.full(old.num_rows, -jnp.inf, jnp.float32).at[row].max(prior, mode="drop")
    is_best = prior == rows.read(best, jnp.minimum(row, old.num_rows - 1))
    action = old.action.astype(jnp.int32)
    at_best = jnp.where(is_best, row, outside.reshape(-1))
    best_action = jnp.full(old.num_rows, -1, jnp.int32).at[at_best].max(action, mode="drop")
    is_better = best > tree.untried_prior
    return tree.replace(
        prior=rows.write_entries(tree.prior, row, action, prior),
        untried=jnp.where(is_better, best_action.astype(tree.untried.dtype), tree.untried),
        untried_prior=jnp.where(is_better, best, tree.untried_prior),
    )


def make_room(tree: Tree, config: SearchConfig) -> Tree:
    """The trees with room for the new nodes of a step: full ones are pruned to half the capacity.

    This is one way to prune old nodes during a search, as in Gelly & Silver (2011): `prune` drops
    the least visited nodes, and among equals the latest.
    """

    def prune_full(tree):
        return prune(tree, jnp.where(has_room(tree, config), tree.capacity, tree.capacity // 2))

    # Runs once or not at all: a loop prunes the trees in place, where a `cond` would copy them.
    return lax.while_loop(lambda tree: ~jnp.all(has_room(tree, config)), prune_full, tree)


def has_room(tree: Tree, config: SearchConfig) -> jax.Array:
    """bool[B]: whether a tree has room for the new nodes of a step."""
    return tree.size + config.leaves <= tree.capacity


def fit(tree: Tree, roots: Any, config: SearchConfig) -> tuple[Tree, jax.Array]:
    """Trees that a search of these roots can continue from.

    At most `config.num_kept` nodes of each tree are kept. A tree becomes empty if its root is
    another position, or if its visits, including a heuristic's counts, and those of this search
    could exceed what a value sum holds (`config.most_simulations`).

    Returns:
      (trees, is_same bool[B]): False for a tree whose root is another position.
    """
    row = tree.row(ROOT)
    is_same = jnp.ones(tree.num_trees, bool)
    stored = (rows.read(x, row) for x in tree.positions)
    for stored_words, root_words in zip(stored, rows.encode(tree.codec, roots), strict=True):
        is_same &= jnp.all(stored_words == root_words, axis=1)
    is_same |= tree.size == 0
    old_visits = rows.read(tree.visits, row) - 1  # the root's own evaluation is the spare visit
    remaining = config.most_simulations - config.num_simulations
    continues = is_same & (_max_count(tree, old_visits) <= remaining)
    max_nodes = jnp.where(continues, config.num_kept, 0)
    too_large = jnp.any(tree.size > max_nodes)
    return lax.cond(
        too_large, lambda tree: prune(tree, max_nodes), lambda tree: tree, tree
    ), is_same


def _max_count(tree: Tree, visits: jax.Array) -> jax.Array:
    """i32[B]: a bound on the visits and the AMAF visits of every action of a tree."""

    def highest(counts: trees.Counts) -> jax.Array:
        of_node = jnp.max(counts.visits, axis=1).reshape(tree.num_trees, tree.capacity)
        in_use = jnp.arange(tree.capacity)[None] < tree.size[:, None]
        return jnp.max(jnp.where(in_use, of_node, 0), axis=1)

    count = visits
    if tree.prior_counts is not None:
        count = visits + highest(tree.prior_counts)
    if tree.amaf is not None:
        count = jnp.maximum(count, highest(tree.amaf))
    return count


def refresh_root(
    tree: Tree, evaluated: Evaluated, roots: Any, config: SearchConfig, draws: Draws
) -> Tree:
    """Write the roots of empty trees; other roots get new priors, and choose again.

    The priors are those of the new evaluation with this search's noise, so that noise does not
    accumulate. The statistics of the roots' children stay.
    """
    is_new, row = tree.size == 0, tree.row(ROOT)
    lanes = jnp.arange(tree.num_trees, dtype=jnp.int32)[:, None]
    is_child = jnp.arange(tree.num_actions)[None] < rows.read(tree.num_children, row)[:, None]
    child = jnp.where(is_child, rows.read(tree.children, row).astype(jnp.int32), ROOT)
    child_row = row[:, None] + child
    action = rows.read(tree.action, child_row).astype(jnp.int32)
    tried = jnp.where(is_child, action, tree.num_actions)
    untried_prior = evaluated.prior.at[lanes, tried].set(-jnp.inf, mode="drop")
    edge_prior = evaluated.prior[lanes, action]
    place = jnp.arange(child.size, dtype=jnp.int32).reshape(child.shape)
    edge_rows = jnp.where(is_child, child_row, tree.num_rows + place)
    edge_priors = rows.write(tree.edge_prior, edge_rows.reshape(-1), edge_prior.reshape(-1))
    evaluated = evaluated._replace(prior=untried_prior)
    tree = tree.replace(edge_prior=edge_priors)
    tree = root.init_root(tree, evaluated, roots, config, draws, is_new)
    # A proof that came from a dropped child must be found again, so that its action is played.
    tree = backup.back_up_values(
        tree, root.root_path(tree), evaluated.proven, config.backup, look=True
    )
    return expand.choose_again_at_roots(tree, config, draws)
