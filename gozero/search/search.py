"""Search B trees in lockstep: descend, expand, evaluate, back up.

This file is the batch boundary: the game and the rules of selection know one game, the
functions here have a leading axis B and are never vmapped.

What a rule chooses at a node changes only when a value goes up through it. So the choice is made
there, and kept in the tree; a descent just follows it, one number a level.

How the loop keeps the trees in place (law 2 of the design): no loop carries a tree under a
batched predicate. A descent reads the tree and carries node indices and the path; a step
then writes each array once, at rows that depend on what was read, so that XLA has no reason
to keep the old copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import lax

from gozero import fusion
from gozero.search import backup, choices, move_choice, noise, rows, selection, targets
from gozero.search import tree as trees
from gozero.search.game import Evaluate, Evaluation, Game, Trail
from gozero.search.tree import NO_NODE, ROOT, Tree


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Static settings of a search.

    Attributes:
      num_simulations: leaves visited by each tree, the root's evaluation not counted.
      capacity: nodes a tree has room for; None for num_simulations + 1, the least it needs.
      max_depth: a node this deep is evaluated, not expanded.
      select: the selection rule, ``selection.Edges -> f32[K]``.
      root_select: the root's, if it is another; it tries actions in the order of `select`.
      root_temperature: softens the root's priors, before the noise; see `noise.soften`.
      dirichlet_fraction: weight of the Dirichlet noise in the root's priors; 0 for none.
      dirichlet_alpha: its concentration.
      temperature: of the action drawn from the visits; 0 for the most visited.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    num_simulations: int = 64
    capacity: int | None = None
    max_depth: int = 64
    select: Callable[[selection.Edges], jax.Array] = selection.Puct()  # noqa: RUF009 (frozen)
    root_select: Callable[[selection.Edges], jax.Array] | None = None
    root_temperature: float = 1.0
    dirichlet_fraction: float = 0.0
    dirichlet_alpha: float = 0.03
    temperature: float = 0.0

    def __post_init__(self):
        for name in ("num_simulations", "max_depth"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name}: {getattr(self, name)!r} is not a whole number")
        if not 1 <= self.num_simulations <= trees.MAX_VISITS:
            raise ValueError(
                f"num_simulations: {self.num_simulations} is not from 1 to {trees.MAX_VISITS} "
                "(the most that a fixed-point value sum holds)"
            )
        if self.capacity is not None and self.capacity <= self.num_simulations:
            raise ValueError(
                f"capacity: {self.capacity} nodes do not hold the root and "
                f"{self.num_simulations} simulations; use at least {self.num_simulations + 1}"
            )
        if self.max_depth < 1:
            raise ValueError(f"max_depth: {self.max_depth} is not at least 1")
        if not self.root_temperature > 0:
            raise ValueError(f"root_temperature: {self.root_temperature} is not above 0")
        if not 0 <= self.dirichlet_fraction <= 1:
            raise ValueError(f"dirichlet_fraction: {self.dirichlet_fraction} is not from 0 to 1")
        if not self.dirichlet_alpha > 0:
            raise ValueError(f"dirichlet_alpha: {self.dirichlet_alpha} is not above 0")
        if not self.temperature >= 0:
            raise ValueError(f"temperature: {self.temperature} is not at least 0")

    @property
    def num_nodes(self) -> int:
        """N, the nodes a tree has room for."""
        return self.num_simulations + 1 if self.capacity is None else self.capacity

    @property
    def path_limit(self) -> int:
        """D, the longest path a simulation can take."""
        return min(self.max_depth, self.num_simulations)


class SearchResult(NamedTuple):
    """What the search of B games found; q and value are for the player to move at the root."""

    action: jax.Array  # i32[B]; of no meaning where no action is legal
    visits: jax.Array  # i32[B, A]
    q: jax.Array  # f32[B, A] in [-1, 1]; 0 where not visited
    policy_target: jax.Array  # f32[B, A]
    value: jax.Array  # f32[B]: mean of the root's evaluation and all simulations
    ok: jax.Array  # bool[B]: every evaluation was finite, every open position had a legal action
    tree: Tree


def search(
    game: Game,
    evaluate: Evaluate,
    params: Any,
    key: jax.Array,
    contexts: Any,
    roots: Any,
    config: SearchConfig,
    tree: Tree | None = None,
) -> SearchResult:
    """Monte-Carlo tree search of B games in lockstep. Call it under ``jax.jit``.

    Args:
      game: the game; static.
      evaluate: ``(params, key, observations[M]) -> Evaluation[M]``; static.
      params: handed to `evaluate`.
      key: PRNG key for noise, ties, the drawn action, and the evaluator.
      contexts: the games up to the roots, a pytree with a leading axis [B].
      roots: positions with a leading axis [B].
      config: static settings.
      tree: trees of the last move to go on from; not there yet, leave it None.

    Returns:
      A `SearchResult`. A game that is over at its root has no visits.

    Raises:
      ValueError: contexts and roots of different batch sizes, or a tree.
    """
    if tree is not None:
        raise ValueError("tree: going on from an earlier tree is not there yet; use tree=None")
    _check_batch(contexts, roots)
    noise_key, choice_key, salt_key, evaluation_key = jax.random.split(key, 4)
    num_trees = jax.tree.leaves(roots)[0].shape[0]
    salts = jax.random.bits(salt_key, (num_trees,), jnp.uint32)

    blank = trees.allocate(roots, game.num_actions, config.num_nodes)
    root_key = jax.random.fold_in(evaluation_key, 0)
    planted = _plant(
        game, evaluate, params, root_key, noise_key, contexts, roots, config, salts, blank
    )

    def simulate(i, carry):
        step_key = jax.random.fold_in(evaluation_key, i + 1)
        return _grow(game, evaluate, params, step_key, contexts, config, salts, *carry)

    searched, ok = lax.fori_loop(0, config.num_simulations, simulate, planted)
    return _summary(searched, ok, choice_key, config)


def _check_batch(contexts: Any, roots: Any) -> None:
    sizes = {x.shape[:1] for x in jax.tree.leaves((contexts, roots))}
    if len(sizes) != 1 or () in sizes:
        raise ValueError(
            f"contexts and roots: leading axes {sorted(sizes)}; give every leaf the same [B], "
            "[1] for a single game"
        )


def _plant(
    game, evaluate, params, key, noise_key, contexts, roots, config, salts, tree: Tree
) -> tuple[Tree, jax.Array]:
    """Evaluate the roots and write them as node 0 of each tree."""
    num_trees = tree.num_trees
    stacked = jax.tree.map(
        lambda x: jnp.broadcast_to(x[:, None], (num_trees, config.path_limit, *x.shape[1:])), roots
    )
    trail = Trail(stacked, jnp.zeros(num_trees, jnp.int32))
    judged = _judge(game, evaluate, params, key, contexts, roots, trail)
    prior = judged.prior
    if config.root_temperature != 1:
        prior = jax.vmap(noise.soften, in_axes=(0, None))(prior, config.root_temperature)
    if config.dirichlet_fraction > 0:
        keys = jax.random.split(noise_key, num_trees)
        prior = jax.vmap(noise.add_dirichlet, in_axes=(0, 0, None, None))(
            keys, prior, config.dirichlet_alpha, config.dirichlet_fraction
        )
    row = tree.row(ROOT)
    untried = _best_untried(config, prior, salts, jnp.full(num_trees, ROOT))
    tree = tree.replace(
        prior=rows.write(tree.prior, row, prior),
        untried=rows.write(tree.untried, row, untried.action),
        untried_prior=rows.write(tree.untried_prior, row, untried.prior),
        visits=rows.write(tree.visits, row, jnp.ones_like(row)),
        value_sum=rows.write(tree.value_sum, row, judged.value),
        value=rows.write(tree.value, row, judged.value),
        closed=rows.write(tree.closed, row, judged.over),
        positions=trees.write_positions(tree, row, roots),
        size=tree.size + 1,
    )
    return tree, judged.ok


class _Untried(NamedTuple):
    action: jax.Array  # i32[B]
    prior: jax.Array  # f32[B]


def _best_untried(
    config: SearchConfig, prior: jax.Array, salts: jax.Array, nodes: jax.Array
) -> _Untried:
    """Of actions with the priors f32[B, A] the rule's first, at random among equals."""
    rank = jax.vmap(lambda prior: selection.rank_untried(config.select, prior))(prior)
    actions = jnp.arange(prior.shape[1])
    priority = jax.vmap(selection.tie_break, in_axes=(0, 0, None))(salts, nodes, actions)
    action = jax.vmap(selection.choose)(rank, priority)
    is_it = actions[None] == action[:, None]
    return _Untried(action, jnp.max(jnp.where(is_it, prior, -jnp.inf), axis=1))


