"""Runs gozero's searches on a model written for mctx, a `recurrent_fn`.

    output = mctx.gumbel_muzero_policy(params, key, root, recurrent_fn, 50, invalid_actions)
    output = gozero.gumbel_muzero_policy(params, key, root, recurrent_fn, 50, invalid_actions)

The game is two-player, alternating and zero-sum: `discount` is -1, or 0 where the action ended the
game, and only an action that ends the game has a reward, in [-1, 1], for the player who took it.
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
from gozero.search.game import Ancestors, Evaluation, Evaluator, Game, History, where_games
from gozero.search.rules.gumbel import GumbelInterior, GumbelRoot
from gozero.search.search import SearchResult, advance, begin, finish
from gozero.search.tree import Tree

NONE_PENDING = -1


class ModelNode(NamedTuple):
    """A position of a model. The model applies the action only when the node is evaluated."""

    embedding: Any  # this node's; its parent's until the action is applied
    action: jax.Array  # i32[]: the action from the parent, or NONE_PENDING if it has been applied
    reward: jax.Array  # f32[]: the action's reward, for the player who took it
    discount: jax.Array  # f32[]: -1, or 0 if the action ended the game
    value: jax.Array  # f32[]: the model's value, for the player to move
    illegal: jax.Array  # u32[W]: the actions that the logits rule out, one bit each


class Root(NamedTuple):
    """The state that a search starts from."""

    node: ModelNode
    prior_logits: jax.Array  # f32[A]
    invalid: jax.Array  # bool[A]


class SearchArguments(NamedTuple):
    """The arguments for `gozero.search`."""

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
) -> SearchArguments:
    """Turns an mctx model into the arguments of `gozero.search`. Call it under ``jax.jit``.

        game, evaluator, states = gozero.from_mctx(root, recurrent_fn, params, invalid_actions)
        config = gozero.SearchConfig(num_simulations=50, leaves=5)
        result = gozero.search(game, evaluator, key, states, config)

    A reward before the end of the game, or a discount other than -1 and 0, makes that game's
    `SearchResult.ok` False.

    Args:
      root: with `prior_logits` [B, A], `value` [B] in [-1, 1] and `embedding` [B, ...]; an
        ``mctx.RootFnOutput``.
      recurrent_fn: (params, key, action i32[M], embedding [M, ...]) -> (an
        ``mctx.RecurrentFnOutput`` [M], embedding); with several leaves M is leaves * B.
      params: passed to `recurrent_fn`.
      invalid_actions: [B, A], true where an action is invalid at the root; None: all are valid.
      tree: the trees to continue from, see `gozero.search.reuse.reroot`. The root's embedding must
        equal that of the tree's root, bit for bit; the tree's other data of that root are kept.
      illegal_below: below the root, actions with logits lower than this are illegal; None: all are
        legal, as in mctx, which visits unlikely actions if all others look bad.

    Returns:
      (game, evaluator, states).

    Raises:
      ValueError: the arrays' shapes do not match, or the model returns others.
    """
    if root.prior_logits.ndim != 2:
        raise ValueError(
            f"root.prior_logits: its shape is {root.prior_logits.shape}; it must be [B, A]; B "
            "is 1 for a single position"
        )
    batch, num_actions = root.prior_logits.shape
    for path, leaf in jax.tree.leaves_with_path(root.embedding):
        if jnp.shape(leaf)[:1] != (batch,):
            raise ValueError(
                f"root.embedding{jax.tree_util.keystr(path)}: its shape is {jnp.shape(leaf)}; it "
                f"must begin with {batch}, the number of positions"
            )
    if invalid_actions is None:
        invalid_actions = jnp.zeros((batch, num_actions), bool)
    for name, array, shape in (
        ("root.value", root.value, (batch,)),
        ("invalid_actions", invalid_actions, (batch, num_actions)),
    ):
        if array.shape != shape:
            raise ValueError(
                f"{name}: its shape is {array.shape}, but with these logits it must be {shape}"
            )
    filled = lambda number: jnp.full(batch, number, jnp.float32)
    none_pending = jnp.full(batch, NONE_PENDING, jnp.int32)
    none = jnp.zeros((batch, rows.num_words(num_actions)), jnp.uint32)
    node = ModelNode(
        root.embedding, none_pending, filled(0), filled(-1), root.value.astype(jnp.float32), none
    )
    if tree is not None:
        node = _as_in_tree(node, tree)
    _check_model(recurrent_fn, params, node)
    states = Root(node, _finite(root.prior_logits), invalid_actions.astype(bool))
    evaluate = _evaluate(recurrent_fn, illegal_below)
    return SearchArguments(_game(num_actions), Evaluator(evaluate, params), states)


def _check_model(recurrent_fn: Callable, params: Any, node: ModelNode) -> None:
    """Raises:
    ValueError: it does not return a step and an embedding of the same shapes as the root's.
    """
    output = jax.eval_shape(recurrent_fn, params, jax.random.key(0), node.action, node.embedding)
    if not (isinstance(output, tuple) and len(output) == 2):
        raise ValueError(
            f"recurrent_fn: it returns a {type(output).__name__}; it must return (an output, the "
            "next embedding)"
        )
    shapes = lambda tree: jax.tree.map(jnp.shape, tree)
    before, after = shapes(node.embedding), shapes(output[1])
    if before != after:
        raise ValueError(
            f"recurrent_fn: it returns an embedding of shapes {after}; they must stay {before}"
        )


def _game(num_actions: int) -> Game:
    def legal(root: Root, node: ModelNode, ancestors: Ancestors) -> jax.Array:
        invalid = root.invalid & (ancestors.length == 0)
        return ~(invalid | rows.unpack(node.illegal, num_actions))

    def outcome(root: Root, node: ModelNode) -> tuple[jax.Array, jax.Array]:
        """The reward was for the opponent, who moved last."""
        return (node.action == NONE_PENDING) & (node.discount == 0), -node.reward

    history = History(
        root=lambda root: (root._replace(node=()), root.node),
        play=lambda node, action: node._replace(action=jnp.asarray(action, jnp.int32)),
        legal=legal,
        outcome=outcome,
        observe=lambda root, node, ancestors: (root.prior_logits, node),
        sees_ancestors=False,
    )

    def unsupported(*_: Any) -> Any:
        raise ValueError("game: a model defines no games to play, only roots to search")

    return Game(num_actions, *[unsupported] * 5, max_moves=10**6, history=history)


def _evaluate(recurrent_fn: Callable, illegal_below: float | None) -> Callable:
    def evaluate(params: Any, key: jax.Array, observed: tuple[jax.Array, ModelNode]) -> Evaluation:
        """Steps the model where an action is pending; other nodes are returned as they are."""
        root_logits, nodes = observed
        is_pending = nodes.action != NONE_PENDING

        def step_model() -> tuple[jax.Array, ModelNode]:
            action = jnp.maximum(nodes.action, 0)
            step, embedding = recurrent_fn(params, key, action, nodes.embedding)
            logits, illegal = _finite(step.prior_logits), jnp.zeros_like(nodes.illegal)
            if illegal_below is not None:
                illegal = rows.pack(logits < illegal_below)
            fields = step.reward, step.discount, step.value, illegal
            after = ModelNode(embedding, jnp.full_like(action, NONE_PENDING), *fields)
            return logits, jax.tree.map(_cast_as, after, nodes)

        before = root_logits, nodes
        after = lax.cond(jnp.any(is_pending), step_model, lambda: before)
        logits, after = where_games(is_pending, after, before)
        is_ongoing = (after.discount == -1) & (after.reward == 0)
        value = jnp.where(is_ongoing | (after.discount == 0), after.value, jnp.nan)
        return Evaluation(logits, value, positions=after)

    return evaluate


def _cast_as(x: jax.Array, like: jax.Array) -> jax.Array:
    return jnp.asarray(x).astype(like.dtype)


def _finite(logits: jax.Array) -> jax.Array:
    """f32: logits of -inf (and below f32's range) become the lowest finite number."""
    return jnp.maximum(logits.astype(jnp.float32), jnp.finfo(np.float32).min)


def _as_in_tree(node: ModelNode, tree: Tree) -> ModelNode:
    """The trees' stored roots where a tree is not empty and has the same embedding; else `node`."""
    stored = trees.read_positions(tree, tree.row(trees.ROOT))
    is_same = tree.size > 0
    for x, y in zip(
        jax.tree.leaves(stored.embedding), jax.tree.leaves(node.embedding), strict=True
    ):
        is_same &= jnp.all((x == y).reshape(is_same.shape[0], -1), axis=1)
    return where_games(is_same, stored, node)


@dataclasses.dataclass(frozen=True)
class MctxRoot(GumbelRoot):
    """`GumbelRoot` as in mctx: invalid actions count as unvisited.

    So if any action is invalid, v_mix is always among the completed Q-values that are rescaled to
    [0, 1]. In a kernel the actions are padded with illegal ones, which are no invalid actions of
    the model.
    """

    root_in_kernel = False

    def _score(self, edges: Edges, gumbel: jax.Array) -> jax.Array:
        return super()._score(_all_legal(edges), gumbel)

    def policy_target(self, edges: Edges) -> jax.Array:
        improved = super().policy_target(_all_legal(edges))
        valid = jnp.where(edges.legal, improved, 0.0)
        return valid / jnp.maximum(jnp.sum(valid), np.finfo(np.float32).tiny)


def _all_legal(edges: Edges) -> Edges:
    return edges._replace(prior=jnp.maximum(edges.prior, 0.0))


class PolicyOutput(NamedTuple):
    """Like mctx's, but `search_tree` is the whole result of the search."""

    action: jax.Array  # i32[B]
    action_weights: jax.Array  # f32[B, A]
    search_tree: SearchResult


_QTRANSFORM = "qtransform_completed_by_mix_value"
_QTRANSFORM_SETTINGS = "value_scale", "maxvisit_init", "rescale_values"


def _settings_of(qtransform: Callable | None) -> dict[str, Any]:
    """The settings in an mctx ``qtransform``."""
    settings: dict[str, Any] = {}
    while isinstance(qtransform, functools.partial):
        settings = qtransform.keywords | settings
        qtransform = qtransform.func
    unknown = sorted(settings.keys() - set(_QTRANSFORM_SETTINGS))
    if qtransform is not None and getattr(qtransform, "__name__", "") != _QTRANSFORM:
        raise ValueError(f"qtransform: {qtransform!r} is not mctx's {_QTRANSFORM}")
    if unknown:
        allowed = ", ".join(_QTRANSFORM_SETTINGS)
        raise ValueError(f"qtransform: it sets {', '.join(unknown)}; expected some of {allowed}")
    return settings


def gumbel_muzero_policy(
    params: Any,
    rng_key: jax.Array,
    root: Any,
    recurrent_fn: Callable,
    num_simulations: int,
    invalid_actions: jax.Array | None = None,
    max_depth: int | None = None,
    loop_fn: Callable | None = None,
    *,
    qtransform: Callable | None = None,
    max_num_considered_actions: int = 16,
    gumbel_scale: Any = 1.0,
    value_scale: float = 0.1,
    maxvisit_init: float = 50.0,
    rescale_values: bool = True,
    leaves: int = 1,
) -> PolicyOutput:
    """``mctx.gumbel_muzero_policy`` for two-player zero-sum games, by gozero's search.

    From the same key the visits equal mctx's, up to rounding: values here are multiples of 2^-14.
    Between equally good actions mctx takes the first, gozero any. Call it under `jax.jit`.

    Args:
      params, rng_key, root, recurrent_fn, num_simulations, invalid_actions, max_depth,
        max_num_considered_actions, gumbel_scale: as in mctx; see `from_mctx`.
      loop_fn: None or `jax.lax.fori_loop`.
      qtransform: None, mctx's ``qtransform_completed_by_mix_value``, or a `functools.partial` of it
        with its ``value_scale``, ``maxvisit_init`` or ``rescale_values``, in place of those below.
      value_scale, maxvisit_init, rescale_values: of that transformation.
      leaves: the number of leaves of each tree that the model evaluates together; must divide
        `num_simulations`. With more than 1 the visits differ a little from mctx's, and large models
        run more efficiently.

    Returns:
      (action, action_weights, search_tree): `search_tree` is a `SearchResult`.

    Raises:
      ValueError: the arrays' shapes do not match, a setting is out of its range, or another
        function is given as `loop_fn` or `qtransform`.
    """
    if max_num_considered_actions < 1:
        raise ValueError(
            f"max_num_considered_actions: {max_num_considered_actions}; expected at least 1"
        )
    if loop_fn not in (None, lax.fori_loop):
        raise ValueError(f"loop_fn: {loop_fn!r} is not jax.lax.fori_loop; leave it out")
    given = {
        "value_scale": value_scale,
        "maxvisit_init": maxvisit_init,
        "rescale_values": rescale_values,
    } | _settings_of(qtransform)
    scales = {
        "value_scale": given["value_scale"],
        "max_visit_init": given["maxvisit_init"],
        "rescale": given["rescale_values"],
    }
    config = SearchConfig(
        num_simulations=num_simulations,
        max_depth=num_simulations if max_depth is None else max_depth,
        leaves=leaves,
        virtual_loss=1,
        select=GumbelInterior(**scales),
        root_select=MctxRoot(max_num_considered_actions, **scales),
    )
    game, evaluator, states = from_mctx(
        root, recurrent_fn, params, invalid_actions, illegal_below=None
    )
    rng_key, gumbel_key = jax.random.split(rng_key)
    shape, dtype = root.prior_logits.shape, root.prior_logits.dtype
    samples = gumbel_scale * jax.random.gumbel(gumbel_key, shape, dtype)
    running = begin(game, evaluator, rng_key, states, config, gumbel=samples)
    result = finish(advance(game, evaluator, running, config), config)
    return PolicyOutput(result.action, result.policy_target, result)
