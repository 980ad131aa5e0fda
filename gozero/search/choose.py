"""Cached selection: the choice at each node through which a value was backed up.

The inputs of a rule change only at those nodes, so the choice is made then and stored in
`Tree.next`; a descent follows it. A node chooses among its children, which are few at most nodes,
and the best action without a child. `dense` chooses from whole rows of actions.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.compile import indexing, mode, stages
from gozero.search import in_kernel, proofs, rows
from gozero.search import tree as trees
from gozero.search.edges import Rule, as_rule, best_edge, score_edges, tie_break
from gozero.search.rows import FEW, SOME
from gozero.search.tree import NO_NODE, ROOT, Path, Tree


class Draws(NamedTuple):
    """Random numbers that are drawn once per search."""

    tie_seeds: jax.Array  # u32[B]: one per tree, for ties
    gumbel: jax.Array  # f32[B, A], for a root's rule
    score_center: jax.Array | None = None  # f32[B]: see `ScoreUtility.center`; computed, not drawn


def write_untried(
    tree: Tree,
    row: jax.Array,
    prior: jax.Array,
    select: Rule,
    tie_seeds: jax.Array,
    nodes: jax.Array,
    tree_full: jax.Array | None = None,
) -> Tree:
    """The trees with the best untried action written for nodes i32[M], in rows i32[M].

    It is the action that the rule ranks highest by the priors f32[M, A]; ties are random. A prior
    of -inf marks that there is none: all actions have children, or `tree_full`, bool[M].
    """
    action, best = best_untried(prior, select, tie_seeds, nodes)
    if tree_full is not None:
        best = jnp.where(tree_full, -jnp.inf, best)
    return tree.replace(
        untried=rows.write(tree.untried, row, action),
        untried_prior=rows.write(tree.untried_prior, row, best),
    )


def best_untried(
    prior: jax.Array, select: Rule, tie_seeds: jax.Array, nodes: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(action i32[M], its prior f32[M]): see `write_untried`."""
    rank = jax.vmap(as_rule(select).rank_untried)(prior)
    actions = jnp.arange(prior.shape[1])
    priority = jax.vmap(tie_break, in_axes=(0, 0, None))(tie_seeds, nodes, actions)
    action = jax.vmap(best_edge)(rank, priority)
    is_best = actions[None] == action[:, None]
    return action, indexing.highest(jnp.where(is_best, prior, -jnp.inf))


def choose_again(
    tree: Tree,
    path: Path,
    select: Rule,
    tie_seeds: jax.Array,
    first_level: int = 0,
) -> Tree:
    """Choose again at every node of the paths except the last, where there is no new choice.

    Args:
      tree: the trees, with the values backed up.
      path: the paths.
      select: the rule.
      tie_seeds: u32[B], one per tree, for ties.
      first_level: 1 if the root has a rule of its own (see `root`), otherwise 0.

    Returns:
      The trees with a new `next`.
    """
    inputs = trees.with_only(
        tree, "next", "action", "untried_prior", "value", *trees.READ_OF_CHILDREN
    )
    others = {"tpu": functools.partial(_next_packed, select, first_level)}
    if in_kernel.fits(tree, select):
        others["cuda"] = functools.partial(_next_in_kernel, select, first_level)
    at_once = functools.partial(_next_at_once, select, first_level)
    new_next = mode.by_platform(inputs, path, tie_seeds, default=at_once, **others)
    return tree.replace(next=new_next)


def _next_at_once(
    select: Rule, first_level: int, tree: Tree, path: Path, tie_seeds: jax.Array
) -> jax.Array:
    """The new `Tree.next`: nodes with few children are handled first, then others by level."""
    level = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None]
    may_choose = (level >= first_level) & (level < path.length[None])
    chosen = _choose_among_few(tree, path, select, tie_seeds)
    if tree.num_actions > FEW:
        node_rows = tree.row(0)[None] + jnp.maximum(path.nodes, ROOT)
        num_children = rows.read(tree.num_children, node_rows).astype(jnp.int32)
        max_children = jnp.max(jnp.where(may_choose, num_children, 0), axis=1)
        levels = jnp.max(jnp.where(max_children > FEW, level[:, 0] + 1, 0))
        chosen = _choose_by_level(
            tree, path, first_level, levels, max_children, select, tie_seeds, chosen
        )
    chosen = trees.unless_proven(tree, tree.row(0)[None] + jnp.maximum(path.nodes, ROOT), chosen)
    return rows.write(tree.next, path.rows(tree, may_choose), chosen)


def _next_packed(
    select: Rule, first_level: int, tree: Tree, path: Path, tie_seeds: jax.Array
) -> jax.Array:
    """The same on a TPU: B nodes at a time, packed without gaps.

    There, a loop iteration costs little, and reading a single number a lot. Trip bound: D.
    """
    num_trees = tree.num_trees
    packed = trees.packed(path.length - 1, path.nodes.shape[0], first_level)
    place = jnp.arange(num_trees, dtype=jnp.int32)

    def choose_some(i, chosen_so_far):
        slots = packed.slots(i * num_trees + place)
        node = jnp.maximum(path.nodes[slots.level, slots.index], ROOT)
        row = slots.index * tree.capacity + node
        max_children = jnp.max(jnp.where(slots.counts, rows.read(tree.num_children, row), 0))
        choose = lambda width: _choose(tree, slots.index, node, width, select, tie_seeds)
        chosen = rows.by_width(max_children, tree.num_actions, choose)
        target = jnp.where(slots.counts, row, tree.num_rows + place)
        return rows.write(chosen_so_far, target, trees.unless_proven(tree, row, chosen))

    num_rounds = (packed.ends[-1] + num_trees - 1) // num_trees
    return lax.fori_loop(0, num_rounds, choose_some, tree.next)


