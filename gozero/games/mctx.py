"""For those who have a `recurrent_fn` of mctx: the searches of gozero on their model.

    output = mctx.gumbel_muzero_policy(params, key, root, recurrent_fn, 50, invalid_actions)
    output = gozero.gumbel_muzero_policy(params, key, root, recurrent_fn, 50, invalid_actions)

Two players alternate, and what one wins the other loses: `discount` is -1, or 0 where the action
ended the game, and only such an action has a reward, from -1 to 1 for the player who took it.
mctx itself need not be installed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.search import rows
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.edges import Edges
from gozero.search.game import Evaluation, Evaluator, Game, History, Trail
from gozero.search.rules.gumbel import GumbelInterior, GumbelRoot
from gozero.search.search import SearchResult, advance, begin, finish
from gozero.search.tree import Tree

TAKEN = -1


class Node(NamedTuple):
    """A position of a model. The model takes an action when it is evaluated, not before."""

    embedding: Any  # of the node; of its parent while the action is not taken
    action: jax.Array  # i32[]: what leads here from the embedding, or TAKEN
    reward: jax.Array  # f32[]: what it paid to who took it
    discount: jax.Array  # f32[]: -1, or 0 if it ended the game
    value: jax.Array  # f32[]: the model's, for the player to move
    illegal: jax.Array  # u32[W]: the actions that the logits rule out, a bit each


class Root(NamedTuple):
    """A game to search."""

    node: Node
    prior_logits: jax.Array  # f32[A]
    invalid: jax.Array  # bool[A]


class Model(NamedTuple):
    """What `gozero.search` is to be given."""

    game: Game
    evaluator: Evaluator
    states: Root


def from_mctx(
    root: Any,
    recurrent_fn: Callable,
    params: Any = None,
    invalid_actions: jax.Array | None = None,
    tree: Tree | None = None,
    illegal_below: float | None = -1e8,
) -> Model:
    """A model of mctx as what `gozero.search` searches. Call it under ``jax.jit``.

        game, evaluator, states = gozero.from_mctx(root, recurrent_fn, params, invalid_actions)
        config = gozero.SearchConfig(num_simulations=50, leaves=5)
        result = gozero.search(game, evaluator, key, states, config)

    A reward without an end, or another discount than -1 and 0, makes the game's `SearchResult.ok`
    False.

    Args:
      root: with `prior_logits` [B, A], `value` [B] in [-1, 1] and `embedding` [B, ...]; an
        ``mctx.RootFnOutput``.
      recurrent_fn: (params, key, action i32[M], embedding [M, ...]) -> (an
        ``mctx.RecurrentFnOutput`` [M], embedding); with several leaves M is leaves * B.
      params: handed to it.
      invalid_actions: [B, A], true where an action may not be taken; None: all may.
      tree: the trees that the search is to go on from, see `gozero.search.reuse.reroot`. The
        root's embedding has to be that of the tree's root, bit for bit; what the tree knows of it
        beside that stays.
      illegal_below: actions with lower logits are illegal below the root; None: all are legal, as
        in mctx, which visits what is unlikely if all else looks bad.

    Returns:
      (game, evaluator, states).

    Raises:
      ValueError: arrays of shapes that do not go together.
    """
    batch, num_actions = root.prior_logits.shape
    if invalid_actions is None:
        invalid_actions = jnp.zeros((batch, num_actions), bool)
    for name, array, shape in (
        ("root.value", root.value, (batch,)),
        ("invalid_actions", invalid_actions, (batch, num_actions)),
    ):
        if array.shape != shape:
            raise ValueError(f"{name}: its shape is {array.shape}; with these logits it is {shape}")
    count = lambda number: jnp.full(batch, number, jnp.float32)
    taken = jnp.full(batch, TAKEN, jnp.int32)
    none = jnp.zeros((batch, rows.num_words(num_actions)), jnp.uint32)
    node = Node(root.embedding, taken, count(0), count(-1), root.value.astype(jnp.float32), none)
    if tree is not None:
        node = _as_in_tree(node, tree)
    states = Root(node, _finite(root.prior_logits), invalid_actions.astype(bool))
    evaluate = _evaluate(recurrent_fn, illegal_below)
    return Model(_game(num_actions), Evaluator(evaluate, params), states)


def _game(num_actions: int) -> Game:
    def legal(root: Root, node: Node, trail: Trail) -> jax.Array:
        invalid = root.invalid & (trail.length == 0)
        return ~(invalid | rows.unpack(node.illegal, num_actions))

    def outcome(root: Root, node: Node) -> tuple[jax.Array, jax.Array]:
        """The reward was for the other, who has moved last."""
        return (node.action == TAKEN) & (node.discount == 0), -node.reward

    history = History(
        root=lambda root: (root._replace(node=()), root.node),
        play=lambda node, action: node._replace(action=jnp.asarray(action, jnp.int32)),
        legal=legal,
        outcome=outcome,
        observe=lambda root, node, trail: (root.prior_logits, node),
        sees_ancestors=False,
    )

    def by_search_alone(*_: Any) -> Any:
        raise ValueError("game: a model has no games of its own, only roots that are searched")

    return Game(num_actions, *[by_search_alone] * 5, max_moves=10**6, history=history)


def _evaluate(recurrent_fn: Callable, illegal_below: float | None) -> Callable:
    def evaluate(params: Any, key: jax.Array, observed: tuple[jax.Array, Node]) -> Evaluation:
        """The model's step where an action waits; of other nodes what is known of them."""
        root_logits, nodes = observed
        waits = nodes.action != TAKEN

        def take() -> tuple[jax.Array, Node]:
            action = jnp.maximum(nodes.action, 0)
            step, embedding = recurrent_fn(params, key, action, nodes.embedding)
            logits, illegal = _finite(step.prior_logits), jnp.zeros_like(nodes.illegal)
            if illegal_below is not None:
                illegal = rows.pack(logits < illegal_below)
            known = step.reward, step.discount, step.value, illegal
            after = Node(embedding, jnp.full_like(action, TAKEN), *known)
            return logits, jax.tree.map(_cast_as, after, nodes)

        before = root_logits, nodes
        after = lax.cond(jnp.any(waits), take, lambda: before)
        logits, after = jax.tree.map(functools.partial(_where, waits), after, before)
        goes_on = (after.discount == -1) & (after.reward == 0)
        value = jnp.where(goes_on | (after.discount == 0), after.value, jnp.nan)
        return Evaluation(logits, value, positions=after)

    return evaluate


