"""The roots: evaluation, noise, root rules, results, and when a search may end early.

A root's rule sees every action of the root, and noise that is drawn once per search. It may choose
any action that has no child yet, not only the one with the highest prior.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from gozero.compile import mode
from gozero.search import backup, dense, in_kernel, move_choice, proofs, rows, values
from gozero.search import choose as cached
from gozero.search import tree as trees
from gozero.search.choose import Draws
from gozero.search.config import SearchConfig
from gozero.search.edges import (
    Edges,
    SelectionRule,
    among_children,
    best_edge,
    check_scores,
    has_no_number,
    tie_break,
)
from gozero.search.evaluate import Evaluated, ExternalEvaluator, evaluate_positions
from gozero.search.game import Ancestors, Evaluator, History
from gozero.search.prior_counts import evaluation_fields
from gozero.search.tree import NO_NODE, ROOT, Entries, Path, Tree


def evaluate_roots(
    game: History,
    evaluator: Evaluator | ExternalEvaluator,
    key,
    noise_key,
    contexts,
    roots,
    config: SearchConfig,
) -> Evaluated:
    """Evaluate the roots, soften their priors, and add noise."""
    num_trees = jax.tree.leaves(roots)[0].shape[0]
    stacked = jax.tree.map(
        lambda x: jnp.broadcast_to(x[:, None], (num_trees, config.path_limit, *x.shape[1:])),
        roots,
    )
    ancestors = Ancestors(stacked, jnp.zeros(num_trees, jnp.int32))
    if not isinstance(evaluator, ExternalEvaluator):
        evaluator = evaluator._replace(evaluate=mode.fast_compile()(evaluator.evaluate))
    evaluated = evaluate_positions(
        game, evaluator, key, contexts, roots, ancestors, config.counts_left
    )
    prior = evaluated.prior
    if config.root_temperature != 1:
        prior = jax.vmap(soften, in_axes=(0, None))(prior, config.root_temperature)
    if config.dirichlet_fraction > 0:
        alpha = config.dirichlet_alpha or board_alpha(prior.shape[1])
        keys = jax.random.split(noise_key, num_trees)
        prior = jax.vmap(add_dirichlet, in_axes=(0, 0, None, None))(
            keys, prior, alpha, config.dirichlet_fraction
        )
    return evaluated._replace(prior=prior)


def new_trees(
    optional: trees.OptionalArrays, evaluated: Evaluated, roots, config: SearchConfig, draws: Draws
) -> Tree:
    """Trees that have only their roots; initialised by one kernel on a GPU, where possible."""
    num_actions = evaluated.prior.shape[1]
    allocate = lambda roots, capacity: trees.allocate(roots, num_actions, capacity, optional)
    shapes = jax.eval_shape(lambda roots: allocate(roots, config.num_nodes), roots)

    def by_stage(evaluated, roots, draws):
        return init_root(allocate(roots, config.num_nodes), evaluated, roots, config, draws)

    def in_one_kernel(evaluated, roots, draws):
        with jax.ensure_compile_time_eval():
            none = jax.tree.map(lambda x: jnp.zeros((1, *x.shape[1:]), x.dtype), roots)
            blank = allocate(none, 1)
        new = in_kernel.NewNodes(in_kernel.words_of(roots), evaluated.prior, evaluated.over)
        played = in_kernel.credited_plays(evaluated, config)
        root_inputs = in_kernel.root_inputs(config, draws.gumbel)
        update = in_kernel.Update(
            None, draws.tie_seeds, new, evaluated.value, played, root=root_inputs
        )
        tree = in_kernel.new_trees(blank, shapes, update, in_kernel.settings_of(config))
        if config.root_select is not None and root_inputs is None:
            tree = choose_at_roots(tree, trees.by_action(tree, ROOT, 0), config, draws)
        return tree

    is_plain = evaluated.heuristic is None and not (config.amaf and config.amaf.legal_only)
    if not (is_plain and in_kernel.fits_roots(shapes, config.rule)):
        return by_stage(evaluated, roots, draws)
    return mode.by_platform(evaluated, roots, draws, cuda=in_one_kernel, default=by_stage)


def init_root(
    tree: Tree,
    evaluated: Evaluated,
    roots,
    config: SearchConfig,
    draws: Draws,
    is_new: jax.Array | bool = True,
) -> Tree:
    """Write the roots as node 0 of their trees; of a tree that is not new, bool[B], the statistics
    of the root stay, and its evaluation without the priors. (They are not read and restored, as XLA
    would copy their arrays.)"""
    row = tree.row(ROOT)
    new_row = jnp.where(is_new, row, row + tree.num_rows)
    tree = tree.replace(
        prior=rows.write(tree.prior, row, evaluated.prior),
        visits=rows.write(tree.visits, new_row, jnp.ones_like(row)),
        value_sum=rows.write(
            tree.value_sum, new_row, values.sum_of(evaluated.value, like=tree.value_sum)
        ),
        squares=_first_squares(tree, new_row, evaluated),
        positions=trees.write_positions(tree, row, roots),
        size=jnp.maximum(tree.size, 1),
        **evaluation_fields(tree, new_row, evaluated),
    )
    if tree.scores is not None and evaluated.utility is not None:
        first = values.sum_of(evaluated.utility, like=tree.scores.sums)
        sums = rows.write(tree.scores.sums, new_row, first)
        tree = tree.replace(scores=tree.scores._replace(sums=sums))
    tree = backup.back_up_values(tree, root_path(tree), evaluated.proven, config.backup)
    if tree.is_dense:
        tree = dense.open_rows(tree, row)
        credit = None
        if config.amaf is not None:
            own_plays = evaluated.credited[:, 0] & jnp.reshape(is_new, (-1, 1))
            credit = dense.Credit(
                rows.pack(own_plays)[None], evaluated.value, config.amaf.legal_only
            )
        tree = dense.choose_again(tree, root_path(tree), config.rule, draws.tie_seeds, credit)
    else:
        nodes = jnp.full(tree.num_trees, ROOT)
        tree = cached.write_untried(tree, row, evaluated.prior, config.rule, draws.tie_seeds, nodes)
    if config.root_select is not None:
        tree = choose_at_roots(tree, trees.by_action(tree, ROOT, 0), config, draws)
    return tree


def _first_squares(tree: Tree, row: jax.Array, evaluated: Evaluated) -> values.Sums | None:
    if tree.squares is None:
        return None
    value = evaluated.value
    value = value if evaluated.utility is None else value + evaluated.utility
    first = values.sum_of(values.squared(value), like=tree.squares)
    return rows.write(tree.squares, row, first)


def root_path(tree: Tree) -> Path:
    """Paths of length 0, which begin and end at the roots."""
    nodes = jnp.full((1, tree.num_trees), ROOT, jnp.int32)
    return Path(nodes, jnp.zeros(tree.num_trees, jnp.int32))


def choose_at_roots(tree: Tree, entries: Entries, config: SearchConfig, draws: Draws) -> Tree:
    """Choose at the roots, by `config.root_select`.

    Args:
      tree: the trees.
      entries: all actions of the roots, [B, A].
      config: the settings.
      draws: seeds for ties, and the samples that the rule sees.

    Returns:
      The trees with the choice that a descent follows at the root: `next`, or `untried` and
      `untried_prior`.
    """
    children_only = None
    if config.fills:
        # Otherwise, in a full tree, a rule that prefers an untried action would stay at the root.
        has_children = rows.read(tree.num_children, tree.row(ROOT)) > 0
        children_only = (tree.size >= tree.capacity) & has_children
    child, action, prior = choice_at_roots(entries, config, draws, children_only)
    row = tree.row(ROOT)
    # Where a child is chosen, the best untried action stays as it is.
    untried_row = jnp.where(child == NO_NODE, row, row + tree.num_rows)
    return tree.replace(
        next=rows.write(tree.next, row, trees.unless_proven(tree, row, child)),
        untried=rows.write(tree.untried, untried_row, action),
        untried_prior=rows.write(tree.untried_prior, untried_row, prior),
    )


def choice_at_roots(
    entries: Entries, config: SearchConfig, draws: Draws, children_only: jax.Array | None = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(child i32[B] or NO_NODE, action i32[B], its prior f32[B]) that `config.root_select` chooses.

    Where `children_only`, bool[B], it chooses among the actions with a child.
    """
    rule = config.root_rule
    assert rule is not None
    score = functools.partial(rule.score_root, num_simulations=config.num_simulations)
    scores = jax.vmap(score)(entries.edges, draws.gumbel)
    check_scores(rule, scores, entries.edges.visits.shape)
    priority_of = jax.vmap(tie_break, in_axes=(0, None, None))
    scores = proofs.avoid_lost(scores, entries.edges.proven)
    if children_only is not None:
        of_children = among_children(scores, entries.edges.visits, entries.nodes != NO_NODE)
        scores = jnp.where(children_only[:, None], of_children, scores)
    priority = priority_of(draws.tie_seeds, jnp.int32(ROOT), jnp.arange(scores.shape[1]))
    action = jax.vmap(best_edge)(scores, priority)
    take = lambda x: jnp.take_along_axis(x, action[:, None], axis=1)[:, 0]
    return take(entries.nodes), action, take(entries.edges.prior)


