"""The arrays of B search trees.

An edge has statistics only once it has been visited, and these are stored in the row of the node
that it leads to. A node stores a prior for each action that has no child yet, and its children in
the order of their first visits. For a rule that ranks actions without visits by their priors, the
choice at a node is therefore among its children and the best of the other actions: a few entries
instead of A.

Rows are flat (see `rows`): node n of tree b is row b * N + n, and the root is node 0. Values at a
node are for the player to move there.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero import struct
from gozero.compile import indexing, mode
from gozero.compile.kernels import paths
from gozero.search import proofs, rows, values
from gozero.search.edges import Edges, Rule, as_rule

NO_NODE = -1
ROOT = 0

MAX_ROWS = 2**30
"""Of B * N. Dropped writes go to rows beyond the arrays, whose numbers must still fit i32."""


class Counts(NamedTuple):
    """Counts of each action of each node, tried or not, for the player to move at the node."""

    visits: jax.Array  # i32[R, A]
    sums: values.Sums  # i32[R, A]: the sum of that many values, fixed point; AMAF's may be wide


class Scores(NamedTuple):
    """Score utilities, for the player to move at the node; see `score`."""

    sums: values.Sums  # i32[R]: of the node and below, fixed point; goes with `Tree.value_sum`
    own: jax.Array  # i32[R]: of the node's own evaluation; goes with `Tree.value`


class Shared(NamedTuple):
    """Each node's evaluation, for other nodes with the same key; see `transpositions`."""

    key: jax.Array  # u32[R, 2]: of the evaluator's input; 0, 0 where the node was not evaluated
    evaluation: jax.Array  # f32[R, A + 1]: the logits of all actions, and the value


class LastSync(NamedTuple):
    """Each node's statistics at the last exchange between the trees of its game; see `ensemble`."""

    visits: jax.Array  # i32[R]: 0 where there was no exchange yet
    sums: jax.Array  # i32[R]: the value sum
    amaf: Counts | None  # N~ and W~; where there was no exchange yet, a heuristic's counts


class Tree(struct.PyTreeNode):
    """B trees with room for N nodes each; R = B * N rows."""

    prior: jax.Array  # f32[R, A]: of the actions without a child; -inf if illegal or with a child
    children: jax.Array  # i16 or i32[R, A]: nodes by first visit; undefined from num_children on
    num_children: jax.Array  # i16 or i32[R]
    untried: jax.Array  # i16 or i32[R]: the best action without a child
    untried_prior: jax.Array  # f32[R]: its prior; -inf if there is none
    next: jax.Array  # i16 or i32[R]: the child a descent goes to; NO_NODE: it tries `untried`
    parent: jax.Array  # i16 or i32[R]: NO_NODE for the root
    action: jax.Array  # i16 or i32[R]: the action that led to the node
    edge_prior: jax.Array  # f32[R]: that action's prior
    visits: jax.Array  # i32[R]: the number of values backed up through the node, its own included
    value_sum: (
        values.Sums
    )  # i32[R]: the sum of these values, fixed point; wide if `OptionalArrays.wide`
    squares: values.Sums | None  # i32[R]: the sum of their squares, for a rule that needs it; with
    # `scores`, of value plus utility
    scores: Scores | None  # for a rule that needs them
    value: jax.Array  # i32[R]: the evaluator's or the game's value, fixed point
    over: jax.Array  # bool[R]: the game has ended here
    positions: tuple[jax.Array, ...]  # [R, width] for each dtype of a position
    size: jax.Array  # i32[B]: nodes in use
    amaf: Counts | None  # N~ and W~: of the simulations that played the action here or later
    prior_counts: Counts | None  # C and C Q: the initial counts of a heuristic's values
    shared: Shared | None  # for transpositions
    backup_value: jax.Array | None  # i32[R]: the value by `SearchConfig.backup`, fixed point
    proven: jax.Array | None  # i8[R]: the result for the player to move, see `proofs`
    last_sync: LastSync | None  # for the trees of an ensemble
    capacity: int = struct.static()  # N
    codec: rows.Codec = struct.static()

    @property
    def num_trees(self) -> int:
        return self.num_rows // self.capacity

    @property
    def num_rows(self) -> int:
        return self.visits.shape[0]

    @property
    def num_actions(self) -> int:
        return self.children.shape[1]

    @property
    def is_dense(self) -> bool:
        """Whether actions without visits differ in more than their priors."""
        return self.amaf is not None or self.prior_counts is not None

    def row(self, node: jax.Array | int) -> jax.Array:
        """i32[B]: the row of one node (i32[B] or a number) in each tree."""
        return jnp.arange(self.num_trees, dtype=jnp.int32) * self.capacity + node


