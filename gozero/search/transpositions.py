"""Transpositions: positions of a tree that look the same to the evaluator share one evaluation.

Silver et al. (2017) share evaluations like this in their large instance. The logits of all actions
and the value are shared, bit for bit; each node has its own softmax over its legal actions, because
superko depends on the path.

A node is found by a 64-bit hash of the evaluator's input, in a hash table with buckets of four. A
full bucket forgets one of its nodes; the next transposition of that node is evaluated anew.

If the key of a tree's new node is known in the tree, or the game is over there, the evaluator is
not needed: the value is backed up at once, and the tree descends again, until every tree has a leaf
to evaluate, or no simulations left. Then the evaluator is called once for all of them. So the trees
progress at different rates, but each ends with the full number. They are the same as without
sharing if the evaluator returns equal results for equal inputs. An evaluator with random values is
called once for each position, and that value stays, also when a leaf that could not be expanded is
evaluated again.

With several leaves a step, a leaf that needs the evaluator leaves a virtual loss on its path and
waits, and the tree descends again, until it has as many waiting leaves as a step has, or no
simulations left. So known evaluations take no place in a call; Lc0 calls this out-of-order
evaluation. Leaves of a step that look the same share one evaluation. These trees differ from
those of a search without sharing, where leaves with known evaluations would wait with the others;
and a leaf whose evaluation the table has forgotten waits again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.hashing import mix
from gozero.search import backup, expand, rows, select
from gozero.search import tree as trees
from gozero.search.choose import Draws
from gozero.search.config import SearchConfig, Transpositions
from gozero.search.evaluate import RulesResult, check_evaluation, combined_evaluation
from gozero.search.game import Ancestors, Evaluation, Evaluator, History
from gozero.search.tree import NO_NODE, ROOT, Path, Tree

_SEEDS = (0x9E3779B9, 0x7F4A7C15)


def keys(
    sharing: Transpositions, contexts, positions, ancestors: Ancestors, observations
) -> jax.Array:
    """u32[B, 2]: the keys of B positions. (0, 0 marks a node without a key.)"""
    if sharing.key is None:
        return jax.vmap(hash_of)(observations)
    key = jax.vmap(sharing.key)(contexts, positions, ancestors)
    # A custom key need not be a hash: spread keys over the table, mapping pairs one to one.
    high = mix(key[:, 0] ^ np.uint32(_SEEDS[0]))
    low = mix(key[:, 1] ^ np.uint32(_SEEDS[1]) ^ high)
    return jnp.stack([mix(high ^ low), low], axis=1)


def hash_of(observation: Any) -> jax.Array:
    """u32[2]: a 64-bit hash of a pytree of arrays; equal if all bits of all arrays are.

    Each word is mixed with a number of its own, and the mixed words are added up.

    Raises:
      ValueError: an array that is neither boolean nor of real numbers.
    """
    words = jnp.concatenate([_words(x) for x in jax.tree.leaves(observation)])
    place: Any = np.arange(words.size, dtype=np.uint32) * np.uint32(0x85EBCA6B)
    numbers: list[Any] = [mix(place + np.full(1, seed, np.uint32)) for seed in _SEEDS]
    sums = [jnp.sum(mix(words ^ number), dtype=jnp.uint32) for number in numbers]
    low = mix(sums[1])
    return jnp.stack([mix(sums[0] ^ low), low])


def _words(x: jax.Array) -> jax.Array:
    """u32[W]: the bits of an array."""
    x = jnp.asarray(x).reshape(-1)
    if x.dtype == bool:
        return x.astype(jnp.uint32)
    if not (jnp.issubdtype(x.dtype, jnp.integer) or jnp.issubdtype(x.dtype, jnp.floating)):
        raise ValueError(
            f"observation: an array of {x.dtype} cannot be hashed; give a key, `Transpositions.key`"
        )
    size = min(x.dtype.itemsize, 4)
    unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}[size]
    return lax.bitcast_convert_type(x, unsigned).reshape(-1).astype(jnp.uint32)


class Lookup(NamedTuple):
    """The results of looking up B keys in the tables."""

    node: jax.Array  # i32[B]: the node with this key; NO_NODE if there is none
    slot: jax.Array  # i32[B]: the slot in which to store a node with this key


def table(tree: Tree) -> jax.Array:
    """i32[B * num_slots]: empty tables, all NO_NODE.

    Raises:
      ValueError: more slots than an i32 can number.
    """
    count = tree.num_trees * trees.num_slots(tree.capacity)
    if count > trees.MAX_ROWS:
        raise ValueError(
            f"{tree.num_trees} trees of {tree.capacity} nodes: their tables have {count} slots, "
            "more than 2^30; use fewer trees or a smaller capacity"
        )
    return jnp.full(count, NO_NODE, jnp.int32)


def table_of(tree: Tree) -> jax.Array:
    """i32[B * num_slots]: the tables of trees from an earlier search."""
    assert tree.shared is not None
    blank = table(tree)
    node = jnp.tile(jnp.arange(tree.capacity, dtype=jnp.int32), tree.num_trees)
    index = jnp.repeat(jnp.arange(tree.num_trees, dtype=jnp.int32), tree.capacity)
    key = tree.shared.key
    waiting = (node < rows.read(tree.size, index)) & jnp.any(key != 0, axis=1)
    first = _first_slot(tree, index, key)
    slots = jnp.full_like(blank, tree.capacity)
    for way in range(trees.WAYS):
        # A slot goes to the earliest node that could use it; other nodes with its key need none.
        slots = slots.at[jnp.where(waiting, first + way, slots.size)].min(node, mode="drop")
        winner = jnp.minimum(rows.read(slots, first + way), tree.capacity - 1)
        winner_key = rows.read(key, index * tree.capacity + winner)
        waiting &= jnp.any(winner_key != key, axis=1)
    return jnp.where(slots == tree.capacity, NO_NODE, slots)


def _first_slot(tree: Tree, index: jax.Array, key: jax.Array) -> jax.Array:
    """i32[M]: the first slots of the buckets of keys u32[M, 2], in the tables of trees i32[M]."""
    count = trees.num_slots(tree.capacity)
    bucket = (key[:, 0] & np.uint32(count // trees.WAYS - 1)).astype(jnp.int32)
    return index * count + bucket * trees.WAYS


def look_up(tree: Tree, slots: jax.Array, key: jax.Array) -> Lookup:
    """Look up keys u32[B, 2], each in its tree's table."""
    assert tree.shared is not None
    first = _first_slot(tree, jnp.arange(tree.num_trees, dtype=jnp.int32), key)
    nodes = rows.read(slots, first[:, None] + jnp.arange(trees.WAYS)[None])
    stored_keys = rows.read(tree.shared.key, tree.row(0)[:, None] + jnp.maximum(nodes, ROOT))
    is_match = (nodes != NO_NODE) & jnp.all(stored_keys == key[:, None], axis=2)
    node = jnp.max(jnp.where(is_match, nodes, NO_NODE), axis=1)
    free = nodes == NO_NODE
    way = jnp.where(
        jnp.any(free, axis=1), jnp.argmax(free, axis=1), key[:, 1] & np.uint32(trees.WAYS - 1)
    )
    return Lookup(node, first + way.astype(jnp.int32))


