"""The end of a simulation on a GPU, in one kernel that handles each tree by itself.

The kernel does what `expand.add_leaf` does stage by stage and array by array: write the new node,
back up its value, credit the actions that were played, and choose again along the path. The results
are the same; but on a GPU, each array that is written separately costs a kernel, and the host must
read the predicates of the loops over levels. Only for plain searches: no proofs, values that are
means, no heuristic's counts, no transpositions or ensembles (`fits`).

Trees and paths are those of `tree`. It is not imported, because `choose` imports this module and
would then be one layer of imports higher.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import mode
from gozero.compile.kernels import paths
from gozero.search import values
from gozero.search.edges import (
    Edges,
    SelectionRule,
    among_children,
    as_rule,
    best_edge,
    tie_break,
)


class Words(NamedTuple):
    """Positions [B] as one array."""

    words: jax.Array  # u32[n, B]: all of their leaves, see `paths.word`


class NewNodes(NamedTuple):
    """New nodes with their evaluations: roots, or nodes below the ends of the paths."""

    positions: tuple[jax.Array, ...] | Words  # their leaves, [B, width] each, or their words
    prior: jax.Array  # f32[B, A]
    over: jax.Array  # bool[B]
    grows: jax.Array | None = None  # bool[B]: whether a node is added; None: these are roots
    action: jax.Array | None = None  # i32[B]


class Update(NamedTuple):
    """The changes to make along the paths; every part except `tie_seeds` may be None."""

    path: Any  # tree.Path; None: the roots alone
    tie_seeds: jax.Array  # u32[B]
    new: NewNodes | None = None
    value: jax.Array | None = None  # i32[B]: to back up
    played: jax.Array | None = None  # bool[B, 2, A]: `Evaluation.played`, to credit
    tree_full: jax.Array | None = None  # bool[B]: as in `select.Leaf`
    root: RootInputs | None = None  # if given, the rule `Settings.root` chooses at the roots


class RootInputs(NamedTuple):
    """The inputs of a root's rule in addition to its edges."""

    gumbel: jax.Array  # f32[B, A]
    table: jax.Array  # `SelectionRule.root_table`


class Settings(NamedTuple):
    """The static settings of a kernel."""

    rule: SelectionRule
    first_level: int = 0  # the first level at which the rule chooses
    first: str = "either"  # `Amaf.first`
    changes: tuple[str, ...] = ()  # the fields of the trees that may change; (): all of them
    blank: tuple[Any, ...] = ()  # for new trees: the blank value of each array
    root: Callable[..., jax.Array] | None = None  # (edges, gumbel, table=) -> scores of a root
    fills: bool = False  # `SearchConfig.fills`


def fits(tree: Any, select: Any) -> bool:
    """Whether a GPU kernel can search these trees with this rule."""
    return _is_plain(tree) and as_rule(select).in_kernel


def fits_roots(tree: Any, select: Any) -> bool:
    """Whether a GPU kernel can initialise such trees, with the first choice by this rule."""
    rule = as_rule(select)
    is_default = type(rule).rank_untried is SelectionRule.rank_untried
    return _is_plain(tree) and (rule.in_kernel or (is_default and not tree.is_dense))


def _is_plain(tree: Any) -> bool:
    others = tree.squares, tree.prior_counts, tree.shared, tree.backup_value, tree.proven
    others += tree.last_sync, tree.scores
    on_gpu = mode.backend() == "gpu" and not mode.plain()
    return on_gpu and all(x is None for x in others) and not isinstance(tree.value_sum, values.Wide)


def settings_of(config: Any) -> Settings:
    is_dense, own_root = config.amaf is not None, config.root_select is not None
    first = "either" if config.amaf is None else config.amaf.first
    root = None
    if chooses_at_roots(config):
        score = config.root_rule.score_root
        root = functools.partial(score, num_simulations=config.num_simulations)
    level = int(own_root and not is_dense)
    return Settings(config.rule, level, first, root=root, fills=config.fills)