def _next_in_kernel(
    select: Rule, first_level: int, tree: Tree, path: Path, tie_seeds: jax.Array
) -> jax.Array:
    """The same on a GPU, in one kernel: each tree follows its own path."""
    settings = in_kernel.Settings(as_rule(select), first_level, changes=("next",))
    return in_kernel.run(tree, in_kernel.Update(path, tie_seeds), settings).next


def _choose_among_few(tree: Tree, path: Path, select: Rule, tie_seeds: jax.Array) -> jax.Array:
    """i32[D + 1, B]: the choices; correct only at nodes with at most `FEW` children."""
    num_slots = path.nodes.size
    width = min(FEW, tree.num_actions)
    chunk = min(tree.num_trees, stages.MAX_REDUCED // (width + 1))
    in_chunks = functools.partial(_choose_in_chunks, select)

    def on_cpu(*args):
        choose_all = functools.partial(in_chunks, chunk)
        result = stages.one_kernel(choose_all, *args, reduced=tree.num_trees)
        # Whole chunks may have more slots than the paths have nodes; the extra ones are empty.
        return jax.tree.map(lambda x: x if x.size == num_slots else x[:num_slots], result)

    slots, chosen = mode.by_platform(
        trees.for_entries(tree, select),
        path,
        tie_seeds,
        cpu=on_cpu,
        default=functools.partial(in_chunks, num_slots),
    )
    blank = jnp.full(num_slots, NO_NODE, jnp.int32)
    if mode.writes_sequentially():
        placed = indexing.write_sequentially(blank, (slots,), chosen)
    else:
        placed = blank.at[slots].set(chosen, mode="drop")
    return placed.reshape(path.nodes.shape)


def _choose_in_chunks(
    select: Rule, chunk: int, tree: Tree, path: Path, tie_seeds: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(slots, chosen), i32[D B] each: for the nodes of one path after another, without gaps.

    A slot is an index into the flattened paths; it is out of range where there is no choice.
    """
    num_levels, num_trees = path.nodes.shape
    ends = jnp.cumsum(path.length)
    width = min(FEW, tree.num_actions)

    def choose_some(i, carry):
        slots, chosen = carry
        number = i * chunk + jnp.arange(chunk, dtype=jnp.int32)
        index = _num_before(ends, number)
        counts = index < num_trees
        index = jnp.minimum(index, num_trees - 1)
        level = jnp.where(counts, number - (ends - path.length)[index], 0)
        node = jnp.maximum(path.nodes[level, index], ROOT)
        slot = jnp.where(counts, level * num_trees + index, num_levels * num_trees)
        write = lambda x, some: lax.dynamic_update_slice(x, some, (i * chunk,))
        return write(slots, slot), write(
            chosen, _choose(tree, index, node, width, select, tie_seeds)
        )

    num_slots = -(-num_levels * num_trees // chunk) * chunk
    blank = jnp.full(num_slots, num_levels * num_trees, jnp.int32)
    num_chunks = (ends[-1] + chunk - 1) // chunk
    return lax.fori_loop(0, num_chunks, choose_some, (blank, blank))


def _num_before(ends: jax.Array, number: jax.Array) -> jax.Array:
    """i32[M]: how many of the sorted ends, i32[B], are at most each number, i32[M]."""
    if ends.size * number.size <= stages.MAX_REDUCED:  # all pairs, if few enough for a kernel
        return jnp.sum(number[:, None] >= ends[None], axis=1, dtype=jnp.int32)
    index = jnp.searchsorted(ends, number, side="right", method="scan_unrolled")
    return index.astype(jnp.int32)


def _choose_by_level(
    tree: Tree,
    path: Path,
    first_level: int,
    end_level: jax.Array,
    max_children: jax.Array,
    select: Rule,
    tie_seeds: jax.Array,
    chosen: jax.Array,
) -> jax.Array:
    """`chosen`, corrected on the levels before `end_level`, i32[].

    `max_children`, i32[D + 1], is that of the widest node on each level. Trip bound: D.
    """
    all_trees = jnp.arange(tree.num_trees, dtype=jnp.int32)
    widths = [*([SOME] if tree.num_actions > SOME else []), tree.num_actions]

    def choose_level(level, chosen):
        node = jnp.maximum(path.nodes[level], ROOT)

        def choose(width):
            def at_level(tree, node, tie_seeds):
                return _choose(tree, all_trees, node, width, select, tie_seeds)

            inputs, reduced = trees.for_entries(tree, select), tree.num_trees * (width + 1)
            return indexing.small_kernel(at_level, inputs, node, tie_seeds, reduced=reduced)

        branches = [functools.partial(choose, width) for width in widths]
        choices = lax.switch((max_children[level] > SOME).astype(jnp.int32), branches)
        return lax.dynamic_update_slice(chosen, choices[None], (level, jnp.int32(0)))

    return lax.fori_loop(first_level, end_level, choose_level, chosen)


def _choose(
    tree: Tree,
    index: jax.Array,
    node: jax.Array,
    width: int,
    select: Rule,
    tie_seeds: jax.Array,
) -> jax.Array:
    """i32[M]: the child that the rule chooses; NO_NODE for the best untried action."""
    entries = trees.entries(tree, index, node, width)
    scores = proofs.avoid_lost(score_edges(select, entries.edges), entries.edges.proven)
    priority = jax.vmap(tie_break)(rows.read(tie_seeds, index), node, entries.nodes)
    entry = jax.vmap(best_edge)(scores, priority)
    return jnp.take_along_axis(entries.nodes, entry[:, None], axis=1)[:, 0]
