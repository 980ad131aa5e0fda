"""Transpositions: positions of a tree that look alike to the evaluator share one evaluation.

Silver et al. (2017) share evaluations like this in their large instance. The logits of all actions
and the value are shared, bit for bit; each node has its own softmax over its legal actions, because
superko depends on the path.

A node is found by 64 bits of what the evaluator sees, in a hash table of buckets of four. A bucket
that is full forgets one of its nodes, whose next transposition is then evaluated anew.

If the key of a tree's new node is known in the tree, or the game is over there, no evaluator is
needed: the value is backed up at once, and the tree descends again, until every tree has a leaf to
be evaluated, or no simulation left. Then the evaluator is called once for all of them. So trees are
at different simulations, and each ends with as many as were asked for. The trees are the same as
without sharing if the evaluator gives equal results for what it sees alike. One that draws its
values is called once for a position, and that value stays, also where a leaf that could not be
expanded is evaluated again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.hashing import mix
from gozero.search import expand, rows, select
from gozero.search import tree as trees
from gozero.search.choose import Draws
from gozero.search.config import SearchConfig, Transpositions
from gozero.search.evaluate import check_evaluation, evaluated_as
from gozero.search.game import Evaluation, Evaluator, History, Trail
from gozero.search.tree import NO_NODE, ROOT, Path, Tree

_SEEDS = (0x9E3779B9, 0x7F4A7C15)


def keys(sharing: Transpositions, contexts, positions, trail: Trail, observations) -> jax.Array:
    """u32[B, 2]: the keys of B positions. That a node has none is said by 0, 0."""
    if sharing.key is None:
        return jax.vmap(hash_of)(observations)
    key = jax.vmap(sharing.key)(contexts, positions, trail)
    # A game's key may be no hash: spread over the table, a pair for a pair.
    high = mix(key[:, 0] ^ np.uint32(_SEEDS[0]))
    low = mix(key[:, 1] ^ np.uint32(_SEEDS[1]) ^ high)
    return jnp.stack([mix(high ^ low), low], axis=1)


def hash_of(observation: Any) -> jax.Array:
    """u32[2]: 64 bits of a pytree of arrays; equal where all bits of all arrays are.

    Each word has a number of its own to be mixed with, and the mixed words are added up.

    Raises:
      ValueError: an array that is not of truth values or real numbers.
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
        raise ValueError(f"observation: no bits to hash in an array of {x.dtype}; give a key")
    size = min(x.dtype.itemsize, 4)
    unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}[size]
    return lax.bitcast_convert_type(x, unsigned).reshape(-1).astype(jnp.uint32)


class Found(NamedTuple):
    """Where B keys are in the tables, or would be."""

    node: jax.Array  # i32[B]: the node of this key; NO_NODE if there is none
    slot: jax.Array  # i32[B]: for a node of this key


def table(tree: Tree) -> jax.Array:
    """i32[B * num_slots]: empty tables, all NO_NODE.

    Raises:
      ValueError: more slots than an i32 can number.
    """
    count = tree.num_trees * trees.num_slots(tree.capacity)
    if count > trees.MAX_ROWS:
        raise ValueError(f"{tree.num_trees} trees of {tree.capacity} nodes: {count} slots > 2^30")
    return jnp.full(count, NO_NODE, jnp.int32)


def table_of(tree: Tree) -> jax.Array:
    """i32[B * num_slots]: the tables of trees that have been searched before."""
    assert tree.shared is not None
    blank = table(tree)
    node = jnp.tile(jnp.arange(tree.capacity, dtype=jnp.int32), tree.num_trees)
    index = jnp.repeat(jnp.arange(tree.num_trees, dtype=jnp.int32), tree.capacity)
    key = tree.shared.key
    waiting = (node < rows.read(tree.size, index)) & jnp.any(key != 0, axis=1)
    first = _first_slot(tree, index, key)
    slots = jnp.full_like(blank, tree.capacity)
    for way in range(trees.WAYS):
        # The earliest of those that want a place has it; those of its key need none.
        slots = slots.at[jnp.where(waiting, first + way, slots.size)].min(node, mode="drop")
        winner = jnp.minimum(rows.read(slots, first + way), tree.capacity - 1)
        winner_key = rows.read(key, index * tree.capacity + winner)
        waiting &= jnp.any(winner_key != key, axis=1)
    return jnp.where(slots == tree.capacity, NO_NODE, slots)