def chooses_at_roots(config: Any) -> bool:
    """Whether the kernel chooses by the roots' own rule too."""
    rule = config.root_rule
    return rule is not None and rule.root_in_kernel and config.amaf is None


def root_inputs(config: Any, gumbel: jax.Array) -> RootInputs | None:
    """`Update.root`."""
    if not chooses_at_roots(config):
        return None
    return RootInputs(gumbel, jnp.asarray(config.root_rule.root_table(config.num_simulations)))


def credited_plays(evaluated: Any, config: Any) -> jax.Array | None:
    """`Update.played`; None if all-moves-as-first statistics are not kept."""
    if config.amaf is None:
        return None
    return evaluated.credited if evaluated.played is None else evaluated.played


def leaves_of(positions: Any) -> tuple[jax.Array, ...]:
    """The leaves of positions [B], for `NewNodes`."""
    return tuple(x.reshape(len(x), -1) for x in jax.tree.leaves(positions))


def words_of(positions: Any) -> tuple[jax.Array, ...] | Words:
    """The same as words, if `paths.word` supports all of their dtypes.

    Used for roots: their leaves are slices of common arrays, and each would cost a kernel.
    """
    leaves = leaves_of(positions)
    if any(x.dtype not in paths.AS_WORDS for x in leaves):
        return leaves
    return Words(jnp.concatenate([paths.word(x).T for x in leaves]))


def run(tree: Any, update: Update, settings: Settings) -> Any:
    """The trees with the new nodes, values, credit and choices of `update`."""
    names = {field.name for field in dataclasses.fields(tree)} - {"capacity", "codec"}
    changed = set(settings.changes) or names
    blank = lambda fields: tree.replace(**dict.fromkeys(fields))
    state, treedef = jax.tree.flatten(blank(names - changed))
    inputs, inputs_def = jax.tree.flatten((blank(changed), update))
    scratch = _scratch(tree, settings)

    def kernel(*refs):
        others, own_update = jax.tree.unflatten(inputs_def, refs[: len(inputs)])
        state_refs = jax.tree.unflatten(treedef, refs[len(inputs) :][: len(state)])
        full_tree = _with(others, state_refs, changed)
        _Program(full_tree, own_update, settings, refs[len(inputs) + len(state) :]).run()

    outputs = paths.each_tree(kernel, tree.num_trees, state, inputs, scratch)[: len(state)]
    return _with(tree, jax.tree.unflatten(treedef, outputs), changed)


def _scratch(tree: Any, settings: Settings) -> list[jax.ShapeDtypeStruct]:
    """The shapes of a kernel's scratch arrays."""
    return [] if settings.root is None else [*paths.ByAction.shapes(tree)]


def _with(tree: Any, other: Any, names: set[str]) -> Any:
    """The trees with the fields `names` of others."""
    return tree.replace(**{name: getattr(other, name) for name in names})


def new_trees(blank: Any, shapes: Any, update: Update, settings: Settings) -> Any:
    """Trees whose roots are `update.new`.

    Args:
      blank: a tree with a single, blank node.
      shapes: the shapes of the trees.
      update: the roots, without paths.
      settings: static.
    """
    fills = tuple(np.asarray(x).flat[0] for x in jax.tree.leaves(blank))
    leaves, treedef = jax.tree.flatten(shapes)
    inputs, inputs_def = jax.tree.flatten(update)

    def kernel(*refs):
        own_update = jax.tree.unflatten(inputs_def, refs[: len(inputs)])
        tree = jax.tree.unflatten(treedef, refs[len(inputs) :][: len(leaves)])
        scratch = refs[len(inputs) + len(leaves) :]
        _Program(tree, own_update, settings._replace(blank=fills), scratch).run()

    new = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves] + _scratch(shapes, settings)
    outputs = paths.each_tree(kernel, shapes.num_trees, [], inputs, new)
    return jax.tree.unflatten(treedef, outputs[: len(leaves)])


_AT_ONCE = 128
"""Nodes that `_Program.fill` fills in at a time."""