def evaluated_edges(tree: Tree) -> Edges:
    """The roots' actions [B, A] as a rule sees them, with a heuristic's counts; for
    `final_action`."""
    return trees.by_action(tree, ROOT, tree.num_actions).edges


def have_scores(tree: Tree, config: SearchConfig) -> jax.Array:
    """bool[B]: whether all scores of the roots' legal actions are numbers, if they are those of a
    plain function."""
    ok = jnp.ones(tree.num_trees, bool)
    for rule in (config.select, config.root_select):
        if rule is not None and not isinstance(rule, SelectionRule):
            ok &= ~jax.vmap(functools.partial(has_no_number, rule))(evaluated_edges(tree))
    return ok


class RootResult(NamedTuple):
    """The results of a search at B roots."""

    edges: Edges  # [B, A]
    value: jax.Array  # f32[B]: exact if proven
    proven: jax.Array | None  # i8[B], if the trees keep proofs


def result(tree: Tree) -> RootResult:
    """The results at the roots of trees."""
    edges = trees.all_edges(tree, ROOT)
    if tree.proven is None:
        return RootResult(edges, edges.value, None)
    proven = rows.read(tree.proven, tree.row(ROOT))
    return RootResult(edges, proofs.exact_or(proven, edges.value), proven)


def actions(tree: Tree) -> Entries:
    """All actions of the roots, [B, A]: `trees.by_action` in a form that is fast in loops."""
    if trees.by_action_in_kernel(tree):
        return trees.by_action(tree, ROOT, tree.num_actions)
    max_children = jnp.max(rows.read(tree.num_children, tree.row(ROOT)))
    read = lambda width, tree: trees.by_action(tree, ROOT, width)
    return rows.by_width(max_children, tree.num_actions, read, tree)


