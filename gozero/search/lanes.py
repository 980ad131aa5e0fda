"""Trees in vector lanes: simulations of small trees on a TPU, by operations on all of their nodes.

`search.simulate` reads and writes rows of flat arrays by index, which a TPU does one number at a
time. While its trees are in lanes, a search finds nodes by comparing all of them instead, in two
kernels per simulation (`kernels.lane_trees`). Priors stay in rows, as the evaluator returned them;
those of one simulation, for all trees, are written together into a slot of their own. `in_lanes`
and `in_rows` convert the trees between the two layouts, once per search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import mode
from gozero.compile.kernels import lane_trees
from gozero.compile.kernels.lane_trees import Numbers
from gozero.search import root, rows, values
from gozero.search import tree as trees
from gozero.search.choose import Draws, best_untried
from gozero.search.config import SearchConfig
from gozero.search.edges import Edges, Rule, SelectionRule, as_rule, tie_break
from gozero.search.evaluate import Evaluated, evaluate_positions
from gozero.search.expand import positions_to_evaluate
from gozero.search.game import Ancestors, Evaluator, History
from gozero.search.select import Leaf
from gozero.search.tree import NO_NODE, ROOT, Path, Tree

_MAX_NODES = 72
"""The most nodes of a tree: a kernel has separate code for each of them."""


class LaneTrees(NamedTuple):
    """B trees of N nodes."""

    numbers: Numbers  # [N, trees]: the trees as vectors
    prior: jax.Array  # f32[N, B, A]: N slots
    words: jax.Array  # i32[W, N, B]: the positions
    size: jax.Array  # i32[B]


def fit(tree: Tree, config: SearchConfig) -> bool:
    """Whether a search's trees go into lanes; static.

    They do if they are small, and the search is compiled for a TPU, finds one leaf per step, does
    not end early, and keeps no more statistics than PUCT needs.
    """
    if mode.plain() or mode.backend() != "tpu" or config.leaves > 1 or config.early_stop:
        return False
    optional = tree.amaf, tree.prior_counts, tree.shared, tree.backup_value, tree.proven
    is_plain = (
        all(x is None for x in (*optional, tree.squares, tree.scores, tree.last_sync))
        and not config.overflows
        and not config.wide
    )
    is_plain &= config.rule.in_lanes
    is_plain &= config.root_select is None or isinstance(config.root_select, SelectionRule)
    is_small = tree.capacity <= _MAX_NODES and all(map(_fits_word, tree.positions))
    return is_plain and is_small and lane_trees.shape_of(tree.num_trees) is not None


def in_lanes(tree: Tree) -> LaneTrees:
    """Convert trees from rows to lanes."""
    by_node = lambda x: x.reshape(tree.num_trees, tree.capacity).T
    node = jnp.arange(tree.capacity, dtype=jnp.int32)[:, None]
    numbers = {name: by_node(getattr(tree, name)) for name in Numbers._fields if name != "slot"}
    numbers["parent"] = jnp.where(node < tree.size[None], numbers["parent"], NO_NODE)
    numbers["slot"] = jnp.broadcast_to(node, numbers["parent"].shape)
    prior = tree.prior.reshape(tree.num_trees, tree.capacity, -1)
    return LaneTrees(
        numbers=Numbers(**{name: _vectors(x) for name, x in numbers.items()}),
        prior=prior.transpose(1, 0, 2),
        words=_words(tree.positions).reshape(-1, tree.num_trees, tree.capacity).transpose(0, 2, 1),
        size=tree.size,
    )


def in_rows(lane_tree: LaneTrees, tree: Tree) -> Tree:
    """Convert trees from lanes back to rows; `tree` is the one that they were made from."""
    by_row = lambda x: x.reshape(tree.capacity, tree.num_trees).T.reshape(-1)
    names = set(Numbers._fields) - {"slot"}
    numbers = {name: by_row(getattr(lane_tree.numbers, name)) for name in names}
    numbers = {name: x.astype(getattr(tree, name).dtype) for name, x in numbers.items()}
    node = jnp.tile(jnp.arange(tree.capacity, dtype=jnp.int32), tree.num_trees)
    lane = jnp.repeat(jnp.arange(tree.num_trees, dtype=jnp.int32), tree.capacity)
    parent = by_row(lane_tree.numbers.parent)
    slot = by_row(lane_tree.numbers.slot) * tree.num_trees + lane
    prior = jnp.where(
        (node < lane_tree.size[lane])[:, None], _prior_of(lane_tree, slot), tree.prior
    )
    outside = tree.num_rows + jnp.arange(tree.num_rows, dtype=jnp.int32)
    at = jnp.where(parent == NO_NODE, outside, lane * tree.capacity + parent)
    no_prior = jnp.full(tree.num_rows, -jnp.inf, jnp.float32)
    prior = rows.write_entries(prior, at, by_row(lane_tree.numbers.action), no_prior)
    tree = tree.replace(prior=prior, size=lane_tree.size, **numbers)
    children, num_children = trees.children_of(tree, parent)
    words = lane_tree.words.transpose(0, 2, 1).reshape(-1, tree.num_rows)
    positions = tuple(_matrices(words, tree.positions))
    return tree.replace(children=children, num_children=num_children, positions=positions)


def _vectors(x: jax.Array) -> jax.Array:
    """Reshape [..., B] into the lanes' [..., trees], as i32 or f32."""
    shape = lane_trees.shape_of(x.shape[-1])
    assert shape is not None
    x = x if x.dtype == jnp.float32 else x.astype(jnp.int32)
    return x.reshape(*x.shape[:-1], *shape)