class _Program:
    """The kernel program for one tree; `tree`, `update` and `scratch` hold references."""

    def __init__(self, tree: Any, update: Any, settings: Settings, scratch: Sequence[Any] = ()):
        self.tree, self.update, self.settings, self.scratch = tree, update, settings, scratch
        self.number = paths.number()
        self.base = self.number * tree.capacity
        self.actions = paths.lanes(tree.num_actions)
        self.is_action = self.actions < tree.num_actions
        self.seed = update.tie_seeds[self.number]
        self.length = self.old_length = (
            jnp.int32(0) if update.path is None else update.path.length[self.number]
        )
        self.full = jnp.bool_(False) if update.tree_full is None else update.tree_full[self.number]
        self.grows, self.new_node = jnp.bool_(False), jnp.int32(paths.ROOT)
        if update.new is not None and update.new.grows is not None:
            self.grows = update.new.grows[self.number]
            self.new_node = jnp.minimum(tree.size[self.number], tree.capacity - 1)
            self.length = self.length + self.grows.astype(jnp.int32)

    def run(self) -> None:
        with mode.in_triton():
            self.run_along_path()
            if self.settings.root is not None and self.update.root is not None:
                paths.settle()
                self.choose_at_root(
                    self.settings.root, self.update.root, paths.ByAction(*self.scratch)
                )

    def run_along_path(self) -> None:
        new = self.update.new
        if new is not None:
            begin = self.begin if new.grows is None else self.add_node
            begin(new)
        if self.update.value is not None:
            self.back_up(self.update.value[self.number])
        paths.settle()
        is_dense = self.tree.is_dense
        if new is not None and new.grows is None and not is_dense:
            return  # a new root has no choice to make, and not every rule can be in a kernel
        if self.update.played is not None:
            self.credit(self.update.played, self.update.new.over[self.number])
            paths.settle()
        end = self.length + (1 if is_dense else self.full.astype(jnp.int32))
        choose = self.choose_dense if is_dense else self.choose_cached

        def at_level(level, carry):
            choose(level, self.node_at(level))
            return carry

        lax.fori_loop(self.settings.first_level, end, at_level, jnp.int32(0))

    def node_at(self, level: jax.Array) -> jax.Array:
        if self.update.path is None:
            return jnp.int32(paths.ROOT)
        node = self.update.path.nodes[jnp.minimum(level, self.old_length), self.number]
        return jnp.where(level > self.old_length, self.new_node, node)

    def put(self, array: Any, row: jax.Array, value: Any, where: jax.Array) -> None:
        """Write the value into an array [R] at a row, if `where`."""
        value = jnp.asarray(value).astype(array.dtype)
        array[row] = jnp.where(where, value, array[row])

    # --- the new node -----------------------------------------------------------------

    def begin(self, new: NewNodes) -> None:
        """Write a blank tree with its root."""
        for array, blank in zip(jax.tree.leaves(self.tree), self.settings.blank, strict=True):
            if len(array.shape) == 1:
                self.fill(array, blank)
            else:
                self.fill_rows(array, blank)
        paths.settle()
        self.tree.size[self.number] = jnp.int32(1)
        self.write_node(new, jnp.int32(paths.ROOT), jnp.bool_(True))

    def fill(self, array: Any, blank: Any) -> None:
        if array is self.tree.size:
            return
        lane, capacity = paths.lanes(_AT_ONCE - 1), self.tree.capacity

        def some(i, carry):
            node = i * _AT_ONCE + lane
            paths.store(array, self.base + node, mask=node < capacity, value=blank)
            return carry

        lax.fori_loop(0, -(-capacity // _AT_ONCE), some, jnp.int32(0))

    def fill_rows(self, array: Any, blank: Any) -> None:
        place = paths.lanes(array.shape[1])
        inside = place < array.shape[1]

        def one(node, carry):
            paths.store(array, self.base + node, place, mask=inside, value=blank)
            return carry

        lax.fori_loop(0, self.tree.capacity, one, jnp.int32(0))

    def add_node(self, new: NewNodes) -> None:
        tree, b, grows = self.tree, self.number, self.grows
        parent = self.update.path.nodes[self.old_length, b]
        row, parent_row = self.base + self.new_node, self.base + parent
        action = cast(Any, new.action)[b]
        prior = self.row_of(tree.prior, parent_row, self.is_action)
        is_played = (self.actions == action) & grows
        rest = self.legal_only(jnp.where(is_played, -jnp.inf, prior))
        paths.store(tree.prior, parent_row, self.actions, mask=is_played, value=rest)
        if not tree.is_dense:
            self.write_untried(parent, rest, grows | self.full, self.full)
        num_children = tree.num_children[parent_row].astype(jnp.int32)
        is_next = (self.actions == num_children) & (grows | self.full)
        paths.store(tree.children, parent_row, self.actions, mask=is_next, value=tree.size[b])
        self.put(tree.num_children, parent_row, num_children + 1, grows)
        self.put(tree.parent, row, parent, grows)
        self.put(tree.action, row, action, grows)
        self.put(tree.edge_prior, row, jnp.max(jnp.where(is_played, prior, -jnp.inf)), grows)
        self.write_node(new, self.new_node, grows)
        tree.size[b] = tree.size[b] + grows.astype(jnp.int32)

    def write_node(self, new: NewNodes, node: jax.Array, where: jax.Array) -> None:
        """Write a node's evaluation, if `where`."""
        tree, b, row = self.tree, self.number, self.base + node
        prior = self.row_of(new.prior, b, self.is_action)
        mask = self.is_action & where
        paths.store(tree.prior, row, self.actions, mask=mask, value=prior)
        if tree.is_dense:
            self.put(tree.untried_prior, row, 0.0, where)
        else:
            self.write_untried(node, self.legal_only(prior), where, jnp.bool_(False))
        for array in tree.amaf or ():
            paths.store(array, row, self.actions, mask=mask, value=jnp.int32(0))
        self.write_position(new, row, where)
        self.put(tree.over, row, new.over[b], where)
        self.put(tree.value, row, self.update.value[b], where)

    def write_position(self, new: NewNodes, row: jax.Array, where: jax.Array) -> None:
        codec, first = self.tree.codec, 0
        start = dict.fromkeys(codec.dtypes, 0)
        for i, (dtype, shape) in enumerate(codec.leaves):
            array, width = self.tree.positions[codec.dtypes.index(dtype)], math.prod(shape)
            place = paths.lanes(width)
            inside = place < width
            if isinstance(new.positions, Words):
                value = paths.load(new.positions.words, first + place, self.number, mask=inside)
                value = paths.number_of(value, dtype)
            else:
                value = self.row_of(new.positions[i], self.number, inside)
            paths.store(array, row, start[dtype] + place, mask=inside & where, value=value)
            start[dtype] += width
            first += width

    def row_of(self, array: Any, row: jax.Array, mask: jax.Array) -> jax.Array:
        place = lax.broadcasted_iota(jnp.int32, mask.shape, 0)
        return paths.load(array, row, place, mask=mask)

    def legal_only(self, prior: jax.Array) -> jax.Array:
        return jnp.where(self.is_action, prior, -jnp.inf)

    def write_untried(
        self, node: jax.Array, prior: jax.Array, where: jax.Array, tree_full: jax.Array
    ) -> None:
        """As `choose.write_untried`, for one node."""
        rank = self.settings.rule.rank_untried(prior)
        action = self.best(rank, node, self.actions, self.is_action)
        best = jnp.max(jnp.where(self.actions == action, prior, -jnp.inf))
        self.put(self.tree.untried, self.base + node, action, where)
        best = jnp.where(tree_full, -jnp.inf, best)
        self.put(self.tree.untried_prior, self.base + node, best, where)

    def best(
        self, scores: jax.Array, node: jax.Array, choices: jax.Array, counts: jax.Array
    ) -> jax.Array:
        """i32[]: the index of the highest score; ties are random."""
        priority = tie_break(self.seed, node, choices)
        # Entries that do not count come last even where all scores are -inf.
        priority = jnp.where(counts, jnp.maximum(priority, np.uint32(1)), np.uint32(0))
        return best_edge(scores, priority)

    # --- along the path ---------------------------------------------------------------

    def back_up(self, value: jax.Array) -> None:
        """As `backup.back_up`."""
        path = self.update.path
        level = paths.lanes(1 if path is None else path.nodes.shape[0])
        on_path = level <= self.length
        node = jnp.zeros_like(level) + paths.ROOT
        if path is not None:
            is_old = on_path & (level <= self.old_length)
            node = paths.load(path.nodes, level, self.number, mask=is_old)
        row = self.base + jnp.where(level > self.old_length, self.new_node, node)
        row = jnp.where(on_path, row, self.tree.num_rows + level)  # distinct rows for all lanes
        gained = values.opponent(value, self.length - level)
        # A reused row still holds its earlier contents, as in a plain search.
        for array, amount in ((self.tree.visits, 1), (self.tree.value_sum, gained)):
            total = paths.load(array, row, mask=on_path) + amount
            paths.store(array, row, mask=on_path, value=total)

    def credit(self, played: Any, over: jax.Array) -> None:
        """As `backup.amaf_counted`, with the credit that `dense.choose_again` adds."""
        tree, b = self.tree, self.number
        value, one_ply = self.update.value[b], cast(Any, 1)

        def played_by(player: int) -> jax.Array:
            index = jnp.int32(b), jnp.int32(player), self.actions
            return (paths.load(played, *index, mask=self.is_action) & ~over).astype(jnp.int32)

        def one_up(i, carry):
            mine, other, gained = carry
            level = self.length - i
            node, below = self.node_at(level), self.node_at(level + 1)
            next_action = tree.action[self.base + below].astype(jnp.int32)
            bit = ((self.actions == next_action) & (level < self.length)).astype(jnp.int32)
            keep = 1 - bit if self.settings.first == "either" else jnp.ones_like(bit)
            is_mine = (i & 1) == 0  # (Triton has no remainder here, jax 0.10.1.)
            mine = jnp.where(is_mine, mine | bit, mine & keep)
            other = jnp.where(is_mine, other & keep, other | bit)
            credited = jnp.where(is_mine, mine, other)
            for array, amount in zip(tree.amaf, (credited, credited * gained), strict=True):
                index = self.base + node, self.actions
                total = paths.load(array, *index, mask=self.is_action) + amount
                paths.store(array, *index, mask=self.is_action, value=total)
            return mine, other, values.opponent(gained, one_ply)

        lax.fori_loop(0, self.length + 1, one_up, (played_by(0), played_by(1), value))

    # --- choices ----------------------------------------------------------------------

    def children(self, row: jax.Array) -> tuple[jax.Array, Edges]:
        """(the children i32[K] of a row, paths.NO_NODE beyond them; their edges)."""
        tree = self.tree
        is_child = self.actions < tree.num_children[row].astype(jnp.int32)
        child = self.row_of(tree.children, row, is_child).astype(jnp.int32)
        child_row = self.base + child
        of_child = functools.partial(paths.load, mask=is_child)
        visits = of_child(tree.visits, child_row)
        edges = Edges(
            prior=jnp.where(is_child, of_child(tree.edge_prior, child_row), -jnp.inf),
            visits=visits,
            q=values.mean(-of_child(tree.value_sum, child_row), visits),
            value=values.mean(tree.value_sum[row], tree.visits[row]),
            total=jnp.sum(visits),
            raw_value=values.to_float(tree.value[row]),
        )
        if tree.amaf is not None:
            action = of_child(tree.action, child_row).astype(jnp.int32)
            count, sums = (of_child(x, row, action) for x in tree.amaf)
            edges = edges._replace(amaf_visits=count, amaf_q=values.mean(sums, count))
        return jnp.where(is_child, child, paths.NO_NODE), edges

    def choose_at_root(self, rule: Callable, inputs: RootInputs, by_action: paths.ByAction) -> None:
        """As `root.choose_at_roots`."""
        tree, b, row, node = self.tree, self.number, self.base, jnp.int32(paths.ROOT)
        paths.write_by_action(tree, by_action, b, node, values.mean)
        paths.settle()
        stats = paths.ByAction(*(self.row_of(x, b, self.is_action) for x in by_action))
        edges = Edges(
            prior=self.legal_only(stats.prior),
            visits=stats.visits,
            q=stats.q,
            value=values.mean(tree.value_sum[row], tree.visits[row]),
            total=jnp.sum(stats.visits),
            raw_value=values.to_float(tree.value[row]),
        )
        gumbel = self.row_of(inputs.gumbel, b, self.is_action)
        scores = rule(edges, gumbel, table=inputs.table)
        if self.settings.fills:
            children_only = (tree.size[b] >= tree.capacity) & (tree.num_children[row] > 0)
            has_child = self.is_action & (stats.nodes != paths.NO_NODE)
            of_children = among_children(scores, stats.visits, has_child)
            scores = jnp.where(children_only, of_children, scores)
        action = self.best(scores, node, self.actions, self.is_action)
        child, prior = (
            jnp.max(jnp.where(self.actions == action, x, none))
            for x, none in ((stats.nodes, paths.NO_NODE), (edges.prior, -jnp.inf))
        )
        tree.next[row] = child.astype(tree.next.dtype)
        # Where a child is chosen, the best untried action stays as it is.
        self.put(tree.untried, row, action, child == paths.NO_NODE)
        self.put(tree.untried_prior, row, prior, child == paths.NO_NODE)

    def choose_cached(self, level: jax.Array, node: jax.Array) -> None:
        """As `choose.choose_again`, at one node."""
        row = self.base + node
        child, edges = self.children(row)
        is_child = child != paths.NO_NODE
        # The best untried action comes after the children; ties do not depend on the place.
        is_rest = self.actions == self.tree.num_children[row].astype(jnp.int32)
        rest = jnp.where(is_rest, self.tree.untried_prior[row], -jnp.inf)
        edges = edges._replace(prior=jnp.where(is_child, edges.prior, rest))
        entry = self.best(self.settings.rule(edges), node, child, is_child | is_rest)
        chosen = jnp.max(jnp.where(self.actions == entry, child, paths.NO_NODE))
        self.tree.next[row] = chosen.astype(self.tree.next.dtype)

    def choose_dense(self, level: jax.Array, node: jax.Array) -> None:
        """As `dense.choose_again`, at one node."""
        tree, rule, row = self.tree, self.settings.rule, self.base + node
        child, tried = self.children(row)
        none = jnp.zeros_like(child)
        prior = self.legal_only(self.row_of(tree.prior, row, self.is_action))
        count, sums = (self.row_of(x, row, self.is_action) for x in tree.amaf)
        untried = tried._replace(
            prior=prior,
            visits=none,
            q=none.astype(jnp.float32),
            amaf_visits=count,
            amaf_q=values.mean(sums, count),
        )
        scores = jnp.where(prior >= 0, rule(untried), -jnp.inf)
        action = self.best(scores, node, self.actions, self.is_action)
        best, best_prior = (
            jnp.max(jnp.where(self.actions == action, x, -jnp.inf)) for x in (scores, prior)
        )
        if self.update.tree_full is not None:
            is_full = jnp.isneginf(tree.untried_prior[row])
            is_full |= (level == self.length) & self.full
            best, best_prior = (jnp.where(is_full, -jnp.inf, x) for x in (best, best_prior))
        is_child = child != paths.NO_NODE
        is_rest = self.actions == tree.num_children[row].astype(jnp.int32)
        scores = jnp.where(is_child, rule(tried), jnp.where(is_rest, best, -jnp.inf))
        entry = self.best(scores, node, child, is_child | is_rest)
        chosen = jnp.max(jnp.where(self.actions == entry, child, paths.NO_NODE))
        tree.next[row] = chosen.astype(tree.next.dtype)
        tree.untried[row] = action.astype(tree.untried.dtype)
        tree.untried_prior[row] = best_prior