def final_action(
    config: SearchConfig, key: jax.Array, edges: Edges, gumbel: jax.Array
) -> jax.Array:
    """i32[]: the action to play at one root, by its rule, or by `SearchConfig.final_move`.

    For "eval", the edges must include a heuristic's counts.
    """
    rule, playable = config.root_rule, _playable(edges)
    if rule is not None and rule.final_action is not None:
        return rule.final_action(playable, gumbel)
    if config.final_move == "eval":
        scores = config.rule.evaluation(playable)
        return move_choice.best(
            key, jnp.where(jnp.isneginf(jnp.max(scores)), playable.prior, scores)
        )
    by_visits = move_choice.by_visits(
        key, playable.visits, playable.prior, jnp.float32(config.temperature)
    )
    if config.final_move == "visits":
        return by_visits
    z = move_choice.CONFIDENCE if config.final_move == "bound" else 0.0
    by_value = move_choice.by_value(key, playable.visits, playable.q, z)
    # If all actions lose, their values are equal; if those that remain have no visits, they have
    # no values: then the visits decide.
    has_value = jnp.any(playable.visits > 0)
    if edges.proven is not None:
        has_value &= ~jnp.all((edges.proven == proofs.LOSS) | ~edges.legal)
    return jnp.where(has_value, by_value, by_visits)


