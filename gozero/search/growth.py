"""How B trees grow in lockstep: their roots, and a node more with each simulation."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero import fusion
from gozero.search import amaf, backup, choices, full_rows, noise, root, rows, selection, worth
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.game import Heuristic, Trail
from gozero.search.judging import Judged, judge
from gozero.search.noise import Draws
from gozero.search.tree import NO_NODE, ROOT, Tree


def judge_roots(
    game, evaluate, params, key, noise_key, contexts, roots, config: SearchConfig
) -> Judged:
    """Judge the roots; the priors are softened and noisy."""
    num_trees = jax.tree.leaves(roots)[0].shape[0]
    stacked = jax.tree.map(
        lambda x: jnp.broadcast_to(x[:, None], (num_trees, config.path_limit, *x.shape[1:])),
        roots,
    )
    trail = Trail(stacked, jnp.zeros(num_trees, jnp.int32))
    judged = judge(game, evaluate, params, key, contexts, roots, trail)
    prior = judged.prior
    if config.root_temperature != 1:
        prior = jax.vmap(noise.soften, in_axes=(0, None))(prior, config.root_temperature)
    if config.dirichlet_fraction > 0:
        alpha = config.dirichlet_alpha or noise.board_alpha(game.num_actions)
        keys = jax.random.split(noise_key, num_trees)
        prior = jax.vmap(noise.add_dirichlet, in_axes=(0, 0, None, None))(
            keys, prior, alpha, config.dirichlet_fraction
        )
    return judged._replace(prior=prior)


def plant(tree: Tree, judged: Judged, roots, config: SearchConfig, draws: Draws) -> Tree:
    """Write the roots as node 0 of each tree, which is empty."""
    row = tree.row(ROOT)
    tree = tree.replace(
        prior=rows.write(tree.prior, row, judged.prior),
        visits=rows.write(tree.visits, row, jnp.ones_like(row)),
        value_sum=rows.write(tree.value_sum, row, judged.value),
        value=rows.write(tree.value, row, judged.value),
        over=rows.write(tree.over, row, judged.over),
        positions=trees.write_positions(tree, row, roots),
        size=tree.size + 1,
        **beliefs(tree, row, judged),
    )
    tree = worth.back_up(tree, alone(tree), judged.proven, config)
    if tree.in_full_rows:
        tree = tree.replace(untried_prior=open_to_try(tree, row))
        credit = None
        if config.amaf is not None:
            mine = _first_play(judged)[:, 0]
            credit = full_rows.Credit(amaf.pack(mine)[None], judged.value)
        tree = full_rows.choose_again(tree, alone(tree), config.select, draws.salts, credit)
    else:
        nodes = jnp.full(tree.num_trees, ROOT)
        untried = best_untried(config, judged.prior, draws.salts, nodes)
        tree = tree.replace(
            untried=rows.write(tree.untried, row, untried.action),
            untried_prior=rows.write(tree.untried_prior, row, untried.prior),
        )
    if config.root_select is not None:
        tree = root.choose(tree, trees.by_action(tree, ROOT, 0), config, draws)
    return tree


def choose_at_roots(tree: Tree, config: SearchConfig, draws: Draws) -> Tree:
    """Choose at roots that have children already, and credit nothing."""
    no_one = jnp.zeros(tree.num_trees, bool)
    path = alone(tree)
    if not tree.in_full_rows:
        path = path._replace(length=path.length + 1)  # its last node is not chosen at
    return choose_again(tree, path, None, config, draws, no_one)


def alone(tree: Tree) -> backup.Path:
    """Paths that begin and end at the roots."""
    nodes = jnp.full((1, tree.num_trees), ROOT, jnp.int32)
    return backup.Path(nodes, jnp.zeros(tree.num_trees, jnp.int32))


def beliefs(tree: Tree, row: jax.Array, judged: Judged) -> dict[str, Any]:
    """What new nodes at rows i32[B] begin with: the arrays of actions that are tried or not.

    Gelly & Silver (2011), Eq. 48-52. Rows are used again, so they begin with zeros at least.
    """
    heuristic = judged.heuristic or Heuristic()
    none = jnp.zeros(judged.prior.shape, jnp.int32)
    new = {}

    def put(counts, value, visits):
        visits = none if visits is None else visits.astype(jnp.int32)
        sums = none if value is None else trees.to_fixed(value) * visits
        return trees.Counts(
            rows.write(counts.visits, row, visits), rows.write(counts.sums, row, sums)
        )

    if tree.guess is not None:
        new["guess"] = put(tree.guess, heuristic.value, heuristic.visits)
    if tree.amaf is not None:
        new["amaf"] = put(tree.amaf, heuristic.amaf_value, heuristic.amaf_visits)
    return new


class Untried(NamedTuple):
    """The best action of a node that has no child."""

    action: jax.Array  # i32[B]
    prior: jax.Array  # f32[B]: -inf if there is none

    def given_up(self, gives_up: jax.Array) -> Untried:
        """None, where bool[B]."""
        return self._replace(prior=jnp.where(gives_up, -jnp.inf, self.prior))


def best_untried(
    config: SearchConfig, prior: jax.Array, salts: jax.Array, nodes: jax.Array
) -> Untried:
    """Of actions with the priors f32[B, A] the rule's first, at random among equals."""
    rank = jax.vmap(lambda prior: selection.rank_untried(config.select, prior))(prior)
    actions = jnp.arange(prior.shape[1])
    priority = jax.vmap(selection.tie_break, in_axes=(0, 0, None))(salts, nodes, actions)
    action = jax.vmap(selection.choose)(rank, priority)
    is_it = actions[None] == action[:, None]
    return Untried(action, jnp.max(jnp.where(is_it, prior, -jnp.inf), axis=1))