class OptionalArrays(NamedTuple):
    """Which arrays a tree has in addition to those that every search needs; static."""

    amaf: bool = False  # all-moves-as-first statistics
    squares: bool = False  # sums of squared values
    scores: bool = False  # utilities of scores
    prior_counts: bool = False  # the initial counts of a heuristic
    shared: bool = False  # evaluations, for transpositions to share
    backup_value: bool = False  # values that are not means
    proven: bool = False  # proven results
    last_sync: bool = False  # the statistics at the last exchange, for an ensemble
    wide: bool = False  # sums that can hold more than `limits.MAX_VISITS` values


NO_OPTIONAL_ARRAYS = OptionalArrays()


def allocate(
    roots: Any, num_actions: int, capacity: int, optional: OptionalArrays = NO_OPTIONAL_ARRAYS
) -> Tree:
    """Empty trees for roots with a leading axis [B]; the roots are not written yet.

    Args:
      roots: positions.
      num_actions: A.
      capacity: N, nodes of each tree.
      optional: which optional arrays to allocate.

    Raises:
      ValueError: more rows than an i32 can number.
    """
    num_trees = jax.tree.leaves(roots)[0].shape[0]
    num_rows = num_trees * capacity
    if num_rows > MAX_ROWS:
        raise ValueError(f"{num_trees} trees of {capacity} nodes: {num_rows} rows, more than 2^30")
    codec = rows.codec_of(roots)
    node = functools.partial(jnp.full, dtype=_index_dtype(capacity))
    action = functools.partial(jnp.full, dtype=_index_dtype(num_actions))
    blank = jax.eval_shape(lambda x: rows.encode(codec, x), roots)
    zeros = functools.partial(values.zero_sums, (num_rows, num_actions))
    visits = functools.partial(jnp.zeros, (num_rows, num_actions), jnp.int32)
    counts_if = lambda is_kept, wide=False: Counts(visits(), zeros(wide)) if is_kept else None
    number = functools.partial(jnp.zeros, num_rows, jnp.int32)
    return Tree(
        prior=jnp.full((num_rows, num_actions), -jnp.inf, jnp.float32),
        children=node((num_rows, num_actions), NO_NODE),
        num_children=action(num_rows, 0),
        untried=action(num_rows, 0),
        untried_prior=jnp.full(num_rows, -jnp.inf, jnp.float32),
        next=node(num_rows, NO_NODE),
        parent=node(num_rows, NO_NODE),
        action=action(num_rows, 0),
        edge_prior=jnp.full(num_rows, -jnp.inf, jnp.float32),
        visits=number(),
        value_sum=values.zero_sums(num_rows, optional.wide),
        squares=values.zero_sums(num_rows, optional.wide) if optional.squares else None,
        scores=Scores(values.zero_sums(num_rows, optional.wide), number())
        if optional.scores
        else None,
        value=number(),
        over=jnp.zeros(num_rows, bool),
        positions=tuple(jnp.zeros((num_rows, *x.shape[1:]), x.dtype) for x in blank),
        size=jnp.zeros(num_trees, jnp.int32),
        amaf=counts_if(optional.amaf, optional.wide),
        prior_counts=counts_if(optional.prior_counts),
        shared=Shared(
            jnp.zeros((num_rows, 2), jnp.uint32),
            jnp.zeros((num_rows, num_actions + 1), jnp.float32),
        )
        if optional.shared
        else None,
        backup_value=number() if optional.backup_value else None,
        proven=jnp.zeros(num_rows, jnp.int8) if optional.proven else None,
        last_sync=LastSync(number(), number(), counts_if(optional.amaf))
        if optional.last_sync
        else None,
        capacity=capacity,
        codec=codec,
    )