def _playable(edges: Edges) -> Edges:
    """A root's actions; those that must not be played are made illegal, with no visits.

    If an action is proven to win, only such actions may be played; one that is proven to lose may
    be played only if all are.
    """
    if edges.proven is None:
        return edges
    wins, safe = (
        edges.legal & (edges.proven == proofs.WIN),
        edges.legal & (edges.proven != proofs.LOSS),
    )
    may_play = jnp.where(jnp.any(safe), safe, edges.legal)
    may_play = jnp.where(jnp.any(wins), wins, may_play)
    return edges._replace(
        visits=jnp.where(may_play, edges.visits, 0),
        prior=jnp.where(may_play, edges.prior, -jnp.inf),
    )


def policy_target(config: SearchConfig, edges: Edges) -> jax.Array:
    """f32[A]: the training target for one root's policy, by its rule, or the visit shares."""
    rule = config.root_rule
    if rule is not None and rule.policy_target is not None:
        return rule.policy_target(edges)
    return move_choice.visit_policy(edges.visits, edges.prior)


def decided(tree: Tree, remaining: jax.Array | int) -> jax.Array:
    """bool[B]: whether the root's most visited action can no longer be overtaken or equalled.

    A simulation adds one visit to one action of the root. So the most visited action stays so if
    its lead over the second, in visits, is larger than the number of simulations left.

    Args:
      tree: the trees.
      remaining: i32[], the simulations that each tree may still do.

    Returns:
      True also where the game is over.
    """
    counted = tree.replace(prior_counts=None)
    lanes = jnp.arange(tree.num_trees, dtype=jnp.int32)

    def lead(width):
        visits = trees.children(counted, lanes, jnp.zeros_like(lanes), width).edges.visits
        is_best = jnp.arange(width)[None] == jnp.argmax(visits, axis=1)[:, None]
        return jnp.max(visits, axis=1) - jnp.max(jnp.where(is_best, 0, visits), axis=1)

    max_children = jnp.max(rows.read(tree.num_children, tree.row(ROOT)))
    leads = rows.by_width(max_children, tree.num_actions, lead)
    return (leads > remaining) | rows.read(tree.over, tree.row(ROOT))


def dirichlet(key: jax.Array, legal: jax.Array, alpha: float) -> jax.Array:
    """A symmetric Dirichlet sample over the legal actions.

    Gamma samples are drawn as logarithms: with the small alphas of large boards, most of them
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
    """f32[B, A]: Gumbel(0, 1) samples; a tree's samples do not depend on the batch size."""
    keys = jax.random.split(key, num_trees)
    return jax.vmap(lambda key: jax.random.gumbel(key, (num_actions,), jnp.float32))(keys)


def soften(prior: jax.Array, temperature: float) -> jax.Array:
    """P^(1 / temperature), normalised to sum to 1; a temperature above 1 flattens the priors.

    Wu (2019) uses a temperature of 1.03 on the root's priors, before noise is added.

    Args:
      prior: f32[A]; -inf where illegal, also in the result.
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
      prior: f32[A]; -inf where illegal, also in the result.
      alpha: the Dirichlet concentration.
      fraction: the weight of the noise, 0.25 in the paper.
    """
    chex.assert_rank(prior, 1)
    legal = prior >= 0
    noisy = (1.0 - fraction) * prior + fraction * dirichlet(key, legal, alpha)
    return jnp.where(legal, noisy, -jnp.inf)


def board_alpha(num_points: int) -> float:
    """The Dirichlet alpha for a board: 0.03 * 361 / num_points, AlphaGo Zero's 0.03 on 19x19. (Of
    num_points = 362, which counts the pass, 0.0299.)"""
    return 0.03 * 361 / num_points
