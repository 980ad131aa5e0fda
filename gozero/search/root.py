"""The roots: rules of their own, results, and when a search may end.

A root's rule sees every action of the root, and noise that is drawn once a search. It may take any
action that has no child yet, and not only the one with the highest prior.

A search may end when no simulation that is left can change what is played. A simulation gives one
visit to one action of the root, so the most visited one stays it when it is more visits ahead of
the second than simulations are left.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.search import move_choice, proofs, rows
from gozero.search import tree as trees
from gozero.search.choose import Draws
from gozero.search.edges import Edges, best_edge, tie_break
from gozero.search.tree import NO_NODE, ROOT, Entries, Tree

if TYPE_CHECKING:
    from gozero.search.config import SearchConfig
from collections.abc import Callable


def choose(tree: Tree, found: Entries, config: SearchConfig, draws: Draws) -> Tree:
    """Choose at the roots, by `config.root_select`.

    Args:
      tree: the trees.
      found: all actions of the roots, [B, A].
      config: the settings.
      draws: salts for ties, and the samples that the rule sees.

    Returns:
      The trees with what a descent does at the root: `next`, or `untried` and `untried_prior`.
    """
    scores = jax.vmap(functools.partial(_scores, config))(found.edges, draws.gumbel)
    order = jax.vmap(tie_break, in_axes=(0, None, None))
    scores = proofs.avoid_lost(scores, found.edges)
    if config.fills:  # else a full tree that would rather try an action judged its root for ever
        keeps = (tree.size >= tree.capacity) & (rows.read(tree.num_children, tree.row(ROOT)) > 0)
        scores = jnp.where(keeps[:, None] & (found.nodes == NO_NODE), -jnp.inf, scores)
    priority = order(draws.salts, jnp.int32(ROOT), jnp.arange(tree.num_actions))
    action = jax.vmap(best_edge)(scores, priority)
    take = lambda x: jnp.take_along_axis(x, action[:, None], axis=1)[:, 0]
    child, row = take(found.nodes), tree.row(ROOT)
    # Where a child is chosen, what has no child and comes first stays known.
    untried_row = jnp.where(child == NO_NODE, row, row + tree.num_rows)
    return tree.replace(
        next=rows.write(tree.next, row, trees.unless_proven(tree, row, child)),
        untried=rows.write(tree.untried, untried_row, action),
        untried_prior=rows.write(tree.untried_prior, untried_row, take(found.edges.prior)),
    )


def _scores(config: SearchConfig, edges: Edges, gumbel: jax.Array) -> jax.Array:
    rule: Any = config.root_select
    if hasattr(rule, "score_root"):
        return rule.score_root(edges, gumbel, config.num_simulations)
    return rule(edges)


class Found(NamedTuple):
    """What a search has come to at B roots."""

    edges: Edges  # [B, A]
    value: jax.Array  # f32[B]: exact if proven
    proven: jax.Array | None  # i8[B], if it is kept


def found(tree: Tree) -> Found:
    """Of the roots of trees."""
    edges = trees.all_edges(tree, ROOT)
    if tree.proven is None:
        return Found(edges, edges.value, None)
    proven = rows.read(tree.proven, tree.row(ROOT))
    return Found(edges, proofs.exact_or(proven, edges.value), proven)


_WIDTHS = 8, 32
"""Children: where no root has more than these, no more are looked at."""


def actions(tree: Tree) -> Entries:
    """All actions of the roots, [B, A]: `trees.by_action`, for the loop of a search."""
    widths = np.array([*(width for width in _WIDTHS if width < tree.num_actions), tree.num_actions])
    most = jnp.max(rows.read(tree.num_children, tree.row(ROOT)))
    branches = [functools.partial(trees.by_action, node=ROOT, width=int(width)) for width in widths]
    return lax.switch(jnp.sum(most > widths), branches, tree)


def final_action(
    config: SearchConfig, key: jax.Array, edges: Edges, gumbel: jax.Array
) -> jax.Array:
    """i32[]: the action to play at one root, as its rule says, or the visits or values."""
    rule: Any = config.root_select
    if hasattr(rule, "final_action"):
        return rule.final_action(edges, gumbel)
    played = proofs.playable(edges)
    by_visits = move_choice.by_visits(
        key, played.visits, played.prior, jnp.float32(config.temperature)
    )
    if config.final_move == "visits":
        return by_visits
    z = move_choice.CONFIDENCE if config.final_move == "bound" else 0.0
    by_value = move_choice.by_value(key, played.visits, played.q, z)
    if edges.proven is None:
        return by_value
    # Where all are lost their values are one; where what is left has no visits, it has none.
    has_value = jnp.any(played.visits > 0) & ~jnp.all(proofs.is_lost(edges) | ~edges.legal)
    return jnp.where(has_value, by_value, by_visits)


def policy_target(config: SearchConfig, edges: Edges) -> jax.Array:
    """f32[A]: what one root's policy is to become, as its rule says or the share of the visits."""
    rule: Any = config.root_select
    if hasattr(rule, "policy_target"):
        return rule.policy_target(edges)
    return move_choice.visit_policy(edges.visits, edges.prior)


