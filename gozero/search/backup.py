"""Backup of visits and value sums, operator values, proofs, and all-moves-as-first actions.

Operator values and proofs are backed up in one pass from the ends of the paths, for all trees at
once: it reads the trees, carries the results of the level below, and writes each array once.

All moves as first: Gelly & Silver (2011), section 4. An action that a player takes anywhere in the
rest of a simulation, on the path below the node or in the playout after it, counts at the node as
if it had been taken there. Sets of actions are bit words, u32[ceil(A / 32)].
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import stages
from gozero.limits import VALUE_ONE
from gozero.search import proofs, rows, score, values
from gozero.search import tree as trees
from gozero.search.rows import FEW, SOME
from gozero.search.rules.operators import Operator
from gozero.search.tree import NO_NODE, ROOT, Path, Tree


def back_up(tree: Tree, path: Path, value: jax.Array, utility: jax.Array | None = None) -> Tree:
    """Add one value to every node of its path: N += 1, W += value, and its square if kept.

    Gelly & Silver (2011), Algorithm 1, as one scatter for each array.

    Args:
      tree: the trees.
      path: the paths.
      value: i32[B], fixed point, for the player to move where the path ends.
      utility: i32[B], likewise: the score utility, if the trees keep it.

    Returns:
      The trees with new `visits`, `value_sum`, `squares` and `scores`.
    """
    # Compiled apart, so that merging evaluations with the results of ended games is done once.
    computed_once = lambda x: stages.once(lambda x: x, x)
    value = computed_once(value)
    utility = None if tree.scores is None else computed_once(utility)

    def add(sums, first, nodes):
        level = first + jnp.arange(nodes.shape[0], dtype=jnp.int32)[:, None]
        node_rows = Path(nodes, path.length).rows(tree, level <= path.length[None])
        return _add(tree.replace(**sums), node_rows, path.length[None] - level, value, utility)

    sums = {name: getattr(tree, name) for name in ("visits", "value_sum", "squares", "scores")}
    levels = jnp.max(path.length) + 1
    return tree.replace(**rows.by_level(levels, add, sums, path.nodes, axis=0))


def _add(
    tree: Tree, node_rows: jax.Array, plies: jax.Array, value: jax.Array, utility: jax.Array | None
) -> dict[str, Any]:
    """The arrays that change as a value and a utility are added to rows i32[L, B].

    `plies` is how far each row's node is above the end of its path.
    """
    value_gain = total_gain = values.opponent(value[None], plies)
    scores = None
    if utility is not None:
        utility_gain = values.opponent(utility[None], plies)
        scores, total_gain = _add_scores(tree, node_rows, utility_gain), value_gain + utility_gain
    return {
        "visits": rows.add(tree.visits, node_rows, jnp.ones_like(value_gain)),
        "value_sum": rows.add(tree.value_sum, node_rows, value_gain),
        "squares": _add_squares(tree, node_rows, values.squared(total_gain)),
        "scores": scores,
    }


def _add_squares(tree: Tree, node_rows: jax.Array, amounts: jax.Array) -> values.Sums | None:
    return None if tree.squares is None else rows.add(tree.squares, node_rows, amounts)


def _add_scores(tree: Tree, node_rows: jax.Array, amounts: jax.Array) -> trees.Scores | None:
    if tree.scores is None:
        return None
    return tree.scores._replace(sums=rows.add(tree.scores.sums, node_rows, amounts))


def add_virtual_losses(
    tree: Tree, path: Path, amount: int, utility: score.ScoreUtility | None = None
) -> Tree:
    """Virtual losses on a path: `amount` more simulations, lost by the player who chose each edge.

    N += amount, W += amount for the player to move below the edge. The root, to which no edge
    leads, gets none. A negative amount removes them again. With a score utility, they are the
    largest possible losses.
    """
    level = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None]
    node_rows = path.rows(tree, (level <= path.length[None]) & (level > 0))
    amounts = jnp.full(path.nodes.shape, amount, jnp.int32)
    utility_loss = 0 if utility is None else round(utility.most * VALUE_ONE)
    square = values.squared(VALUE_ONE + utility_loss)
    return tree.replace(
        visits=rows.add(tree.visits, node_rows, amounts),
        value_sum=rows.add(tree.value_sum, node_rows, amounts * VALUE_ONE),
        squares=_add_squares(tree, node_rows, amounts * square),
        scores=_add_scores(tree, node_rows, amounts * utility_loss),
    )


class _NodeValue(NamedTuple):
    """The backed-up value and proof of one node of each tree, for the player to move there."""

    backup_value: jax.Array  # i32[B], fixed point
    proven: jax.Array  # i8[B]


def of_end(tree: Tree, row: jax.Array, value: jax.Array) -> jax.Array:
    """i32[B]: the values that simulations ending in rows i32[B] back up, exact where proven."""
    if tree.proven is None:
        return value
    return _exact(rows.read(tree.proven, row), value)


def proven_by_game(tree: Tree, row: jax.Array, proven: jax.Array, grows: jax.Array) -> jax.Array:
    """i8[B]: the proven results at the ends of the paths, by the game or read from the tree.

    Args:
      row: i32[B], where the descents ended.
      proven: i8[B]: proven by the game, for new nodes.
      grows: bool[B]: whether a node was added; if not, the result in the row counts.
    """
    if tree.proven is None:
        return proven
    return jnp.where(grows, proven, rows.read(tree.proven, row))


def back_up_values(
    tree: Tree,
    path: Path,
    end_proven: jax.Array,
    operator: Operator | None,
    look: bool = False,
) -> Tree:
    """Recompute operator values and proofs of the nodes on the paths, from their ends up.

    Visits and value sums must be backed up before. Trip bound: D + 1 levels.

    Args:
      tree: the trees.
      path: the paths.
      end_proven: i8[B], the proven results of the nodes where the paths end.
      operator: `SearchConfig.backup`.
      look: whether to derive proofs of the ends from their children, too. (If not, proofs come
        only from new results below.)

    Returns:
      The trees with new `backup_value` and `proven`, if they have these.
    """
    if tree.backup_value is None and tree.proven is None:
        return tree
    num_levels, num_trees = path.nodes.shape
    if tree.proven is None:
        end_proven = jnp.zeros(num_trees, jnp.int8)
    lanes = jnp.arange(num_trees, dtype=jnp.int32)
    widths = [w for w in (FEW, SOME) if 2 * w <= tree.num_actions] + [tree.num_actions]

    def one_up(i, carry):
        results, below, is_new = carry
        level = last - i
        node = jnp.maximum(path.nodes[level], ROOT)
        is_end = level == path.length
        child = jnp.where(is_end, NO_NODE, path.nodes[jnp.minimum(level + 1, num_levels - 1)])
        row = tree.row(node)
        before = end_proven if tree.proven is None else rows.read(tree.proven, row)
        old_proven = jnp.where(is_end, end_proven, before)
        is_due = level <= path.length
        if tree.backup_value is None:
            is_due &= (is_end & look) | (~is_end & is_new)
        start = _NodeValue(_own_value(tree, row), old_proven)
        has_children = rows.read(tree.num_children, row) > 0
        is_due &= has_children
        max_children = jnp.max(jnp.where(is_due, rows.read(tree.num_children, row), 0))
        which = sum((max_children > w).astype(jnp.int32) for w in (0, *widths[:-1]))
        branches = [lambda below: start] + [
            functools.partial(_by_children, tree, operator, width, lanes, node, child)
            for width in widths
        ]
        by_children = lax.switch(which, branches, below)
        derived = jax.tree.map(lambda new, old: jnp.where(is_due, new, old), by_children, start)
        proven = jnp.where(old_proven == proofs.UNKNOWN, derived.proven, old_proven)
        new_value = _NodeValue(_exact(proven, derived.backup_value), proven)
        is_new = (level <= path.length) & (proven != before)
        put = lambda all, one: lax.dynamic_update_slice(all, one[None], (level, np.int32(0)))
        return jax.tree.map(put, results, new_value), new_value, is_new

    last = jnp.max(path.length)
    blank = _NodeValue(jnp.zeros(num_trees, jnp.int32), jnp.zeros(num_trees, jnp.int8))
    results = jax.tree.map(lambda x: jnp.zeros((num_levels, num_trees), x.dtype), blank)
    start = (results, blank, jnp.zeros(num_trees, bool))
    results, _, _ = lax.fori_loop(0, last + 1, one_up, start)
    level = jnp.arange(num_levels, dtype=jnp.int32)[:, None]
    node_rows = path.rows(tree, level <= path.length[None])
    write = lambda x, new: None if x is None else rows.write(x, node_rows, new)
    return tree.replace(
        backup_value=write(tree.backup_value, results.backup_value),
        proven=write(tree.proven, results.proven),
    )


def _by_children(
    tree: Tree,
    operator: Operator | None,
    width: int,
    lanes: jax.Array,
    node: jax.Array,
    child: jax.Array,
    below: _NodeValue,
) -> _NodeValue:
    """The values and proofs of nodes i32[B], one per tree, computed from their children.

    `below` holds the new value and proof of the child i32[B] on the path; it may be NO_NODE.
    """
    entries = trees.children(tree, lanes, node, width)
    row = tree.row(node)
    is_child = entries.nodes != NO_NODE
    is_on_path = is_child & (entries.nodes == child[:, None])
    result = _NodeValue(jnp.zeros_like(below.backup_value), jnp.zeros_like(below.proven))
    if tree.backup_value is not None and operator is not None:
        q = jnp.where(is_on_path, -values.to_float(below.backup_value)[:, None], entries.edges.q)
        mean = values.mean(rows.read(tree.value_sum, row), rows.read(tree.visits, row))
        edges = entries.edges._replace(q=q, value=mean)
        result = result._replace(backup_value=values.to_fixed(jax.vmap(operator)(edges)))
    if entries.edges.proven is not None:
        results = jnp.where(
            is_on_path, proofs.opponent(below.proven)[:, None], entries.edges.proven
        )
        results = jnp.where(is_child, results, -1)
        has_untried = jnp.any(rows.read(tree.prior, row) >= 0, axis=1)
        result = result._replace(proven=jax.vmap(proofs.of_actions)(results, has_untried))
    return result


def _own_value(tree: Tree, row: jax.Array) -> jax.Array:
    """i32[B]: the values of nodes without children, which are the means of their evaluations."""
    mean = values.mean(rows.read(tree.value_sum, row), rows.read(tree.visits, row))
    return values.to_fixed(mean)


def _exact(proven: jax.Array, value: jax.Array) -> jax.Array:
    """i32[...], fixed point: the exact value where proven, else the given one."""
    exact = (proven.astype(jnp.int32) - proofs.DRAW) * VALUE_ONE
    return jnp.where(proven == proofs.UNKNOWN, value, exact)


def amaf_counted(tree: Tree, path: Path, played: jax.Array, first: str) -> jax.Array:
    """The actions that count at each node of the paths, for the player to move there.

    Args:
      tree: the trees.
      path: the paths.
      played: bool[B, 2, A]: the actions that each player played in the playout, by `first`;
        [:, 0] is the player to move where the path ends.
      first: `Amaf.first`, which plays count.

    Returns:
      u32[D + 1, B, W]; undefined beyond the ends of the paths.
    """
    words = rows.pack(played)
    node_rows = tree.row(0)[None] + jnp.maximum(path.nodes, ROOT)
    action = rows.read(tree.action, node_rows).astype(jnp.int32)  # [D + 1, B]
    num_levels, num_trees, num_sets = *path.nodes.shape, words.shape[-1]

    def walk_up(action, length, own, opponents):
        # `own` and `opponents`: of the player to move where the path ends, and of the opponent.
        def one_up(i, carry):
            out, own, opponents = carry
            level = jnp.max(length) - i
            action_below = action[jnp.minimum(level + 1, num_levels - 1)]
            word = jnp.arange(num_sets, dtype=jnp.int32)[None] == (action_below // 32)[:, None]
            bit = jnp.where(
                word, np.uint32(1) << (action_below % 32).astype(jnp.uint32)[:, None], 0
            )
            bit = jnp.where((level < length)[:, None], bit, np.uint32(0))
            is_mine = ((length - level) % 2 == 0)[:, None]
            keep = ~bit if first == "either" else ~np.uint32(0)
            own = jnp.where(is_mine, own | bit, own & keep)
            opponents = jnp.where(is_mine, opponents & keep, opponents | bit)
            counted = jnp.where(is_mine, own, opponents)
            return (
                lax.dynamic_update_slice(out, counted[None], (level, np.int32(0), np.int32(0))),
                own,
                opponents,
            )

        out = jnp.zeros((num_levels, num_trees, num_sets), jnp.uint32)
        return lax.fori_loop(0, jnp.max(length) + 1, one_up, (out, own, opponents))

    args = (action, path.length, words[:, 0], words[:, 1])
    return stages.one_kernel(walk_up, *args, reduced=num_trees)[0]