class _Leaf(NamedTuple):
    """A leaf of each tree, with everything that is computed before the evaluator is called."""

    leaf: select.Leaf
    positions: Any  # [B]
    legal: jax.Array  # bool[B, A]
    over: jax.Array  # bool[B]
    exact: jax.Array  # f32[B]: the result; undefined unless over
    key: jax.Array  # u32[B, 2]
    slot: jax.Array  # i32[B]: the slot in which to store it
    evaluation: jax.Array  # f32[B, A + 1]: as in `tree.Shared`
    observations: Any  # [B]
    is_ready: jax.Array  # bool[B]: whether its value can be backed up
    needs_evaluation: jax.Array  # bool[B]: whether the evaluator must be called for it first


class SimulationState(NamedTuple):
    """B trees in the middle of their simulations."""

    tree: Tree
    slots: jax.Array  # i32[B * S]: see `transpositions`
    done: jax.Array  # i32[B]: simulations done
    evaluations: jax.Array  # i32[B]: evaluations used
    ok: jax.Array  # bool[B]


def simulate(
    game: History,
    evaluator: Evaluator,
    config: SearchConfig,
    running: Any,
    is_new: bool,
) -> tuple[Any, jax.Array]:
    """All simulations of all trees. Trip bound: num_simulations calls of the evaluator.

    Args:
      game, evaluator, config: of the search.
      running: the `search.Running` that has begun.
      is_new: whether its trees contain only the roots.

    Returns:
      The search with all its steps done, and i32[B]: the number of evaluations used.
    """
    tree = running.tree
    slots = table(tree) if is_new else table_of(tree)
    none = jnp.zeros(tree.num_trees, jnp.int32)
    state = SimulationState(tree, slots, none, none, running.ok)
    by_step = _one_by_one if config.leaves == 1 else _by_leaves
    state = by_step(game, evaluator, config, running, state)
    steps = jnp.int32(config.num_simulations // config.leaves)
    return running._replace(tree=state.tree, ok=state.ok, steps=steps), state.evaluations


def _one_by_one(
    game: History, evaluator: Evaluator, config: SearchConfig, running: Any, state: SimulationState
) -> SimulationState:
    """All simulations, with at most one waiting leaf in each tree."""
    sharing = config.sharing
    assert sharing is not None
    draws, key = running.draws, running.evaluation_key

    def find_leaves(state):
        has_more = state.done < config.num_simulations
        return _find_leaves(game, running.contexts, config, draws, state, has_more)

    def add_ready(carry):
        number, state, leaf = carry
        state = _add(config, draws, state, leaf)
        return number + 1, state, find_leaves(state)

    def continues(carry):
        number, _, leaf = carry
        more = (number < sharing.rounds) | ~jnp.any(leaf.needs_evaluation)
        return (number == 0) | (jnp.any(leaf.is_ready) & more)

    def call(carry):
        i, state, leaf = carry
        key_here = jax.random.fold_in(key, i + 1)
        new_evaluation = _evaluate(evaluator, key_here, leaf.observations, leaf.legal.shape)
        evaluation = jnp.where(leaf.needs_evaluation[:, None], new_evaluation, leaf.evaluation)
        state = state._replace(evaluations=state.evaluations + leaf.needs_evaluation)
        leaf = leaf._replace(evaluation=evaluation, is_ready=leaf.is_ready | leaf.needs_evaluation)
        return i + 1, *lax.while_loop(continues, add_ready, (jnp.int32(0), state, leaf))[1:]

    start = (jnp.int32(0), state, find_leaves(state))
    return lax.while_loop(lambda carry: jnp.any(_has_leaf(carry[2])), call, start)[1]


def _has_leaf(leaf: _Leaf) -> jax.Array:
    """bool[B]: whether the tree has a leaf, ready or not, and so simulations left."""
    return leaf.is_ready | leaf.needs_evaluation


def _evaluate(
    evaluator: Evaluator, key: jax.Array, observations: Any, shape: tuple[int, ...]
) -> jax.Array:
    """f32[M, A + 1]: the logits and values of observations [M]; `shape` is (M, A)."""
    evaluation = evaluator.evaluate(evaluator.params, key, observations)
    check_evaluation(evaluation, shape)
    if evaluation.positions is not None:
        raise ValueError(
            "transpositions: the evaluator returns positions for the nodes to store, and these are "
            "not shared; search without transpositions"
        )
    return jnp.concatenate([evaluation.prior_logits, evaluation.value[:, None]], axis=1).astype(
        jnp.float32
    )


def _find_leaves(
    game: History,
    contexts,
    config: SearchConfig,
    draws: Draws,
    state: SimulationState,
    has_more: jax.Array,
) -> _Leaf:
    """The next leaf of each tree where `has_more`, bool[B]; see `_Leaf`."""
    tree, sharing = state.tree, config.sharing
    assert tree.shared is not None
    assert sharing is not None
    leaf = select.find_leaf(tree, config, draws.tie_seeds)
    if sharing.key is not None:  # a key may depend on the ancestors
        game = game._replace(sees_ancestors=True)
    ancestors, positions = expand.new_positions(game, tree, leaf, config)
    observations = jax.vmap(game.observe)(contexts, positions, ancestors)
    over, exact = jax.vmap(game.outcome)(contexts, positions)
    key = keys(sharing, contexts, positions, ancestors, observations)
    lookup = look_up(tree, state.slots, key)
    is_known = over | (lookup.node != NO_NODE)
    evaluation = rows.read(tree.shared.evaluation, tree.row(jnp.maximum(lookup.node, ROOT)))
    return _Leaf(
        leaf,
        positions,
        jax.vmap(game.legal)(contexts, positions, ancestors),
        over,
        exact.astype(jnp.float32),
        key,
        lookup.slot,
        # The evaluation of a finished game is not used: 0.
        jnp.where(over[:, None], 0.0, evaluation),
        observations,
        is_ready=has_more & is_known,
        needs_evaluation=has_more & ~is_known,
    )


def _add(
    config: SearchConfig, draws: Draws, state: SimulationState, leaves: _Leaf
) -> SimulationState:
    """Add the leaves that are ready, and back up their values.

    With several leaves a step, leaves that wait are added too, with virtual losses on their paths.
    """
    tree, ready = state.tree, leaves.is_ready
    assert tree.shared is not None
    evaluation = Evaluation(leaves.evaluation[:, :-1], leaves.evaluation[:, -1])
    rules_result = RulesResult(leaves.legal, leaves.over, leaves.exact)
    evaluated = combined_evaluation(rules_result, evaluation)
    added = ready
    if config.leaves > 1:
        added = _has_leaf(leaves)
        # A node that waits cannot be expanded.
        prior = jnp.where(ready[:, None], evaluated.prior, -jnp.inf)
        evaluated = evaluated._replace(prior=prior)
    leaf = leaves.leaf
    grows = leaf.grows & added
    node = jnp.where(leaf.grows, tree.size, leaf.path.end)
    # The other trees do not change: their paths end at the root.
    leaf = leaf._replace(
        path=Path(leaf.path.nodes, jnp.where(added, leaf.path.length, 0)),
        grows=grows,
        tree_full=leaf.tree_full & added,
    )
    lanes = jnp.arange(tree.num_trees, dtype=jnp.int32)
    row = jnp.where(ready & ~leaves.over, tree.row(node), tree.num_rows + lanes)
    tree = tree.replace(
        shared=trees.Shared(
            rows.write(tree.shared.key, row, leaves.key),
            rows.write(tree.shared.evaluation, row, leaves.evaluation),
        )
    )
    slots = state.slots
    if config.leaves > 1:
        path = leaf.longer_path(tree.size)
        path = path._replace(length=jnp.where(leaves.needs_evaluation, path.length, 0))
        tree = backup.add_virtual_losses(tree, path, config.virtual_loss)
    else:
        slot = jnp.where(ready & leaves.needs_evaluation, leaves.slot, state.slots.size + lanes)
        slots = rows.write(slots, slot, node)
    return state._replace(
        tree=expand.add_leaf(tree, leaf, leaves.positions, evaluated, config, draws, ready),
        slots=slots,
        done=state.done + ready,
        ok=state.ok & (evaluated.ok | ~ready),
    )


class _Waiting(NamedTuple):
    """Leaves that wait for the evaluator, K places for each tree."""

    count: jax.Array  # i32[B]: the number of places in use
    nodes: jax.Array  # i32[B, K, D + 1]: the paths
    length: jax.Array  # i32[B, K]
    grows: jax.Array  # bool[B, K]: whether the last node of the path was added for this leaf
    tree_full: jax.Array  # bool[B, K]: whether none was added because the tree is full
    legal: jax.Array  # bool[B, K, A]
    key: jax.Array  # u32[B, K, 2]
    source: jax.Array  # i32[B, K]: the place of the first leaf with this key
    observations: Any  # [B, K]; arbitrary in unused places

    def path(self, k: jax.Array, waits: jax.Array) -> Path:
        """The paths in place k; where not `waits`, bool[B], a path that ends at the root."""
        return Path(self.nodes[:, k].T, jnp.where(waits, self.length[:, k], 0))


def _no_waiting(game: History, contexts, config: SearchConfig, tree: Tree) -> _Waiting:
    count, num_trees = config.leaves, tree.num_trees
    nodes = jnp.full((select.num_levels(config), num_trees), ROOT, jnp.int32)
    at_root = Path(nodes, jnp.zeros(num_trees, jnp.int32))
    ancestors, roots = expand.read_ancestors(game, tree, at_root, config)
    observations = jax.vmap(game.observe)(contexts, roots, ancestors)
    repeated = lambda x: jnp.repeat(x[:, None], count, axis=1)
    zeros, all_false = jnp.zeros((num_trees, count), jnp.int32), jnp.zeros((num_trees, count), bool)
    return _Waiting(
        count=jnp.zeros(num_trees, jnp.int32),
        nodes=repeated(nodes.T),
        length=zeros,
        grows=all_false,
        tree_full=all_false,
        legal=jnp.zeros((num_trees, count, tree.num_actions), bool),
        key=jnp.zeros((num_trees, count, 2), jnp.uint32),
        source=zeros,
        observations=jax.tree.map(repeated, observations),
    )


def _add_waiting(waiting: _Waiting, leaves: _Leaf, node: jax.Array) -> _Waiting:
    """Add the leaves that need the evaluator, each in the next place of its tree.

    `node`, i32[B], is the number of the node that is added to each tree, where one is.
    """
    count, needs, leaf = waiting.count, leaves.needs_evaluation, leaves.leaf
    place = jnp.arange(waiting.length.shape[1], dtype=jnp.int32)[None]
    high, low = (waiting.key[..., half] == leaves.key[:, None, half] for half in (0, 1))
    has_key = (place < count[:, None]) & high & low
    path = leaf.longer_path(node)
    entry = _Waiting(
        count=count,
        nodes=path.nodes.T,
        length=path.length,
        grows=leaf.grows,
        tree_full=leaf.tree_full,
        legal=leaves.legal,
        key=leaves.key,
        source=jnp.where(jnp.any(has_key, axis=1), jnp.argmax(has_key, axis=1), count),
        observations=leaves.observations,
    )
    lanes, at = jnp.arange(count.size), jnp.where(needs, count, place.size)
    write = lambda all, new: all.at[lanes, at].set(new.astype(all.dtype), mode="drop")
    rest = jax.tree.map(write, waiting._replace(count=None), entry._replace(count=None))
    return rest._replace(count=count + needs)


def _by_leaves(
    game: History, evaluator: Evaluator, config: SearchConfig, running: Any, state: SimulationState
) -> SimulationState:
    """All simulations, with several waiting leaves in each tree."""
    sharing, draws, contexts = config.sharing, running.draws, running.contexts
    assert sharing is not None

    def has_more(state, waiting):
        remaining = config.num_simulations - state.done
        return waiting.count < jnp.minimum(remaining, config.leaves)

    def ends(state, waiting):
        return (waiting.count > 0) & ~has_more(state, waiting)

    def add_one(carry):
        number, state, waiting = carry
        leaves = _find_leaves(game, contexts, config, draws, state, has_more(state, waiting))
        waiting = _add_waiting(waiting, leaves, state.tree.size)
        return number + 1, _add(config, draws, state, leaves), waiting

    def continues(carry):
        number, *rest = carry
        is_soon = number < sharing.rounds * config.leaves
        return jnp.any(has_more(*rest)) & (is_soon | ~jnp.any(ends(*rest)))

    def fill(*rest):
        return lax.while_loop(continues, add_one, (jnp.int32(0), *rest))[1:]

    def call(carry):
        i, state, waiting = carry
        key = jax.random.fold_in(running.evaluation_key, i + 1)
        flatten = lambda x: x.reshape(-1, *x.shape[2:])
        shape = flatten(waiting.legal).shape
        evaluation = _evaluate(evaluator, key, jax.tree.map(flatten, waiting.observations), shape)
        evaluation = evaluation.reshape(*waiting.length.shape, -1)
        done = ends(state, waiting)
        state = _back_up(config, draws, state, waiting, evaluation, done)
        waiting = waiting._replace(count=jnp.where(done, 0, waiting.count))
        return i + 1, *fill(state, waiting)

    start = fill(state, _no_waiting(game, contexts, config, state.tree))
    waits = lambda carry: jnp.any(carry[2].count > 0)
    return lax.while_loop(waits, call, (jnp.int32(0), *start))[1]


def _back_up(
    config: SearchConfig,
    draws: Draws,
    state: SimulationState,
    waiting: _Waiting,
    evaluation: jax.Array,
    ends: jax.Array,
) -> SimulationState:
    """Write and back up evaluations f32[B, K, A + 1] of the trees whose step `ends`, bool[B]."""
    tree, (num_trees, count) = state.tree, waiting.length.shape
    assert tree.shared is not None
    place = jnp.arange(count, dtype=jnp.int32)
    waits = ends[:, None] & (place[None] < waiting.count[:, None])
    is_source = waits & (waiting.source == place[None])
    evaluation = jnp.take_along_axis(evaluation, waiting.source[:, :, None], axis=1)
    end = jnp.take_along_axis(waiting.nodes, waiting.length[:, :, None], axis=2)[:, :, 0]
    flatten = lambda x: x.reshape(-1, *x.shape[2:])
    repeated = lambda x: jnp.repeat(x, count, axis=0)
    over = jnp.zeros(num_trees * count, bool)
    evaluations = Evaluation(flatten(evaluation)[:, :-1], flatten(evaluation)[:, -1])
    rules_result = RulesResult(flatten(waiting.legal), over, over.astype(jnp.float32))
    evaluated = combined_evaluation(rules_result, evaluations)

    outside = tree.num_rows + jnp.arange(over.size, dtype=jnp.int32)
    row = repeated(tree.row(0)) + flatten(end)
    # (A node that is reached twice is evaluated for the first leaf only.)
    shared_row = jnp.where(flatten(is_source | (waits & waiting.grows)), row, outside)
    row = jnp.where(flatten(waits & waiting.grows), row, outside)
    tree = tree.replace(
        shared=trees.Shared(
            rows.write(tree.shared.key, shared_row, flatten(waiting.key)),
            rows.write(tree.shared.evaluation, shared_row, flatten(evaluation)),
        )
    )
    tree = expand.write_evaluated(
        tree, row, flatten(end), evaluated, config.rule, repeated(draws.tie_seeds)
    )
    value = evaluated.value.reshape(num_trees, count)

    def back_up(k, carry):
        tree, slots = carry
        path = waiting.path(k, waits[:, k])
        counted = path._replace(length=jnp.where(waits[:, k], path.length, -1))
        tree = backup.back_up(
            backup.add_virtual_losses(tree, path, -config.virtual_loss), counted, value[:, k]
        )
        tree_full = waiting.tree_full[:, k] & waits[:, k]
        tree = expand.choose_again(tree, path, None, config, draws, tree_full)
        slot = look_up(tree, slots, waiting.key[:, k]).slot
        slot = jnp.where(is_source[:, k], slot, slots.size + jnp.arange(num_trees))
        return tree, rows.write(slots, slot, end[:, k])

    tree, slots = lax.fori_loop(0, count, back_up, (tree, state.slots))
    return state._replace(
        tree=tree,
        slots=slots,
        done=state.done + jnp.sum(waits, axis=1, dtype=jnp.int32),
        evaluations=state.evaluations + jnp.sum(is_source, axis=1, dtype=jnp.int32),
        ok=state.ok & jnp.all(evaluated.ok.reshape(num_trees, count) | ~waits, axis=1),
    )