def _index_dtype(count: int) -> Any:
    return jnp.int16 if count < 2**15 else jnp.int32


WAYS = 4
"""Slots in a bucket of the hash tables of `transpositions`."""


def num_slots(capacity: int) -> int:
    """Slots of a tree's hash table: at least twice its nodes, and a power of two."""
    return max(WAYS, 1 << (2 * capacity - 1).bit_length())


def memory_bytes(
    roots: Any, num_actions: int, capacity: int, optional: OptionalArrays = NO_OPTIONAL_ARRAYS
) -> int:
    """The number of bytes that `allocate` would take, without allocating. Roots may be shapes."""
    arrays = jax.eval_shape(lambda x: allocate(x, num_actions, capacity, optional), roots)
    return sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(arrays))


class Path(NamedTuple):
    """The nodes that a simulation of each tree visited: node j is j edges below the root."""

    nodes: jax.Array  # i32[D + 1, B] or longer; NO_NODE beyond `length`
    length: jax.Array  # i32[B]: the number of edges; the path ends at nodes[length]. 0: only the
    # root; -1: no node, so that nothing is backed up

    def rows(self, tree: Tree, counts: jax.Array) -> jax.Array:
        """i32[D + 1, B]: the nodes' rows; where not `counts`, distinct rows outside the arrays."""
        place = jnp.arange(self.nodes.size, dtype=jnp.int32).reshape(self.nodes.shape)
        return jnp.where(counts, tree.row(0)[None] + self.nodes, tree.num_rows + place)

    @property
    def end(self) -> jax.Array:
        """i32[B]: the last node."""
        return jnp.take_along_axis(self.nodes, self.length[None], axis=0)[0]


class PathSlots(NamedTuple):
    """M places on the paths."""

    index: jax.Array  # i32[M]: the tree
    level: jax.Array  # i32[M]
    counts: jax.Array  # bool[M]: whether there is a node; False for padding


class Packed(NamedTuple):
    """A numbering of the nodes of B paths, level by level; within a level, longest path first."""

    order: jax.Array  # i32[B]: the trees, those with the longest path first
    alive: jax.Array  # i32[D + 1]: the number of nodes on each level
    ends: jax.Array  # i32[D + 1]: the number of nodes on this level and those above it

    def slots(self, number: jax.Array) -> PathSlots:
        """The places of the nodes with numbers i32[M], which start at 0."""
        at = jnp.sum(number[:, None] >= self.ends[None], axis=1, dtype=jnp.int32)
        at = jnp.minimum(at, self.ends.size - 1)
        counts = number < self.ends[-1]
        place = jnp.where(counts, number - (self.ends - self.alive)[at], 0)
        return PathSlots(self.order[place], jnp.where(counts, at, 0), counts)


def packed(last: jax.Array, num_levels: int, first_level: int = 0) -> Packed:
    """The nodes on the levels from `first_level` to `last`, i32[B], of each path."""
    length, order = _longest_first(last)
    level = jnp.arange(num_levels, dtype=jnp.int32)
    alive = jnp.sum(-length[None] >= level[:, None], axis=1, dtype=jnp.int32)
    if first_level:
        alive = jnp.where(level >= first_level, alive, 0)
    return Packed(order, alive, jnp.cumsum(alive))