_LEVELS_AT_ONCE = 4


def num_levels(config: SearchConfig) -> int:
    """Levels of a path as it is kept: path_limit + 1, and a few that make it even."""
    return -(-(config.path_limit + 1) // _LEVELS_AT_ONCE) * _LEVELS_AT_ONCE


def _descend(tree: Tree, config: SearchConfig) -> backup.Path:
    """Follow each tree's choices from its root to a node that tries an action, or has none.

    Carries indices and the path only; the tree is read. Trip bound: path_limit + 1 levels.
    """
    levels = num_levels(config)

    def descend(following):
        def levels_down(carry):
            live, level, node, nodes = carry
            visited = []
            for i in range(_LEVELS_AT_ONCE):
                visited.append(jnp.where(live, node, NO_NODE))
                child = rows.read(following, tree.row(node)).astype(jnp.int32)
                # (A tree that was grown under a higher depth limit may lead further.)
                live = live & (child != NO_NODE) & (level + i < config.path_limit)
                node = jnp.where(live, child, node)
            nodes = lax.dynamic_update_slice(nodes, jnp.stack(visited), (level, jnp.int32(0)))
            return live, level + _LEVELS_AT_ONCE, node, nodes

        start = (
            jnp.ones(tree.num_trees, bool),
            jnp.int32(0),
            jnp.full(tree.num_trees, ROOT, jnp.int32),
            jnp.full((levels, tree.num_trees), NO_NODE, jnp.int32),
        )
        return lax.while_loop(lambda carry: jnp.any(carry[0]), levels_down, start)

    nodes = fusion.one_kernel(descend, tree.next, reduced=tree.num_trees)[-1]
    return backup.Path(nodes, jnp.sum(nodes != NO_NODE, axis=0, dtype=jnp.int32) - 1)


class Leaf(NamedTuple):
    """Where a descent ended, and the action that it would try there."""

    path: backup.Path
    row: jax.Array  # i32[B]: of the node where it ended
    action: jax.Array  # i32[B]
    edge_prior: jax.Array  # f32[B]: the action's prior; -inf where no node may be added
    left: jax.Array  # f32[B, A]: the priors of the other actions without a child
    grows: jax.Array  # bool[B]: a node is added
    gives_up: jax.Array  # bool[B]: for want of room none is, nor will be; see `_gives_up`

    def new_rows(self, tree: Tree) -> tuple[jax.Array, jax.Array]:
        """i32[B] twice: the rows of the leaf and of the node that is added below it.

        What does not change is written to rows outside the tree, each its own.
        """
        outside = tree.num_rows + jnp.arange(tree.num_trees, dtype=jnp.int32)
        changes = self.grows | self.gives_up
        parent = jnp.where(changes, self.row, outside + tree.num_trees)
        return parent, jnp.where(self.grows, tree.row(tree.size), outside)

    def longer_path(self, node: jax.Array) -> backup.Path:
        """The path to the node that is added, where one is."""
        path = self.path
        level = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None]
        is_new = (level == path.length[None] + 1) & self.grows[None]
        nodes = jnp.where(is_new, node[None], path.nodes)
        return backup.Path(nodes, path.length + self.grows)