def _prior_of(lane_tree: LaneTrees, at: jax.Array) -> jax.Array:
    """f32[M, A]: the priors at places i32[M], slot * B + tree."""
    return rows.read(lane_tree.prior.reshape(-1, lane_tree.prior.shape[2]), at)


def _words(matrices: tuple[jax.Array, ...]) -> jax.Array:
    """i32[W, M]: the numbers of matrices [M, width], one after another."""
    return jnp.concatenate([_as_words(x).T for x in matrices])


def _fits_word(x: jax.Array) -> bool:
    return x.dtype.itemsize == 4 or (x.dtype.itemsize < 4 and x.dtype.kind in "iub")


def _as_words(x: jax.Array) -> jax.Array:
    if x.dtype.itemsize == 4:
        return lax.bitcast_convert_type(x, jnp.int32)
    return x.astype(jnp.int32)


def _matrices(words: jax.Array, like: tuple[jax.Array, ...]) -> list[jax.Array]:
    """The inverse of `_words`: i32[W, ...] to matrices [..., width], with the dtypes of `like`."""
    start, out = 0, []
    for x in like:
        columns = jnp.moveaxis(words[start : start + x.shape[1]], 0, -1)
        is_word = x.dtype.itemsize == 4
        out.append(
            lax.bitcast_convert_type(columns, x.dtype) if is_word else columns.astype(x.dtype)
        )
        start += x.shape[1]
    return out


def simulate(
    game: History,
    evaluator: Evaluator,
    key: jax.Array,
    contexts: Any,
    config: SearchConfig,
    draws: Draws,
    tree: Tree,
    step: jax.Array | int,
    lane_tree: LaneTrees,
    ok: jax.Array,
) -> tuple[LaneTrees, jax.Array]:
    """`search.simulate` for trees in lanes: one simulation of each.

    Args:
      game, evaluator, key, contexts, config, draws: as for `search.simulate`.
      tree: the trees in rows that these were made from, for their shapes.
      step: i32[], counted over the whole search: its priors get a slot that no tree uses yet.
      lane_tree, ok: the trees in lanes and the flags so far.
    """
    leaf, end = _find_leaf(tree, lane_tree, config)
    ancestors, parents = _read_ancestors(game, tree, lane_tree, leaf.path, config)
    positions = positions_to_evaluate(game, parents, leaf)
    ancestors = ancestors._replace(length=end.length + leaf.grows)
    evaluated = evaluate_positions(
        game, evaluator, key, contexts, positions, ancestors, config.counts_left
    )
    if evaluated.positions is not None:
        positions = evaluated.positions

    slot = config.num_kept + step
    new = _new_node(lane_tree, leaf, end, evaluated, slot, config, draws)
    path = leaf.longer_path(lane_tree.size)
    numbers = lane_trees.back_up(
        choose_by(config.rule),
        lane_tree.numbers,
        jax.tree.map(_vectors, new),
        _vectors(path.nodes),
        _vectors(path.length),
        _vectors(evaluated.value),
        (_unsigned(_vectors(lax.bitcast_convert_type(draws.tie_seeds, jnp.int32))),),
        int(config.root_select is not None),
    )
    is_new = jnp.arange(tree.capacity, dtype=jnp.int32)[:, None] == new.node[None]
    words = _words(rows.encode(tree.codec, positions))
    at_slot = (jnp.asarray(slot, jnp.int32), jnp.int32(0), jnp.int32(0))
    grown = LaneTrees(
        numbers=numbers,
        prior=lax.dynamic_update_slice(lane_tree.prior, evaluated.prior[None], at_slot),
        words=jnp.where(is_new[None], words[:, None], lane_tree.words),
        size=lane_tree.size + leaf.grows,
    )
    if config.root_select is not None:
        grown = _choose_at_roots(grown, config, draws)
    return grown, ok & evaluated.ok


