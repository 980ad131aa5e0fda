"""Going on from an earlier tree: re-root it, prune it, refresh its root.

A tree of a game that has moved on is compacted: the nodes to keep move to the front in their old
order, so parents still precede their children. What lies below a node is found by pointer
doubling over parents, and lists of children are made anew from the parents of what is kept, so
of the arrays with an action axis only those that hold more than children are moved.

Visits that are taken over count towards `config.MAX_VISITS`: a tree in which this search could
pass it is made anew.
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
from gozero.search.memory import keeps_of
from gozero.search.tree import NO_NODE, ROOT, Tree

_STATIC = {"capacity", "codec"}
_MADE_ANEW = {"children", "num_children", "parent", "size"}
_NODE_NUMBERS = {"next"}
_BLANK = {
    "prior": -jnp.inf,
    "untried_prior": -jnp.inf,
    "edge_prior": -jnp.inf,
    "next": NO_NODE,
}
"""What `allocate` fills a row with; any other field is 0 there."""

_NODES_AT_ONCE = 16


def empty(roots: Any, num_actions: int, config: SearchConfig, prior_counts: bool = False) -> Tree:
    """Trees for a first search with ``tree=``: all of them will be initialised.

    Args:
      roots: positions with a leading axis [B]; only their shapes matter.
      num_actions: A.
      config: the search's settings.
      prior_counts: the evaluator has a heuristic whose values count as visits.
    """
    if config.ensemble is not None:
        roots = jax.eval_shape(config.ensemble.copies, roots)
    return trees.allocate(roots, num_actions, config.num_nodes, keeps_of(config, prior_counts))


def reroot(tree: Tree, action: jax.Array) -> Tree:
    """The subtree below the root's child by an action becomes the tree.

    The new root has the priors that its evaluation gave it, for noise is on roots only, and the
    visits that it had as a child. Nodes at the old depth limit are open again.

    Args:
      tree: the trees, R = B * N rows.
      action: i32[B]; -1, or any action that the root has no child by: the tree becomes empty, and
        the next search makes it anew. Of an ensemble one a game.

    Returns:
      The trees, in arrays of the same shapes; with `size` 0 where nothing is left.

    Raises:
      ValueError: actions of another batch.
    """
    if tree.last_sync is not None and action.size and tree.num_trees % action.size == 0:
        action = jnp.repeat(action, tree.num_trees // action.size)
    if action.shape != (tree.num_trees,):
        raise ValueError(f"action: shape {action.shape}; the trees want {(tree.num_trees,)}")
    parent = _by_tree(tree, tree.parent)
    node = jnp.arange(tree.capacity, dtype=jnp.int32)[None]
    in_use = node < tree.size[:, None]
    is_child = in_use & (parent == ROOT) & (_by_tree(tree, tree.action) == action[:, None])
    child = jnp.max(jnp.where(is_child, node, NO_NODE), axis=1)[:, None]
    up = jnp.where(in_use & (node != child), parent, node)
    kept = (_furthest(tree, jnp.maximum(up, ROOT)) == child) & in_use
    return _compact(tree, kept)


def prune(tree: Tree, most: int | jax.Array) -> Tree:
    """Keep the most visited nodes, at most so many; the earlier ones among equals.

    Visits fall along a path, so what is kept has its parents. A dropped child's prior goes back
    to its parent's untried actions, and a node that would have gone on to the child tries its
    best untried action instead. The visits and the value sum of the parent stay. (The priors
    decide which untried action is best, until the rule's own order is asked when one is tried.)

    Args:
      tree: the trees.
      most: a number, or i32[B]; 0 empties a tree.
    """
    return keep(tree, _most_visited(tree, most).reshape(-1))


def keep(tree: Tree, kept: jax.Array) -> Tree:
    """The trees with the nodes bool[R] only, in their order; rows beyond them are blank.

    Args:
      tree: the trees.
      kept: with a node its parent. The priors of children that are dropped go back to their
        parents, as in `prune`.

    Raises:
      ValueError: not one for each row.
    """
    if kept.shape != tree.visits.shape:
        raise ValueError(f"kept: shape {kept.shape}; the trees have rows {tree.visits.shape}")
    in_use = jnp.arange(tree.capacity)[None] < tree.size[:, None]
    kept = _by_tree(tree, kept) & in_use
    return _give_back(tree, _compact(tree, kept), kept)


def _by_tree(tree: Tree, x: jax.Array) -> jax.Array:
    """[R] -> [B, N]; node numbers as i32."""
    x = x.reshape(tree.num_trees, tree.capacity)
    return x if x.dtype == bool else x.astype(jnp.int32)


def _furthest(tree: Tree, up: jax.Array) -> jax.Array:
    """i32[B, N]: where each node comes to by `up`, again and again; a last one leads to itself.

    Pointer doubling: trip bound log2(depth) + 2.
    """
    first = trees.first_row(tree)

    def double(carry):
        _, up = carry
        further = rows.read(up.reshape(-1), first + up)
        return jnp.any(further != up), further

    return lax.while_loop(lambda carry: carry[0], double, (jnp.bool_(True), up))[1]


def _most_visited(tree: Tree, most: int | jax.Array) -> jax.Array:
    """bool[B, N]: at most so many of each tree's nodes."""
    in_use = jnp.arange(tree.capacity)[None] < tree.size[:, None]
    visits = jnp.where(in_use, _by_tree(tree, tree.visits), 0)
    most = jnp.broadcast_to(jnp.asarray(most, jnp.int32).reshape(-1, 1), (tree.num_trees, 1))
    most = jnp.minimum(most, tree.capacity)
    lowest = jnp.take_along_axis(
        -jnp.sort(-visits, axis=1), jnp.maximum(most - 1, 0), axis=1, mode="promise_in_bounds"
    )
    more, equal = visits > lowest, visits == lowest
    room = most - jnp.sum(more, axis=1, dtype=jnp.int32, keepdims=True)
    first = jnp.cumsum(equal, axis=1, dtype=jnp.int32) <= room
    # An equal child comes after its parent.
    return (visits > 0) & (most > 0) & (more | (equal & first))


def _compact(tree: Tree, kept: jax.Array) -> Tree:
    """The trees with the nodes bool[B, N] only; blank rows after them.

    Fields that are not named here hold no node numbers: their rows move as they are.
    """
    first, node = trees.first_row(tree), jnp.arange(tree.capacity, dtype=jnp.int32)[None]
    new = _new_numbers(kept)
    size = jnp.sum(kept, axis=1, dtype=jnp.int32)
    goes_to = jnp.where(kept, first + new, trees.outside(tree)).reshape(-1)
    source = rows.write(jnp.zeros(tree.num_rows, jnp.int32), goes_to, jnp.arange(tree.num_rows))
    in_use = (node < size[:, None]).reshape(-1)

    def moved(name, x):
        blank = jnp.asarray(_BLANK.get(name, 0), x.dtype)
        if x.ndim == 1:
            return jnp.where(in_use, rows.read(x, source), blank)
        return _moved_rows(tree, x, source, size, blank)

    def renumbered(x):  # [R], of the rows in use
        old = _by_tree(tree, x)
        number = rows.read(new.reshape(-1), first + jnp.maximum(old, ROOT))
        return jnp.where(old >= 0, number, NO_NODE).reshape(-1)

    fields = {}
    for field in dataclasses.fields(tree):
        if field.name in _STATIC | _MADE_ANEW:
            continue
        values = jax.tree.map(lambda x, name=field.name: moved(name, x), getattr(tree, field.name))
        fields[field.name] = (
            renumbered(values).astype(values.dtype) if field.name in _NODE_NUMBERS else values
        )
    parent = jnp.where(in_use, rows.read(tree.parent, source), NO_NODE).astype(jnp.int32)
    parent = renumbered(parent)
    # In a full tree nodes have given up what they had not tried: `select.Leaf.tree_full`.
    fields["untried_prior"] = fields["prior"][
        jnp.arange(tree.num_rows), fields["untried"].astype(jnp.int32)
    ]
    children, num_children = trees.children_of(tree, parent)
    return tree.replace(
        **fields,
        children=children,
        num_children=num_children,
        parent=parent.astype(tree.parent.dtype),
        size=size,
    )


def _moved_rows(
    tree: Tree, x: jax.Array, source: jax.Array, size: jax.Array, blank: jax.Array
) -> jax.Array:
    """[R, ...]: row i is row source[i], or blank beyond the tree's size, i32[B].

    Some nodes of all trees at a time, in place: no row comes from one before it. No more of them
    than the largest tree had: the others are blank. Trip bound: N / _NODES_AT_ONCE, rounded up.
    """
    some, source = min(_NODES_AT_ONCE, tree.capacity), source.reshape(tree.num_trees, -1)

    def move_some(i, moved):
        # The last ones may overlap those before, which stay.
        start = jnp.minimum(i * some, tree.capacity - some)
        node = start + jnp.arange(some, dtype=jnp.int32)
        own = trees.first_row(tree) + node[None]
        from_row = lax.dynamic_slice_in_dim(source, start, some, axis=1)
        from_row = jnp.where(node[None] < i * some, own, from_row)
        in_use = (node[None] < size[:, None]).reshape(*own.shape, *[1] * (x.ndim - 1))
        values = jnp.where(in_use, rows.read(moved, from_row), blank)
        return rows.write(moved, own.reshape(-1), values.reshape(-1, *x.shape[1:]))

    num_chunks = (jnp.max(tree.size) + some - 1) // some
    return lax.fori_loop(0, num_chunks, move_some, x)


def _new_numbers(kept: jax.Array) -> jax.Array:
    """i32[B, N]: NO_NODE where not kept."""
    return jnp.where(kept, jnp.cumsum(kept, axis=1, dtype=jnp.int32) - 1, NO_NODE)


def _give_back(old: Tree, tree: Tree, kept: jax.Array) -> Tree:
    """`tree`, of the nodes bool[B, N] of `old`, with the priors of children that it has lost."""
    first, new, outside = trees.first_row(old), _new_numbers(kept), trees.outside(old)
    in_use = jnp.arange(old.capacity)[None] < old.size[:, None]
    parent = _by_tree(old, old.parent)
    parent = jnp.where(
        parent >= 0, rows.read(new.reshape(-1), first + jnp.maximum(parent, 0)), NO_NODE
    )
    # (Priors are no larger than 2.)
    sound = rows.read(tree.untried_prior, first + jnp.maximum(parent, 0)) <= 2
    lost = indexing.after(in_use & ~kept & (parent >= 0), sound)
    row = jnp.where(lost, first + parent, outside).reshape(-1)
    prior = old.edge_prior
    best = jnp.full(old.num_rows, -jnp.inf, jnp.float32).at[row].max(prior, mode="drop")
    is_best = prior == rows.read(best, jnp.minimum(row, old.num_rows - 1))
    action = old.action.astype(jnp.int32)
    at_best = jnp.where(is_best, row, outside.reshape(-1))
    best_action = jnp.full(old.num_rows, -1, jnp.int32).at[at_best].max(action, mode="drop")
    better = best > tree.untried_prior
    return tree.replace(
        prior=rows.write_entries(tree.prior, row, action, prior),
        untried=jnp.where(better, best_action.astype(tree.untried.dtype), tree.untried),
        untried_prior=jnp.where(better, best, tree.untried_prior),
    )


def with_room(tree: Tree, config: SearchConfig) -> Tree:
    """The trees with room for the new nodes of a step: of those without, half their room is kept.

    Of the pruning of old nodes in a search, as in Gelly & Silver (2011), this is one way: what
    goes is what `prune` drops, the least visited and of these the latest.
    """

    def prune_full(tree):
        return prune(tree, jnp.where(has_room(tree, config), tree.capacity, tree.capacity // 2))

    # Once or not at all: in a loop trees are pruned in place, under a condition they are copied.
    return lax.while_loop(lambda tree: ~jnp.all(has_room(tree, config)), prune_full, tree)


def has_room(tree: Tree, config: SearchConfig) -> jax.Array:
    """bool[B]: for the new nodes of a step."""
    return tree.size + config.leaves <= tree.capacity


def fit(tree: Tree, roots: Any, config: SearchConfig) -> tuple[Tree, jax.Array]:
    """Trees that a search of these roots can go on from.

    Of each tree `config.num_kept` nodes are kept at most. One that is of another position, or
    whose visits this search could take past `MAX_VISITS`, those that a heuristic counts for
    among them, becomes empty.

    Returns:
      (trees, is_its_own bool[B]): False for a tree of another position than its root.
    """
    row = tree.row(ROOT)
    same = jnp.ones(tree.num_trees, bool)
    stored = (rows.read(x, row) for x in tree.positions)
    for have, want in zip(stored, rows.encode(tree.codec, roots), strict=True):
        same &= jnp.all(have == want, axis=1)
    same |= tree.size == 0
    spent = rows.read(tree.visits, row) - 1  # the root's own evaluation is the one to spare
    room = config.most_simulations - config.num_simulations
    goes_on = same & (_most_counted(tree, spent) <= room)
    most = jnp.where(goes_on, config.num_kept, 0)
    too_large = jnp.any(tree.size > most)
    return lax.cond(too_large, lambda tree: prune(tree, most), lambda tree: tree, tree), same


def _most_counted(tree: Tree, spent: jax.Array) -> jax.Array:
    """i32[B]: no action of a tree has more visits, nor more that played it later."""

    def most(counts: trees.Counts) -> jax.Array:
        by_tree = counts.visits.reshape(tree.num_trees, tree.capacity, -1)
        in_use = jnp.arange(tree.capacity)[None] < tree.size[:, None]
        return jnp.max(jnp.where(in_use[:, :, None], by_tree, 0), axis=(1, 2))

    counted = spent
    if tree.prior_counts is not None:
        counted = spent + most(tree.prior_counts)
    if tree.amaf is not None:
        counted = jnp.maximum(counted, most(tree.amaf))
    return counted


def refresh_root(
    tree: Tree, evaluated: Evaluated, roots: Any, config: SearchConfig, draws: Draws
) -> Tree:
    """Write roots that are empty; the others get new priors, and are chosen at again.

    The priors are the evaluator's own with this search's noise: noise does not add up. What is
    known of the roots' children stays.
    """
    is_new, row = tree.size == 0, tree.row(ROOT)
    lanes = jnp.arange(tree.num_trees, dtype=jnp.int32)[:, None]
    is_child = jnp.arange(tree.num_actions)[None] < rows.read(tree.num_children, row)[:, None]
    child = jnp.where(is_child, rows.read(tree.children, row).astype(jnp.int32), ROOT)
    child_row = row[:, None] + child
    action = rows.read(tree.action, child_row).astype(jnp.int32)
    tried = jnp.where(is_child, action, tree.num_actions)
    left = evaluated.prior.at[lanes, tried].set(-jnp.inf, mode="drop")
    edge_prior = evaluated.prior[lanes, action]
    place = jnp.arange(child.size, dtype=jnp.int32).reshape(child.shape)
    edge_rows = jnp.where(is_child, child_row, tree.num_rows + place)
    kept = "visits", "value_sum", "squares", "scores", "value", "amaf", "prior_counts", "last_sync"
    now = lambda tree: {name: getattr(tree, name) for name in kept}
    old, old_size = jax.tree.map(lambda x: rows.read(x, row), now(tree)), tree.size
    tree = root.init_root(tree, evaluated._replace(prior=left), roots, config, draws)

    def restored(old, new):
        is_blank = is_new.reshape(-1, *[1] * (new.ndim - 1))
        return rows.write(new, row, jnp.where(is_blank, rows.read(new, row), old))

    tree = tree.replace(
        edge_prior=rows.write(tree.edge_prior, edge_rows.reshape(-1), edge_prior.reshape(-1)),
        size=jnp.maximum(old_size, 1),
        **jax.tree.map(restored, old, now(tree)),
    )
    # What was proven by a child that is gone has to be found again: it is to be played.
    tree = backup.back_up_values(
        tree, root.root_path(tree), evaluated.proven, config.backup, look=True
    )
    return expand.choose_again_at_roots(tree, config, draws)