def find_leaf(tree: Tree, config: SearchConfig) -> Leaf:
    """Follow each tree's choices to where a node is to be added, or to be judged again."""
    path = _descend(tree, config)
    row = tree.row(path.end)
    action = rows.read(tree.untried, row).astype(jnp.int32)
    prior = rows.read(tree.prior, row)
    may_grow = _may_grow(tree, path, row, config)
    is_tried = (jnp.arange(tree.num_actions)[None] == action[:, None]) & may_grow[:, None]
    edge_prior = jnp.max(jnp.where(is_tried, prior, -jnp.inf), axis=1)
    # Whether it grows is said by what was read of `prior`: else one tree would be copied.
    left = jnp.where(is_tried, -jnp.inf, prior)
    gives_up = _gives_up(tree, path, row, config)
    return Leaf(path, row, action, edge_prior, left, edge_prior >= 0, gives_up)


def grow(
    game, evaluate, params, key, contexts, config: SearchConfig, draws: Draws, tree: Tree, ok
) -> tuple[Tree, jax.Array]:
    """Add each tree's new node, and back its value up.

    Where none may be added the path ends at a node that is there: it is judged again, and its
    value goes up once more.
    """
    leaf = find_leaf(tree, config)
    trail, parents = read_trail(tree, leaf.path, config)
    positions = played(game, parents, leaf)
    trail = trail._replace(length=leaf.path.length + leaf.grows)
    judged = judge(game, evaluate, params, key, contexts, positions, trail)
    return add_leaf(tree, leaf, positions, judged, config, draws), ok & judged.ok


def add_leaf(
    tree: Tree,
    leaf: Leaf,
    positions: Any,
    judged: Judged,
    config: SearchConfig,
    draws: Draws,
    counts: jax.Array | None = None,
) -> Tree:
    """Write the nodes of the leaves at positions [B], and back their values up.

    Args:
      tree, leaf, positions, judged: what was found, and what it was judged to be.
      config, draws: of the search.
      counts: bool[B]: a tree's simulation counts; else nothing goes up. None: all do.
    """
    parent_row, row = leaf.new_rows(tree)
    path = leaf.longer_path(tree.size)
    both, both_rows = jnp.concatenate([leaf.left, judged.prior]), jnp.concatenate([parent_row, row])
    grown = tree.replace(
        prior=rows.write(tree.prior, both_rows, both),
        value=rows.write(tree.value, row, judged.value),
        over=rows.write(tree.over, row, judged.over),
        positions=trees.write_positions(tree, row, positions),
        size=tree.size + leaf.grows,
        **new_edge(tree, leaf, parent_row, row),
        **beliefs(tree, row, judged),
    )
    if tree.in_full_rows:
        grown = grown.replace(untried_prior=open_to_try(tree, row))
    else:
        nodes = jnp.concatenate([leaf.path.end, tree.size])
        untried = best_untried(config, both, jnp.tile(draws.salts, 2), nodes)
        gives_up = jnp.concatenate([leaf.gives_up, jnp.zeros_like(leaf.gives_up)])
        untried = untried.given_up(gives_up)
        grown = grown.replace(
            untried=rows.write(tree.untried, both_rows, untried.action),
            untried_prior=rows.write(tree.untried_prior, both_rows, untried.prior),
        )
    # (What was proven is read before anything is written.)
    value = worth.of_end(tree, leaf.row, judged.value)
    end_proven = worth.proven_by_game(tree, leaf.row, judged.proven, leaf.grows)
    counted = path
    if counts is not None:
        counted = path._replace(length=jnp.where(counts, path.length, -1))
    grown = backup.back_up(grown, counted, value)
    grown = worth.back_up(grown, path, end_proven, config)
    return choose_again(grown, path, judged, config, draws, leaf.gives_up)


def open_to_try(tree: Tree, row: jax.Array) -> jax.Array:
    """`untried_prior` where new nodes at rows i32[B] have not given up; see `full_rows`."""
    return rows.write(tree.untried_prior, row, jnp.zeros(row.shape))