def _find_leaf(
    tree: Tree, lane_tree: LaneTrees, config: SearchConfig
) -> tuple[Leaf, lane_trees.End]:
    """`select.find_leaf`."""
    num_words = rows.num_words(tree.num_actions)
    descent = lane_trees.descend(lane_tree.numbers, config.path_limit + 1, num_words)
    flat = lambda x: x.reshape(*x.shape[:-2], tree.num_trees)
    nodes, end, tried = jax.tree.map(flat, descent)
    prior = _prior_of(lane_tree, end.slot * tree.num_trees + jnp.arange(tree.num_trees))
    prior = jnp.where(rows.unpack(_unsigned(tried.T), tree.num_actions), -jnp.inf, prior)
    may_grow = (end.over == 0) & (end.length < config.path_limit)
    if config.expand_after > 1:
        may_grow &= (end.visits >= config.expand_after) | (end.length == 0)
    edge_prior = jnp.where(may_grow, end.untried_prior, -jnp.inf)
    action = jnp.arange(tree.num_actions, dtype=jnp.int32)[None]
    is_tried = (action == end.untried[:, None]) & may_grow[:, None]
    other_priors = jnp.where(is_tried, -jnp.inf, prior)
    path, row = Path(nodes, end.length), tree.row(end.node)
    not_full = jnp.zeros(tree.num_trees, bool)
    return Leaf(path, row, end.untried, edge_prior, other_priors, edge_prior >= 0, not_full), end


def _new_node(
    lane_tree: LaneTrees,
    leaf: Leaf,
    end: lane_trees.End,
    evaluated: Evaluated,
    slot: jax.Array | int,
    config: SearchConfig,
    draws: Draws,
) -> lane_trees.TreeUpdate:
    untried, untried_prior = best_untried(
        jnp.concatenate([leaf.other_priors, evaluated.prior]),
        config.rule,
        jnp.tile(draws.tie_seeds, 2),
        jnp.concatenate([end.node, lane_tree.size]),
    )
    num_trees = lane_tree.size.size
    node = jnp.where(leaf.grows, lane_tree.size, NO_NODE)
    return lane_trees.TreeUpdate(
        node=node,
        parent=end.node,
        action=leaf.action,
        edge_prior=leaf.edge_prior,
        value=evaluated.value,
        over=evaluated.over,
        slot=jnp.full_like(node, slot),
        untried=untried[num_trees:],
        untried_prior=untried_prior[num_trees:],
        parent_untried=untried[:num_trees],
        parent_untried_prior=untried_prior[:num_trees],
    )