def decided(tree: Tree, left: jax.Array | int) -> jax.Array:
    """bool[B]: the most visited action of the root cannot be overtaken, nor reached.

    Args:
      tree: the trees.
      left: i32[], simulations that each of them may still do.

    Returns:
      True also where the game is over.
    """
    counted = tree.replace(guess=None)
    lanes = jnp.arange(tree.num_trees, dtype=jnp.int32)

    def lead(width):
        visits = trees.children(counted, lanes, jnp.zeros_like(lanes), width).edges.visits
        is_best = jnp.arange(width)[None] == jnp.argmax(visits, axis=1)[:, None]
        return jnp.max(visits, axis=1) - jnp.max(jnp.where(is_best, 0, visits), axis=1)

    widths = np.array([*(width for width in _WIDTHS if width < tree.num_actions), tree.num_actions])
    most = jnp.max(rows.read(tree.num_children, tree.row(ROOT)))
    branches = [functools.partial(lead, int(width)) for width in widths]
    ahead = lax.switch(jnp.sum(most > widths), branches)
    return (ahead > left) | rows.read(tree.over, tree.row(ROOT))


def while_open(
    start: jax.Array,
    end: jax.Array | int,
    simulate: Callable[[jax.Array, Any], Any],
    grown: Any,
    is_open: Callable[[Tree, jax.Array], jax.Array],
) -> tuple[jax.Array, Any]:
    """``fori_loop(start, end, simulate, grown)`` that ends where nothing is open.

    Args:
      start, end: i32[].
      simulate: (i, grown) -> grown; the trees are the first of `grown`.
      grown: what the loop carries.
      is_open: (tree, i) -> bool[]: whether step i is to be done. One for all trees: a loop must
        not carry a tree under a batched predicate.

    Returns:
      (the step that was not done, grown). Trip bound: end - start.
    """

    def step(carry):
        i, _, grown = carry
        grown = simulate(i, grown)
        return i + 1, is_open(grown[0], i + 1), grown

    start = jnp.asarray(start, jnp.int32)
    carry = start, is_open(grown[0], start), grown
    i, _, grown = lax.while_loop(lambda carry: (carry[0] < end) & carry[1], step, carry)
    return i, grown


def dirichlet(key: jax.Array, legal: jax.Array, alpha: float) -> jax.Array:
    """A symmetric Dirichlet sample over the legal actions.

    Gammas are drawn by their logarithm: at the small alphas of large boards most of them
    are too small for f32.

    Args:
      key: PRNG key.
      legal: bool[A], at least one True.
      alpha: the concentration; AlphaGo Zero uses 0.03 on 19x19.

    Returns:
      f32[A], summing to 1; 0 where illegal.
    """
    log_gamma = jax.random.loggamma(key, alpha, legal.shape)
    return jax.nn.softmax(jnp.where(legal, log_gamma, -jnp.inf))


def gumbel(key: jax.Array, num_trees: int, num_actions: int) -> jax.Array:
    """f32[B, A]: Gumbel(0, 1) samples; those of a tree do not depend on how many there are."""
    keys = jax.random.split(key, num_trees)
    return jax.vmap(lambda key: jax.random.gumbel(key, (num_actions,), jnp.float32))(keys)


def soften(prior: jax.Array, temperature: float) -> jax.Array:
    """P^(1 / temperature), made to sum to 1: above 1 the priors come closer to each other.

    Wu (2019) softens the root's priors by 1.03 or more before the noise is added.

    Args:
      prior: f32[A]; -inf where illegal, and so it stays.
      temperature: above 0.
    """
    chex.assert_rank(prior, 1)
    legal = prior >= 0
    logits = jnp.where(prior > 0, jnp.log(jnp.maximum(prior, 1e-38)), -jnp.inf)
    softened = jax.nn.softmax(logits / temperature)
    return jnp.where(legal, jnp.where(jnp.any(prior > 0), softened, prior), -jnp.inf)


def add_dirichlet(key: jax.Array, prior: jax.Array, alpha: float, fraction: float) -> jax.Array:
    """P <- (1 - fraction) P + fraction noise, Silver et al. (2017), Methods.

    Args:
      key: PRNG key.
      prior: f32[A]; -inf where illegal, and so it stays.
      alpha: the Dirichlet concentration.
      fraction: the weight of the noise, 0.25 in the paper.
    """
    chex.assert_rank(prior, 1)
    legal = prior >= 0
    noisy = (1.0 - fraction) * prior + fraction * dirichlet(key, legal, alpha)
    return jnp.where(legal, noisy, -jnp.inf)


def board_alpha(num_points: int) -> float:
    """AlphaGo Zero's 0.03 at 361 points, scaled so that the sum over points stays."""
    return 0.03 * 361 / num_points