def new_edge(tree: Tree, leaf: Leaf, parent_row: jax.Array, row: jax.Array) -> dict[str, jax.Array]:
    """The arrays that join a new node to its parent."""
    num_children = rows.read(tree.num_children, leaf.row).astype(jnp.int32)
    return {
        "children": rows.write_entry(tree.children, parent_row, num_children, tree.size),
        "num_children": rows.write(tree.num_children, parent_row, num_children + leaf.grows),
        "parent": rows.write(tree.parent, row, leaf.path.end),
        "action": rows.write(tree.action, row, leaf.action),
        "edge_prior": rows.write(tree.edge_prior, row, leaf.edge_prior),
    }


def played(game, parents: Any, leaf: Leaf) -> Any:
    """The positions to judge: the new nodes', or the leaves' own where none is added."""
    return jax.tree.map(
        lambda new, old: jnp.where(leaf.grows.reshape(-1, *[1] * (new.ndim - 1)), new, old),
        jax.vmap(game.play)(parents, leaf.action),
        parents,
    )


def _may_grow(tree: Tree, path: backup.Path, row: jax.Array, config: SearchConfig) -> jax.Array:
    """bool[B]: below a path's end, in rows i32[B], a node may be added for an action."""
    may = ~rows.read(tree.over, row) & (path.length < config.path_limit)
    may &= worth.is_open(tree, row)
    if config.fills:
        may &= tree.size < tree.capacity
    if config.expand_after > 1:
        visits = rows.read(tree.visits, row)
        may &= (visits >= config.expand_after) | (path.length == 0)
    return may


def _gives_up(tree: Tree, path: backup.Path, row: jax.Array, config: SearchConfig) -> jax.Array:
    """bool[B]: a path's end would get a child if there were room.

    It is judged again, and from then on it chooses among the children that it has: else a node
    that would rather try an action would be judged for ever. So its `untried_prior` says that
    there is none; its `prior` does not, from which `reuse` restores it.
    """
    if not config.fills:
        return jnp.zeros(tree.num_trees, bool)
    could = ~rows.read(tree.over, row) & (path.length < config.path_limit)
    return could & worth.is_open(tree, row) & (tree.size >= tree.capacity)


def choose_again(
    tree: Tree,
    path: backup.Path,
    judged: Judged | None,
    config: SearchConfig,
    draws: Draws,
    gives_up: jax.Array,
) -> Tree:
    """Choose again along the paths; with a judgement, credit the actions of the simulations."""
    own_root = config.root_select is not None
    if not tree.in_full_rows:
        if own_root:
            # Before the other nodes: what it writes they read, and it reads nothing they write.
            tree = root.choose(tree, root.actions(tree), config, draws)
        # What gives up chooses among its children; else the last node of a path has none.
        path = path._replace(length=path.length + gives_up)
        return choices.choose_again(tree, path, config.select, draws.salts, int(own_root))
    credit = None
    if config.amaf is not None and judged is not None:
        counted = amaf.counted(tree, path, _first_play(judged), config.amaf)
        credit = full_rows.Credit(counted, judged.value)
    given_up = gives_up if config.fills else None
    tree = full_rows.choose_again(tree, path, config.select, draws.salts, credit, given_up)
    return root.choose(tree, root.actions(tree), config, draws) if own_root else tree


def _first_play(judged: Judged) -> jax.Array:
    """bool[B, 2, A]: what the playouts played; nothing if there were none."""
    if judged.first_play is not None:
        return judged.first_play
    num_trees, num_actions = judged.prior.shape
    return jnp.zeros((num_trees, 2, num_actions), bool)


def read_trail(
    tree: Tree, path: backup.Path, config: SearchConfig, first_rows: jax.Array | None = None
) -> tuple[Trail, Any]:
    """(the ancestors of the ends of paths, the positions at the ends) of M paths.

    The rows of their trees' first nodes are i32[M]; None: one path a tree.

    With one leaf a step this is the step's only read of positions. The ends are taken from it and
    not from the tree, so that what is written depends on all that was read and the write stays in
    place.
    """
    nodes = jnp.maximum(path.nodes[: config.path_limit + 1], ROOT).T
    first_rows = tree.row(0) if first_rows is None else first_rows
    positions = trees.read_positions(tree, first_rows[:, None] + nodes)
    ends = jax.tree.map(lambda x: jax.vmap(lambda x, i: x[i])(x, path.length), positions)
    ancestors = jax.tree.map(lambda x: x[:, : config.path_limit], positions)
    return Trail(ancestors, path.length), ends