def _where(condition: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """[M, ...]: `x` where bool[M]."""
    return jnp.where(condition.reshape(-1, *[1] * (x.ndim - 1)), x, y)


def _cast_as(x: jax.Array, like: jax.Array) -> jax.Array:
    return jnp.asarray(x).astype(like.dtype)


def _finite(logits: jax.Array) -> jax.Array:
    """f32: what is as good as impossible is so by the lowest number that there is."""
    return jnp.maximum(logits.astype(jnp.float32), jnp.finfo(np.float32).min)


def _as_in_tree(node: Node, tree: Tree) -> Node:
    """The roots of trees that are not empty, where their embeddings are those of the nodes."""
    stored = trees.read_positions(tree, tree.row(trees.ROOT))
    same = tree.size > 0
    for x, y in zip(
        jax.tree.leaves(stored.embedding), jax.tree.leaves(node.embedding), strict=True
    ):
        same &= jnp.all((x == y).reshape(same.shape[0], -1), axis=1)
    return jax.tree.map(functools.partial(_where, same), stored, node)


@dataclasses.dataclass(frozen=True)
class MctxRoot(GumbelRoot):
    """`GumbelRoot` as mctx has it: invalid actions count as not visited.

    So among the completed Q, which is stretched to [0, 1], there is always v_mix if any is invalid.
    """

    def _score(self, edges: Edges, gumbel: jax.Array) -> jax.Array:
        return super()._score(_all_of(edges), gumbel)

    def policy_target(self, edges: Edges) -> jax.Array:
        improved = super().policy_target(_all_of(edges))
        valid = jnp.where(edges.legal, improved, 0.0)
        return valid / jnp.maximum(jnp.sum(valid), np.finfo(np.float32).tiny)


def _all_of(edges: Edges) -> Edges:
    return edges._replace(prior=jnp.maximum(edges.prior, 0.0))


class PolicyOutput(NamedTuple):
    """As mctx's; in place of its tree the whole result of the search."""

    action: jax.Array  # i32[B]
    action_weights: jax.Array  # f32[B, A]
    search_tree: SearchResult


def gumbel_muzero_policy(
    params: Any,
    rng_key: jax.Array,
    root: Any,
    recurrent_fn: Callable,
    num_simulations: int,
    invalid_actions: jax.Array | None = None,
    max_depth: int | None = None,
    *,
    max_num_considered_actions: int = 16,
    gumbel_scale: float = 1.0,
    value_scale: float = 0.1,
    maxvisit_init: float = 50.0,
    rescale_values: bool = True,
    leaves: int = 1,
) -> PolicyOutput:
    """``mctx.gumbel_muzero_policy`` for two-player zero-sum games, by gozero's search.

    The visits are mctx's from the same key, as far as rounding goes: values here are multiples of
    2^-14. Where two actions are equally good mctx takes the first, gozero any.

    Args:
      params, rng_key, root, recurrent_fn, num_simulations, invalid_actions, max_depth,
        max_num_considered_actions, gumbel_scale: as mctx's; see `from_mctx`.
      value_scale, maxvisit_init, rescale_values: of mctx's ``qtransform_completed_by_mix_value``.
      leaves: that the model is asked for together, of each tree; divides the simulations. With more
        than 1 the visits are not quite mctx's, and large models are better used.

    Returns:
      (action, action_weights, search_tree): `search_tree` is a `SearchResult`.

    Raises:
      ValueError: arrays of shapes that do not go together; a setting out of its range.
    """
    scales = {
        "value_scale": value_scale,
        "max_visit_init": maxvisit_init,
        "rescale": rescale_values,
    }
    config = SearchConfig(
        num_simulations=num_simulations,
        max_depth=num_simulations if max_depth is None else max_depth,
        leaves=leaves,
        virtual_loss=1,
        select=GumbelInterior(**scales),
        root_select=MctxRoot(max_num_considered_actions, gumbel_scale, **scales),
    )
    game, evaluator, states = from_mctx(
        root, recurrent_fn, params, invalid_actions, illegal_below=None
    )
    rng_key, gumbel_key = jax.random.split(rng_key)
    shape, dtype = root.prior_logits.shape, root.prior_logits.dtype
    samples = jax.random.gumbel(gumbel_key, shape, dtype)
    running = begin(game, evaluator, rng_key, states, config, gumbel=samples)
    result = finish(advance(game, evaluator, running, config), config)
    return PolicyOutput(result.action, result.policy_target, result)