_LEVELS_AT_ONCE = 4


def _descend(tree: Tree, config: SearchConfig) -> backup.Path:
    """Follow each tree's choices from its root to a node that tries an action, or is closed.

    Carries indices and the path only; the tree is read. Trip bound: path_limit + 1 levels, for
    nodes at the depth limit are closed, and no closed node has a child.
    """
    num_levels = -(-(config.path_limit + 1) // _LEVELS_AT_ONCE) * _LEVELS_AT_ONCE

    def descend(following):
        def levels_down(carry):
            live, level, node, nodes = carry
            visited = []
            for _ in range(_LEVELS_AT_ONCE):
                visited.append(jnp.where(live, node, NO_NODE))
                child = rows.read(following, tree.row(node)).astype(jnp.int32)
                live = live & (child != NO_NODE)
                node = jnp.where(live, child, node)
            nodes = lax.dynamic_update_slice(nodes, jnp.stack(visited), (level, jnp.int32(0)))
            return live, level + _LEVELS_AT_ONCE, node, nodes

        start = (
            jnp.ones(tree.num_trees, bool),
            jnp.int32(0),
            jnp.full(tree.num_trees, ROOT, jnp.int32),
            jnp.full((num_levels, tree.num_trees), NO_NODE, jnp.int32),
        )
        return lax.while_loop(lambda carry: jnp.any(carry[0]), levels_down, start)

    nodes = fusion.one_kernel(descend, tree.next)[-1]
    return backup.Path(nodes, jnp.sum(nodes != NO_NODE, axis=0, dtype=jnp.int32) - 1)


def _grow(
    game, evaluate, params, key, contexts, config, salts, tree: Tree, ok
) -> tuple[Tree, jax.Array]:
    """Add each tree's new node, and back its value up; a closed leaf's own value goes up again."""
    path = _descend(tree, config)
    leaf = path.end
    leaf_row = tree.row(leaf)
    closed = rows.read(tree.closed, leaf_row)
    action = rows.read(tree.untried, leaf_row).astype(jnp.int32)
    trail = _read_trail(tree, path, config)
    parents = jax.vmap(_last)(trail)
    positions = jax.vmap(game.play)(parents, action)
    judged = _judge(game, evaluate, params, key, contexts, positions, trail)

    prior_there = rows.read(tree.prior, leaf_row)
    is_tried = (jnp.arange(tree.num_actions)[None] == action[:, None]) & ~closed[:, None]
    edge_prior = jnp.max(jnp.where(is_tried, prior_there, -jnp.inf), axis=1)
    # A leaf that is closed, or has no legal action, adds nothing: its writes go to rows outside
    # the tree, each its own. (Said by what was read of `prior`: else one tree would be copied.)
    grows = edge_prior >= 0
    outside = tree.num_rows + jnp.arange(tree.num_trees, dtype=jnp.int32)
    node = tree.size
    row = jnp.where(grows, tree.row(node), outside)
    parent_row = jnp.where(grows, leaf_row, outside + tree.num_trees)
    left = jnp.where(is_tried, -jnp.inf, prior_there)
    both = jnp.concatenate([left, judged.prior])
    both_rows = jnp.concatenate([parent_row, row])
    untried = _best_untried(config, both, jnp.tile(salts, 2), jnp.concatenate([leaf, node]))
    value = jnp.where(grows, judged.value, rows.read(tree.value, leaf_row))
    num_children = rows.read(tree.num_children, leaf_row).astype(jnp.int32)
    depth = path.length + 1
    grown = tree.replace(
        prior=rows.write(tree.prior, both_rows, both),
        untried=rows.write(tree.untried, both_rows, untried.action),
        untried_prior=rows.write(tree.untried_prior, both_rows, untried.prior),
        children=rows.write_entry(tree.children, parent_row, num_children, node),
        num_children=rows.write(tree.num_children, parent_row, num_children + 1),
        action=rows.write(tree.action, row, action),
        edge_prior=rows.write(tree.edge_prior, row, edge_prior),
        value=rows.write(tree.value, row, value),
        closed=rows.write(tree.closed, row, judged.over | (depth >= config.path_limit)),
        positions=trees.write_positions(tree, row, positions),
        size=node + grows,
    )
    below = jnp.arange(path.nodes.shape[0], dtype=jnp.int32)[:, None] == depth[None]
    nodes = jnp.where(below & grows[None], node[None], path.nodes)
    path = backup.Path(nodes, path.length + grows)
    grown = backup.back_up(grown, path, value)
    grown = choices.choose_again(grown, path, config.select, salts, config.root_select)
    return grown, ok & (judged.ok | closed)


def _read_trail(tree: Tree, path: backup.Path, config: SearchConfig) -> Trail:
    """The positions on the paths, as the new nodes' ancestors.

    This is the step's only read of positions. The parent is taken from it and not from the
    tree, so that what is written depends on all that was read and the write stays in place.
    """
    nodes = jnp.maximum(path.nodes[: config.path_limit], ROOT).T
    return Trail(trees.read_positions(tree, tree.row(0)[:, None] + nodes), path.length + 1)


def _last(trail: Trail) -> Any:
    """The last ancestor of one trail."""
    return jax.tree.map(lambda x: x[trail.length - 1], trail.positions)


class _Judged(NamedTuple):
    prior: jax.Array  # f32[B, A]: -inf where illegal
    value: jax.Array  # i32[B], fixed point: exact where the game is over
    over: jax.Array  # bool[B]
    ok: jax.Array  # bool[B]


def _judge(game, evaluate, params, key, contexts, positions, trail: Trail) -> _Judged:
    """Legality, result and evaluation of B positions."""
    legal = jax.vmap(game.legal)(contexts, positions, trail)
    over, exact = jax.vmap(game.result)(contexts, positions)
    evaluation = evaluate(params, key, jax.vmap(game.observe)(contexts, positions, trail))
    chex.assert_shape(evaluation.prior_logits, legal.shape)
    chex.assert_shape(evaluation.value, over.shape)
    prior, value, ok = jax.vmap(_checked)(legal, evaluation)
    value = trees.to_fixed(jnp.where(over, exact, value))
    return _Judged(prior, value, over, ok=over | (ok & legal.any(axis=1)))


def _checked(legal: jax.Array, evaluation: Evaluation) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(prior f32[A], value f32[], ok bool[]) of one position.

    The prior is the softmax over the legal actions. An evaluation that is not finite counts
    as uniform and even, so that one bad game does not spoil its neighbours.
    """
    logits, value = evaluation.prior_logits, evaluation.value
    ok = jnp.isfinite(value) & jnp.all(jnp.isfinite(logits) | ~legal)
    logits = jnp.where(ok, logits, 0.0).astype(jnp.float32)
    prior = jax.nn.softmax(jnp.where(legal, logits, -jnp.inf))
    return jnp.where(legal, prior, -jnp.inf), jnp.where(ok, value, 0.0), ok


def _summary(tree: Tree, ok: jax.Array, key: jax.Array, config: SearchConfig) -> SearchResult:
    root = trees.all_edges(tree, ROOT)
    keys = jax.random.split(key, tree.num_trees)
    temperature = jnp.full(tree.num_trees, config.temperature, jnp.float32)
    return SearchResult(
        action=jax.vmap(move_choice.by_visits)(keys, root.visits, root.prior, temperature),
        visits=root.visits,
        q=root.q,
        policy_target=jax.vmap(targets.visit_policy)(root.visits, root.prior),
        value=root.value,
        ok=ok,
        tree=tree,
    )
