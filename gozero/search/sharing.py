"""Simulations that share the evaluations of transpositions.

A tree whose new node has a key that the tree knows needs no evaluator, nor does one whose game is
over: the value goes up at once, and the tree descends again, until every tree has a leaf to be
evaluated, or no simulation left. Then the evaluator is called once for all of them. So trees are at
different simulations, and each ends with as many as were asked for; what is in a tree is what it
would have been without sharing, if the evaluator says the same of what it sees alike.

An evaluator that draws its values is asked once for a position: what it said then is its value
from then on, also where a leaf that could not grow is judged again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.search import backup, descent, growth, rows, transpositions
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluation
from gozero.search.judging import judged_as
from gozero.search.noise import Draws
from gozero.search.tree import NO_NODE, ROOT, Tree


class _Leaf(NamedTuple):
    """A leaf of each tree, and what is known of it before the evaluator is asked."""

    leaf: descent.Leaf
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
    game,
    evaluate,
    params,
    contexts,
    config: SearchConfig,
    running: Any,
    is_new: bool,
) -> tuple[Any, jax.Array]:
    """All simulations of all trees. Trip bound: num_simulations calls of the evaluator.

    Args:
      game, evaluate, params, contexts, config: of the search.
      running: the `search.Running` that has begun.
      is_new: nothing but the roots is in its trees.

    Returns:
      The search with all its steps done, and i32[B]: the evaluations that they took.
    """
    sharing = config.sharing
    assert sharing is not None
    tree, ok, draws, key = running.tree, running.ok, running.draws, running.evaluation_key
    slots = transpositions.table(tree) if is_new else transpositions.table_of(tree)
    none = jnp.zeros(tree.num_trees, jnp.int32)
    state = State(tree, slots, none, none, ok)

    def find(state):
        return _find(game, contexts, config, draws, state)

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
        said = evaluate(params, jax.random.fold_in(key, i + 1), leaf.observations)
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


def _find(game, contexts, config: SearchConfig, draws: Draws, state: State) -> _Leaf:
    """The next leaf of each tree, and its evaluation where that is known."""
    tree, sharing = state.tree, config.sharing
    assert tree.shared is not None
    assert sharing is not None
    leaf = descent.find_leaf(tree, config, draws.salts)
    trail, parents = descent.read_trail(tree, leaf.path, config)
    positions = descent.played(game, parents, leaf)
    trail = trail._replace(length=leaf.path.length + leaf.grows)
    observations = jax.vmap(game.observe)(contexts, positions, trail)
    over, exact = jax.vmap(game.outcome)(contexts, positions)
    key = transpositions.keys(sharing, contexts, positions, trail, observations)
    found = transpositions.look_up(tree, state.slots, key)
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
    judged = judged_as(found.legal, found.over, found.exact, said)
    leaf = found.leaf
    grows = leaf.grows & ready
    node = jnp.where(leaf.grows, tree.size, leaf.path.end)
    # The others stay where they are: their paths end at the root.
    leaf = leaf._replace(
        path=backup.Path(leaf.path.nodes, jnp.where(ready, leaf.path.length, 0)),
        grows=grows,
        gives_up=leaf.gives_up & ready,
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
        tree=growth.add_leaf(tree, leaf, found.positions, judged, config, draws, ready),
        slots=rows.write(state.slots, slot, node),
        done=state.done + ready,
        ok=state.ok & (judged.ok | ~ready),
    )