def _longest_first(last: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(-last in ascending order, the tree of each), i32[B] both; ties are in tree order."""
    tree = jnp.arange(last.size, dtype=jnp.int32)
    if not mode.writes_sequentially():
        return lax.sort_key_val(-last, tree)
    is_equal = last[None] == last[:, None]
    is_before = (last[None] > last[:, None]) | (is_equal & (tree[None] < tree[:, None]))
    rank = jnp.sum(is_before, axis=1, dtype=jnp.int32)
    order = indexing.write_sequentially(tree, (rank,), tree)
    return -last[order], order


class Entries(NamedTuple):
    """Some actions of each of M nodes."""

    edges: Edges  # fields [M, K], value and total [M]
    nodes: jax.Array  # i32[M, K]: the child; NO_NODE where there is none
    actions: Any  # i32[M, K]; undefined where there is no child


def children(
    tree: Tree, index: jax.Array, node: jax.Array, width: int, amaf_source: jax.Array | None = None
) -> Entries:
    """The visited actions of nodes that have at most `width` children.

    An entry without a child has a prior of -inf. `total` sums over these children only.

    Args:
      tree: the trees.
      index, node: i32[M]: node `node` of tree `index`.
      width: K.
      amaf_source: i32[M]: the rows to read all-moves-as-first statistics from; None: the nodes'
        own rows.
    """
    base = index * tree.capacity
    row = base + node
    child = rows.read(tree.children, row)[:, :width].astype(jnp.int32)
    # By the count, not by the contents of `children`: rows are reused.
    is_child = jnp.arange(width)[None] < rows.read(tree.num_children, row)[:, None]
    child = jnp.where(is_child, child, NO_NODE)
    child_row = base[:, None] + jnp.maximum(child, ROOT)
    # None in a kernel that needs no actions.
    action: Any = (
        None if tree.action is None else rows.read(tree.action, child_row).astype(jnp.int32)
    )
    visits = rows.read(tree.visits, child_row)
    # The player to move at a child is the opponent.
    if tree.backup_value is None:
        sums = values.minus(jnp.zeros_like(visits), _sums(tree, child_row))
        value = values.mean(_sums(tree, row), rows.read(tree.visits, row))
    else:
        sums, value = (
            -rows.read(tree.backup_value, child_row),
            values.to_float(rows.read(tree.backup_value, row)),
        )
    if tree.prior_counts is not None:
        visits += rows.read_entries(tree.prior_counts.visits, row, action)
        sums = values.plus(sums, rows.read_entries(tree.prior_counts.sums, row, action))
    variance = None
    if tree.squares is not None:
        squares = rows.read(tree.squares, child_row)
        variance = values.variance(_sums(tree, child_row), squares, visits)
        variance = jnp.where(is_child, variance, 0.0)
    visits = jnp.where(is_child, visits, 0)
    sums = values.where(is_child, sums)
    q = values.mean(sums, visits) if tree.backup_value is None else values.to_float(sums)
    proven = None
    if tree.proven is not None:
        proven = proofs.opponent(rows.read(tree.proven, child_row))
        proven = jnp.where(is_child, proven, proofs.UNKNOWN).astype(jnp.int8)
        q = proofs.exact_or(proven, q)
    edges = Edges(
        prior=jnp.where(is_child, rows.read(tree.edge_prior, child_row), -jnp.inf),
        visits=visits,
        q=q,
        value=value,
        total=jnp.sum(visits, axis=1),
        raw_value=_raw_value(tree, row),
        variance=variance,
        proven=proven,
    )
    if tree.amaf is not None:
        amaf_source = row if amaf_source is None else amaf_source
        count = rows.read_entries(tree.amaf.visits, amaf_source, action)
        total = rows.read_entries(tree.amaf.sums, amaf_source, action)
        edges = edges._replace(amaf_visits=count, amaf_q=values.mean(total, count))
    return Entries(edges, child, action)


def _sums(tree: Tree, row: jax.Array) -> values.Sums:
    """The value sums at rows i32[...], with the score utilities if they are kept."""
    sums = rows.read(tree.value_sum, row)
    return sums if tree.scores is None else values.added(sums, rows.read(tree.scores.sums, row))


def _raw_value(tree: Tree, row: jax.Array) -> jax.Array | None:
    """f32[M]: the nodes' own evaluations, in rows i32[M]; None: no rule needs them."""
    if tree.value is None:
        return None
    value = rows.read(tree.value, row)
    return values.to_float(
        value if tree.scores is None else value + rows.read(tree.scores.own, row)
    )


def entries(tree: Tree, index: jax.Array, node: jax.Array, width: int) -> Entries:
    """The candidates of a rule at some nodes: their children, then the best untried action.

    For a rule that ranks actions without visits by their priors alone. Other actions without a
    child are not among the entries.

    Args: as for `children`; there are K + 1 entries.
    """
    tried = children(tree, index, node, width)
    row = index * tree.capacity + node

    def with_rest(of_children, of_rest):
        return jnp.concatenate([of_children, of_rest[:, None]], axis=1)

    none = jnp.zeros_like(row)
    edges = tried.edges._replace(
        prior=with_rest(tried.edges.prior, rows.read(tree.untried_prior, row)),
        visits=with_rest(tried.edges.visits, none),
        q=with_rest(tried.edges.q, none.astype(jnp.float32)),
    )
    if edges.variance is not None:
        no_variance = none.astype(jnp.float32)
        edges = edges._replace(variance=with_rest(edges.variance, no_variance))
    if edges.proven is not None:
        edges = edges._replace(proven=with_rest(edges.proven, none.astype(jnp.int8)))
    return Entries(edges, with_rest(tried.nodes, none + NO_NODE), tried.actions)


READ_OF_CHILDREN = (
    *("children", "num_children", "action", "edge_prior", "visits", "value_sum"),
    *("squares", "scores", "amaf", "prior_counts", "backup_value", "proven"),
)


def with_only(tree: Tree, *names: str) -> Tree:
    """The trees with these arrays only, so that a kernel takes no more than it needs."""
    others = {field.name for field in dataclasses.fields(tree)} - {*names, "capacity", "codec"}
    return tree.replace(**dict.fromkeys(others))


def for_entries(tree: Tree, select: Rule) -> Tree:
    """The trees with only the arrays that `entries` reads for a rule."""
    read = set(READ_OF_CHILDREN) - {"action"}
    if tree.backup_value is not None and tree.squares is None:
        read -= {"value_sum"}
    inputs = with_only(tree, "untried_prior", "value", *read)
    if as_rule(select).needs.raw_value:
        return inputs
    scores = None if inputs.scores is None else inputs.scores._replace(own=None)
    return inputs.replace(value=None, scores=scores)


def all_edges(tree: Tree, node: jax.Array | int) -> Edges:
    """The statistics of every action of one node of each tree (i32[B] or a number): [B, A].

    Visits and values are those of simulations only: a heuristic's counts and score utilities are
    left out, and with the utilities the variances, which include them.
    """
    squares = tree.squares if tree.scores is None else None
    simulated = tree.replace(prior_counts=None, scores=None, squares=squares)
    return by_action(simulated, node, tree.num_actions).edges


def by_action(tree: Tree, node: jax.Array | int, width: int) -> Entries:
    """All actions of one node of each tree, if it has at most `width` children: [B, A]."""
    plain = functools.partial(_by_action, width)
    if not by_action_in_kernel(tree):
        return plain(tree, node)
    return mode.by_platform(tree, node, cuda=_by_action_at_once, default=plain)


def by_action_in_kernel(tree: Tree) -> bool:
    """Whether there is a GPU kernel for `by_action` on these trees; it works for any width."""
    others = tree.squares, tree.scores, tree.prior_counts, tree.backup_value, tree.proven
    is_plain = all(x is None for x in others) and not isinstance(tree.value_sum, values.Wide)
    return is_plain and mode.backend() == "gpu" and not mode.plain()


def _by_action_at_once(tree: Tree, node: jax.Array | int) -> Entries:
    """`by_action` in one kernel, except for fields with one number per node."""
    names = ("prior", "children", "num_children", "action", "edge_prior", "visits", "value_sum")
    names += () if tree.value is None else ("value",)
    seen, treedef = jax.tree.flatten(with_only(tree, *names))

    def kernel(node, *refs):
        own, out = jax.tree.unflatten(treedef, refs[: len(seen)]), refs[len(seen) :]
        number = paths.number()
        paths.write_by_action(own, paths.ByAction(*out[2:]), number, node[number], values.mean)
        row = number * tree.capacity + node[number]
        out[0][number] = values.mean(own.value_sum[row], own.visits[row])
        if own.value is not None:
            out[1][number] = values.to_float(own.value[row])

    arrays = [jnp.broadcast_to(node, tree.num_trees), *seen]
    one = jax.ShapeDtypeStruct((tree.num_trees,), jnp.float32)
    new = [one, one, *paths.ByAction.shapes(tree)]
    value, raw_value, *actions = paths.each_tree(kernel, tree.num_trees, [], arrays, new)
    actions = paths.ByAction(*actions)
    row = tree.row(node)
    edges = Edges(
        prior=actions.prior,
        visits=actions.visits,
        q=actions.q,
        value=value,
        total=jnp.sum(actions.visits, axis=1),
        raw_value=None if tree.value is None else raw_value,
    )
    if tree.amaf is not None:
        count, total = (rows.read(x, row) for x in tree.amaf)
        edges = edges._replace(amaf_visits=count, amaf_q=values.mean(total, count))
    return Entries(edges, actions.nodes, None)


def _by_action(width: int, tree: Tree, node: jax.Array | int) -> Entries:
    row = tree.row(node)
    lanes = jnp.arange(tree.num_trees, dtype=jnp.int32)
    tried = children(tree, lanes, row - tree.row(0), width)
    action = jnp.where(tried.nodes >= 0, tried.actions, tree.num_actions)
    write = lambda x, of_children: x.at[lanes[:, None], action].set(of_children, mode="drop")
    none = jnp.zeros((tree.num_trees, tree.num_actions), jnp.int32)
    visits, sums = none, none
    prior = rows.read(tree.prior, row)
    if tree.prior_counts is not None:  # 0 for illegal actions
        visits, sums = (jnp.where(prior >= 0, rows.read(x, row), 0) for x in tree.prior_counts)
    visits = write(visits, tried.edges.visits)
    edges = tried.edges._replace(
        prior=write(prior, tried.edges.prior),
        visits=visits,
        q=write(values.mean(sums, visits), tried.edges.q),
        total=jnp.sum(visits, axis=1),
    )
    if edges.variance is not None:
        edges = edges._replace(variance=write(jnp.zeros_like(prior), edges.variance))
    if edges.proven is not None:
        edges = edges._replace(proven=write(none.astype(jnp.int8), edges.proven))
    if tree.amaf is not None:
        count, total = (rows.read(x, row) for x in tree.amaf)
        edges = edges._replace(amaf_visits=count, amaf_q=values.mean(total, count))
    return Entries(edges, write(none + NO_NODE, tried.nodes), None)


def read_positions(tree: Tree, node_rows: jax.Array, levels: jax.Array | None = None) -> Any:
    """The positions at rows i32[...], with the same leading axes.

    With `levels`, i32[], the rows are [M, D], and only the first `levels` of D need to be read; the
    others are undefined.
    """
    read = rows.read if levels is None else functools.partial(rows.read_levels, levels)
    return rows.decode(tree.codec, tuple(read(x, node_rows) for x in tree.positions))


def write_positions(tree: Tree, node_rows: jax.Array, positions: Any) -> tuple[jax.Array, ...]:
    """`Tree.positions` with positions [B] written at rows i32[B]."""
    encoded = rows.encode(tree.codec, positions)
    return tuple(rows.write(x, node_rows, y) for x, y in zip(tree.positions, encoded, strict=True))


def is_open(tree: Tree, row: jax.Array) -> jax.Array | bool:
    """bool[B]: whether nothing is proven of the nodes in rows i32[B]."""
    return True if tree.proven is None else rows.read(tree.proven, row) == proofs.UNKNOWN


def unless_proven(tree: Tree, row: jax.Array, child: jax.Array) -> jax.Array:
    """`Tree.next` of nodes in rows i32[...]: the child; NO_NODE if proven, where descents stop."""
    if tree.proven is None:
        return child
    return jnp.where(rows.read(tree.proven, row) == proofs.UNKNOWN, child, NO_NODE)


def first_row(tree: Tree) -> jax.Array:
    """i32[B, 1]: the row of each tree's root."""
    return tree.row(ROOT)[:, None]


def outside(tree: Tree) -> jax.Array:
    """i32[B, N]: a distinct row outside the arrays for each row."""
    return tree.num_rows + jnp.arange(tree.num_rows, dtype=jnp.int32).reshape(
        tree.num_trees, tree.capacity
    )


def children_of(tree: Tree, parent: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(`children`, `num_children`) of trees whose nodes have these parents, i32[R].

    Nodes are numbered in the order of their first visits, and so are the children of each node.
    Entries beyond a node's children stay as they are.
    """
    parent = parent.reshape(tree.num_trees, tree.capacity).astype(jnp.int32)
    siblings = _siblings(parent, tree.num_children.dtype)
    row = jnp.where(siblings.parent >= 0, first_row(tree) + siblings.parent, outside(tree))
    children = rows.write_entries(
        tree.children, row.reshape(-1), siblings.place.reshape(-1), siblings.node.reshape(-1)
    )
    return children, siblings.count.reshape(-1)


class _Siblings(NamedTuple):
    """The nodes of B trees, sorted by parent in blocks, and numbers of children: [B, N]."""

    node: jax.Array  # i32
    parent: jax.Array  # i32: of this node; NO_NODE for none
    place: jax.Array  # the number of the parent's children before this node; 0 without a parent
    count: jax.Array  # of the children of nodes 0, 1, 2, ...


def _siblings(parent: jax.Array, dtype: jnp.dtype) -> _Siblings:
    """Nodes beside their siblings; `parent`, i32[B, N], is NO_NODE for a node without a parent;
    `dtype` is that of numbers of children.

    A CPU sorts single numbers several times as fast as pairs, so a block has as many nodes as fit
    the bits beside a parent's number. Trip bound: the number of blocks, 1 for N < 2^16.
    """
    num_trees, capacity = parent.shape
    length = min(2 ** (32 - capacity.bit_length()), capacity)
    num_blocks = -(-capacity // length)
    padding = (0, 0), (0, num_blocks * length - capacity)
    key = jnp.pad(jnp.where(parent >= 0, parent, capacity), padding, constant_values=capacity)
    key = key.astype(jnp.uint32).reshape(num_trees, num_blocks, length) * length
    key = jnp.sort(key + lax.broadcasted_iota(jnp.uint32, key.shape, 2))
    parent, index = (x.astype(jnp.int32) for x in (key // length, key % length))
    place = jnp.arange(length, dtype=jnp.int32)[None]
    lane = jnp.arange(num_trees, dtype=jnp.int32)[:, None]

    def number(count, parent):
        """The places of a block's nodes, sorted by parent, after those of earlier blocks."""
        differs = parent[:, 1:] != parent[:, :-1]
        first = jnp.pad(differs, ((0, 0), (1, 0)), constant_values=True)
        last = jnp.pad(differs, ((0, 0), (0, 1)), constant_values=True)
        before = jnp.take_along_axis(
            count, jnp.minimum(parent, capacity - 1), axis=1, mode="promise_in_bounds"
        )
        among = before + (place - lax.cummax(jnp.where(first, place, 0), axis=1)).astype(dtype)
        among = jnp.where(parent < capacity, among, 0)
        at = jnp.where(last, parent, capacity + place)
        return count.at[lane, at].set(among + 1, mode="drop", unique_indices=True), among

    none = jnp.zeros((num_trees, capacity), dtype)
    count, places = lax.scan(number, none, jnp.moveaxis(parent, 1, 0))
    # The padding, which has no parent and comes last, ends the last block.
    whole = lambda x: x.reshape(num_trees, -1)[:, :capacity]
    return _Siblings(
        node=whole(index + length * lax.broadcasted_iota(jnp.int32, index.shape, 1)),
        parent=whole(jnp.where(parent < capacity, parent, NO_NODE)),
        place=whole(jnp.moveaxis(places, 0, 1)),
        count=count,
    )