def _first_slot(tree: Tree, index: jax.Array, key: jax.Array) -> jax.Array:
    """i32[M]: where the buckets of keys u32[M, 2] begin, in the tables of trees i32[M]."""
    count = trees.num_slots(tree.capacity)
    bucket = (key[:, 0] & np.uint32(count // trees.WAYS - 1)).astype(jnp.int32)
    return index * count + bucket * trees.WAYS


def look_up(tree: Tree, slots: jax.Array, key: jax.Array) -> Found:
    """Find keys u32[B, 2], each in its tree's table."""
    assert tree.shared is not None
    first = _first_slot(tree, jnp.arange(tree.num_trees, dtype=jnp.int32), key)
    nodes = rows.read(slots, first[:, None] + jnp.arange(trees.WAYS)[None])
    seen = rows.read(tree.shared.key, tree.row(0)[:, None] + jnp.maximum(nodes, ROOT))
    is_it = (nodes != NO_NODE) & jnp.all(seen == key[:, None], axis=2)
    node = jnp.max(jnp.where(is_it, nodes, NO_NODE), axis=1)
    free = nodes == NO_NODE
    way = jnp.where(
        jnp.any(free, axis=1), jnp.argmax(free, axis=1), key[:, 1] & np.uint32(trees.WAYS - 1)
    )
    return Found(node, first + way.astype(jnp.int32))


class _Leaf(NamedTuple):
    """A leaf of each tree, and what is known of it before the evaluator is asked."""

    leaf: select.Leaf
    positions: Any  # [B]
    legal: jax.Array  # bool[B, A]
    over: jax.Array  # bool[B]
    exact: jax.Array  # f32[B]: of no meaning unless over
    key: jax.Array  # u32[B, 2]
    slot: jax.Array  # i32[B]: where the table would have it
    evaluation: jax.Array  # f32[B, A + 1]: as `tree.Shared` has it
    observations: Any  # [B]
    is_ready: jax.Array  # bool[B]: its value may go up
    needs: jax.Array  # bool[B]: ... once the evaluator has been asked


class State(NamedTuple):
    """B trees in the midst of their simulations."""

    tree: Tree
    slots: jax.Array  # i32[B * S]: see `transpositions`
    done: jax.Array  # i32[B]: simulations
    evaluations: jax.Array  # i32[B]
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
      is_new: nothing but the roots is in its trees.

    Returns:
      The search with all its steps done, and i32[B]: the evaluations that they took.
    """
    sharing = config.sharing
    assert sharing is not None
    tree, ok, draws, key = running.tree, running.ok, running.draws, running.evaluation_key
    slots = table(tree) if is_new else table_of(tree)
    none = jnp.zeros(tree.num_trees, jnp.int32)
    state = State(tree, slots, none, none, ok)

    def find(state):
        return _find(game, running.contexts, config, draws, state)

    def round_of_all(carry):
        number, state, leaf = carry
        state = _add(config, draws, state, leaf)
        return number + 1, state, find(state)

    def goes_on(carry):
        number, _, leaf = carry
        more = (number < sharing.rounds) | ~jnp.any(leaf.needs)
        return (number == 0) | (jnp.any(leaf.is_ready) & more)

    def call(carry):
        i, state, leaf = carry
        said = evaluator.evaluate(
            evaluator.params, jax.random.fold_in(key, i + 1), leaf.observations
        )
        check_evaluation(said, leaf.legal.shape)
        if said.positions is not None:
            raise ValueError(
                "transpositions: the evaluator says what nodes keep; that is not shared"
            )
        said = _joined(said)
        evaluation = jnp.where(leaf.needs[:, None], said, leaf.evaluation)
        state = state._replace(evaluations=state.evaluations + leaf.needs)
        leaf = leaf._replace(evaluation=evaluation, is_ready=leaf.is_ready | leaf.needs)
        return i + 1, *lax.while_loop(goes_on, round_of_all, (jnp.int32(0), state, leaf))[1:]

    start = (jnp.int32(0), state, find(state))
    state = lax.while_loop(lambda carry: jnp.any(_waits(carry[2])), call, start)[1]
    steps = jnp.int32(config.num_simulations)
    return running._replace(tree=state.tree, ok=state.ok, steps=steps), state.evaluations


def _waits(leaf: _Leaf) -> jax.Array:
    """bool[B]: a tree has simulations left."""
    return leaf.is_ready | leaf.needs


def _joined(said: Evaluation) -> jax.Array:
    """f32[B, A + 1]: logits and value."""
    return jnp.concatenate([said.prior_logits, said.value[:, None]], axis=1).astype(jnp.float32)


def _find(game: History, contexts, config: SearchConfig, draws: Draws, state: State) -> _Leaf:
    """The next leaf of each tree, and its evaluation where that is known."""
    tree, sharing = state.tree, config.sharing
    assert tree.shared is not None
    assert sharing is not None
    leaf = select.find_leaf(tree, config, draws.tie_seeds)
    if sharing.key is not None:  # a key may look at the ancestors
        game = game._replace(sees_ancestors=True)
    trail, positions = expand.new_positions(game, tree, leaf, config)
    observations = jax.vmap(game.observe)(contexts, positions, trail)
    over, exact = jax.vmap(game.outcome)(contexts, positions)
    key = keys(sharing, contexts, positions, trail, observations)
    found = look_up(tree, state.slots, key)
    is_known = over | (found.node != NO_NODE)
    evaluation = rows.read(tree.shared.evaluation, tree.row(jnp.maximum(found.node, ROOT)))
    has_more = state.done < config.num_simulations
    return _Leaf(
        leaf,
        positions,
        jax.vmap(game.legal)(contexts, positions, trail),
        over,
        exact.astype(jnp.float32),
        key,
        found.slot,
        # An ended game's is never asked for: even.
        jnp.where(over[:, None], 0.0, evaluation),
        observations,
        is_ready=has_more & is_known,
        needs=has_more & ~is_known,
    )


def _add(config: SearchConfig, draws: Draws, state: State, found: _Leaf) -> State:
    """Add the leaves that are ready, and back their values up."""
    tree, ready = state.tree, found.is_ready
    assert tree.shared is not None
    said = Evaluation(found.evaluation[:, :-1], found.evaluation[:, -1])
    evaluated = evaluated_as(found.legal, found.over, found.exact, said)
    leaf = found.leaf
    grows = leaf.grows & ready
    node = jnp.where(leaf.grows, tree.size, leaf.path.end)
    # The others stay where they are: their paths end at the root.
    leaf = leaf._replace(
        path=Path(leaf.path.nodes, jnp.where(ready, leaf.path.length, 0)),
        grows=grows,
        tree_full=leaf.tree_full & ready,
    )
    lanes = jnp.arange(tree.num_trees, dtype=jnp.int32)
    row = jnp.where(ready & ~found.over, tree.row(node), tree.num_rows + lanes)
    slot = jnp.where(ready & found.needs, found.slot, state.slots.size + lanes)
    tree = tree.replace(
        shared=trees.Shared(
            rows.write(tree.shared.key, row, found.key),
            rows.write(tree.shared.evaluation, row, found.evaluation),
        )
    )
    return state._replace(
        tree=expand.add_leaf(tree, leaf, found.positions, evaluated, config, draws, ready),
        slots=rows.write(state.slots, slot, node),
        done=state.done + ready,
        ok=state.ok & (evaluated.ok | ~ready),
    )