def _unsigned(x: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(x, jnp.uint32)


def _read_ancestors(
    game: History, tree: Tree, lane_tree: LaneTrees, path: Path, config: SearchConfig
) -> tuple[Ancestors, Any]:
    """`expand.read_ancestors`; ancestors from `length` on are all zeros."""
    ancestors, end_words = lane_trees.read_along(lane_tree.words, path.nodes)
    decoded = lambda words: rows.decode(tree.codec, tuple(_matrices(words, tree.positions)))
    ends = decoded(end_words)
    if not game.sees_ancestors:
        repeat = lambda x: jnp.broadcast_to(x[:, None], (len(x), config.path_limit, *x.shape[1:]))
        return Ancestors(jax.tree.map(repeat, ends), path.length), ends
    return Ancestors(decoded(ancestors.transpose(0, 2, 1)), path.length), ends


def choose_by(select: Rule):
    """The choice function that `lane_trees.back_up` takes, for a selection rule."""

    def choose(numbers, is_child, node, own, seeds):
        visits = jnp.where(is_child, numbers.visits, 0)
        sums = jnp.where(is_child, numbers.value_sum, 0)
        prior = jnp.where(is_child, numbers.edge_prior, -jnp.inf)
        # The best untried action comes after the children.
        with_rest = lambda x, rest: jnp.concatenate([x, jnp.full_like(x[:1], rest)])
        edges = Edges(
            prior=jnp.concatenate([prior, own.untried_prior[None]]),
            visits=with_rest(visits, 0),
            q=with_rest(values.mean(-sums, visits), 0.0),
            value=values.mean(own.value_sum, own.visits),
            total=jnp.sum(visits, axis=0),
            raw_value=values.to_float(own.value),
        )
        scores = lane_trees.of_one(as_rule(select), edges)
        place = lax.broadcasted_iota(jnp.int32, scores.shape, 0)
        child = jnp.where(place == len(is_child), NO_NODE, place)
        candidates = with_rest(is_child.astype(jnp.int32), 1) > 0
        highest = jnp.max(jnp.where(candidates, scores, -jnp.inf), axis=0, keepdims=True)
        best = candidates & (scores == highest)
        # Map unsigned to signed numbers in the same order: kernels have only signed maxima.
        priority = tie_break(seeds[0][None], node[None], child) ^ np.uint32(1 << 31)
        priority = lax.bitcast_convert_type(priority, jnp.int32)
        top = jnp.max(jnp.where(best, priority, np.iinfo(np.int32).min), axis=0, keepdims=True)
        first = jnp.min(jnp.where(best & (priority == top), place, len(is_child)), axis=0)
        return jnp.where(first == len(is_child), NO_NODE, first)

    return choose


def _choose_at_roots(lane_tree: LaneTrees, config: SearchConfig, draws: Draws) -> LaneTrees:
    """`root.choose_at_roots`."""
    child, action, prior = root.choice_at_roots(root_actions(lane_tree), config, draws)
    numbers, tries = lane_tree.numbers, child == NO_NODE
    write = lambda x, new: x.at[ROOT].set(_vectors(new).astype(x.dtype))
    first = lambda x: x[ROOT].reshape(-1)
    numbers = numbers._replace(
        next=write(numbers.next, child),
        untried=write(numbers.untried, jnp.where(tries, action, first(numbers.untried))),
        untried_prior=write(
            numbers.untried_prior, jnp.where(tries, prior, first(numbers.untried_prior))
        ),
    )
    return lane_tree._replace(numbers=numbers)


def root_actions(lane_tree: LaneTrees) -> trees.Entries:
    """`trees.by_action` of the roots: [B, A]."""
    num_nodes, num_trees, num_actions = lane_tree.prior.shape
    numbers = jax.tree.map(lambda x: x.reshape(num_nodes, 1, num_trees), lane_tree.numbers)
    actions = jnp.arange(num_actions, dtype=jnp.int32)[None, :, None]
    is_child = (numbers.action == actions) & (numbers.parent == ROOT)
    total = lambda x: jnp.sum(jnp.where(is_child, x, 0), axis=0).T
    highest = lambda x, none: jnp.max(jnp.where(is_child, x, none), axis=0).T
    nodes = highest(jnp.arange(num_nodes, dtype=jnp.int32)[:, None, None], NO_NODE)
    visits = total(numbers.visits)
    own = lambda x: x[ROOT, 0]
    edges = Edges(
        prior=jnp.where(
            nodes == NO_NODE, lane_tree.prior[ROOT], highest(numbers.edge_prior, -jnp.inf)
        ),
        visits=visits,
        q=values.mean(-total(numbers.value_sum), visits),
        value=values.mean(own(numbers.value_sum), own(numbers.visits)),
        total=jnp.sum(visits, axis=1),
        raw_value=values.to_float(own(numbers.value)),
    )
    return trees.Entries(edges, nodes, None)
