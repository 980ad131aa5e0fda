"""Search B trees in lockstep: select, expand, evaluate, back up.

This file is the batch boundary: the game and the selection rules are written for one game, the
functions here have a leading axis B and are never vmapped.

A rule's choice at a node changes only when a value is backed up through the node. So the choice is
made during the backup and stored in the tree; a descent follows the stored choices and reads one
number per level.

How the loop updates the trees in place (invariant 2 in CONTRIBUTING.md): no loop carries a tree
under a batched predicate. A descent reads the tree and carries only node indices and the path; a
step then writes each array once, at rows that depend on what was read, so that XLA has no reason to
keep the old copy.

On a TPU, small trees are converted to a layout in vector lanes while they are searched, see
`lanes`.

A search can be run in chunks: `begin`, `advance` any number of times, `finish`; `search` runs all
of them. `runner.Runner` does so from the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import mode, stages
from gozero.search import ensemble, expand, lanes, leaves, reuse, root, rows, transpositions
from gozero.search.choose import Draws
from gozero.search.config import Ensemble, SearchConfig
from gozero.search.evaluate import Evaluated, check_evaluator, evaluate_positions, with_utility
from gozero.search.game import Evaluator, Game, History, check_game, history_of
from gozero.search.memory import optional_arrays
from gozero.search.select import find_leaf
from gozero.search.tree import Tree
from gozero.search.values import Wide


class SearchResult(NamedTuple):
    """The result of searching B games; q and value are for the player to move at the root."""

    action: jax.Array  # i32[B]; undefined where no action is legal
    visits: jax.Array  # i32[B, A]: simulations through each action, also those of a reused tree
    q: jax.Array  # f32[B, A] in [-1, 1]; 0 where not visited
    policy_target: jax.Array  # f32[B, A]: the shares of the visits, or the root rule's improved
    # policy; the prior where there are no visits
    value: jax.Array  # f32[B]: mean of the root's evaluation and all simulations; the operator's
    # value with `SearchConfig.backup`, and exact where the root is proven (`SearchConfig.prove`)
    ok: jax.Array  # bool[B]: every evaluation was finite, with values within [-1, 1] (also those of
    # a heuristic, where they count, and results of finished games), a heuristic's counts were in
    # range (`SearchConfig.counts_left`), every unfinished position had a legal action,
    # a tree given to continue from had the game's own root, and the scores that a plain function
    # as a rule gives the root's legal actions are numbers
    tree: Any  # a `Tree` of B trees; of B K with `SearchConfig.ensemble`, those of one game next to
    # each other; None with keep_tree=False
    simulations: jax.Array | None = None  # i32[B]: done by this search; see `early_stop`
    evaluations: jax.Array | None = None  # i32[B]: the simulations for which the evaluator was
    # called; the others shared an evaluation (`SearchConfig.transpositions`). Without it, None
    proven: jax.Array | None = None  # i8[B]: the root's result, see `proofs`; with `prove`
    prior: jax.Array | None = None  # f32[B, A]: the root's, with any noise; -inf where illegal
    raw_value: jax.Array | None = None  # f32[B]: the evaluator's value of the root; of a reused
    # root, the one from when it was a leaf. None for an ensemble


class Running(NamedTuple):
    """The state of an unfinished search."""

    tree: Any  # a `Tree`; `lanes.LaneTrees` after the last steps of a search that keeps no tree
    ok: jax.Array  # bool[B]: as in `SearchResult`, so far
    contexts: Any  # [B]: of the games, see `game.History`
    draws: Draws
    choice_key: jax.Array  # PRNG key for drawing the final action
    evaluation_key: jax.Array  # PRNG key for the evaluator: 0 is folded in for the roots, then the
    # number of the step, from 1
    steps: jax.Array  # i32[]: steps done; each is `SearchConfig.leaves` simulations of every tree


def search(
    game: Game,
    evaluator: Evaluator,
    key: jax.Array,
    states: Any,
    config: SearchConfig,
    tree: Tree | None = None,
    keep_tree: bool = True,
) -> SearchResult:
    """Monte-Carlo tree search of B games in lockstep. Call it under ``jax.jit``.

    It has a batch axis of its own and cannot be mapped by ``vmap``: reshape [S, B, ...] to
    [S * B, ...]. Values are sums of integers, so gradients through a search are 0.

    Args:
      game: the game; static.
      evaluator: how positions are evaluated; its functions are static, its `params` arrays.
      key: PRNG key for noise, ties, the drawn action, and the evaluator.
      states: the games to search, with a leading axis [B].
      config: static settings.
      tree: trees of the same states to continue from: those of the last move's result, after
        `reuse.reroot`; None to start afresh. Their visits count in `visits`, `q`, `value` and
        `policy_target`. Empty trees (size 0) are initialised; of each of the others, at most
        `config.num_kept` nodes are kept. The roots are evaluated again, for priors without the old
        noise, and get new noise. `reuse.empty` makes trees for a first move, so that all moves use
        one compiled search.
      keep_tree: whether the result includes the trees. (If not, a TPU need not convert them back
        from the layout in which it searches them, which saves a good part of the compile time.)

    Returns:
      A `SearchResult`. A game that is over at its root has no visits. A tree whose root is not the
      given position is rebuilt from scratch, and its `ok` is False.

    Raises:
      TypeError: the game is not a `Game`, the config not a `SearchConfig`, or the evaluator not an
        `Evaluator`, or it does not return an `Evaluation`.
      ValueError: it is mapped by ``vmap``; states without a common leading axis; functions of the
        game that do not fit (`game.check_game`); an evaluation, or scores of a rule, of the wrong
        shape; a tree of another batch size, capacity or game; features that cannot be combined
        (`config.CONFLICTS`).
    """
    check_evaluator(evaluator)
    if not isinstance(config, SearchConfig):
        raise TypeError(
            f"config: expected a SearchConfig, not a {type(config).__name__}; pass "
            "gozero.SearchConfig(num_simulations=...)"
        )
    evaluator = evaluator.prepared()
    begun = begin(game, evaluator, key, states, config, tree)
    if config.sharing is not None:
        running, evaluations = transpositions.simulate(
            history_of(game, evaluator.observe), evaluator, config, begun, tree is None
        )
        result = finish(running, config)._replace(evaluations=evaluations)
    else:
        running = advance(game, evaluator, begun, config, keep_tree=False)
        result = finish(running, config)
    if not keep_tree:
        return result._replace(tree=None)
    if isinstance(running.tree, lanes.LaneTrees):  # the only use of their rows
        return result._replace(tree=lanes.in_rows(running.tree, begun.tree))
    return result


def begin(
    game: Game,
    evaluator: Evaluator,
    key: jax.Array,
    states: Any,
    config: SearchConfig,
    tree: Tree | None = None,
    gumbel: jax.Array | None = None,
) -> Running:
    """The beginning of a `search`, with the same arguments: evaluate and write the roots.

    `gumbel`, f32[B, A], are Gumbel(0, 1) samples for the root's rule; None: drawn from the key.
    """
    evaluator = evaluator.prepared()
    contexts, roots = _roots(game, states)
    key, contexts, roots = _not_mapped(key, contexts, roots)
    config.check_with(tree=tree is not None)
    group, num_games = config.ensemble or Ensemble(1), jax.tree.leaves(roots)[0].shape[0]
    if config.ensemble is not None:
        contexts, roots = group.own_copies((contexts, roots))
    if tree is not None:
        _check_tree(tree, game, roots, config)
    noise_key, choice_key, tie_key, evaluation_key = stages.split_key(key, 4)
    noise_key, gumbel_key = stages.split_key(noise_key, 2)
    num_trees = jax.tree.leaves(roots)[0].shape[0]
    draws = Draws(
        tie_seeds=_own_tie_seeds(tie_key, num_games, group),
        gumbel=root.gumbel(gumbel_key, num_trees, game.num_actions) if gumbel is None else gumbel,
    )

    root_key = jax.random.fold_in(group.own_key(evaluation_key), 0)
    history = history_of(game, evaluator.observe)
    evaluated = root.evaluate_roots(
        history, evaluator, root_key, group.own_key(noise_key), contexts, roots, config
    )
    if evaluated.positions is not None:
        roots = evaluated.positions
    evaluated, draws = _with_utility(evaluated, draws, config)
    ok, heuristic = evaluated.ok, evaluated.heuristic
    has_visits = heuristic is not None and heuristic.visits is not None
    counts = has_visits or config.amaf is not None
    if heuristic is not None and heuristic.amaf_visits is not None and not counts:
        raise ValueError(
            "amaf: None, but the evaluator's heuristic has all-moves-as-first values, which would "
            "not count; set amaf=Amaf() and a rule that uses them, such as Rave()"
        )
    config.check_with(tree is not None, heuristic is not None, has_visits)
    if tree is None:
        optional = optional_arrays(config, has_visits)
        tree = root.new_trees(optional, evaluated, roots, config, draws)
    else:
        if has_visits and tree.prior_counts is None:
            raise ValueError(
                "tree: it has no arrays for the visits of the evaluator's heuristic; create it "
                "with prior_counts=True, an argument of reuse.empty and of SelfPlayConfig"
            )
        fitted, is_same_root = reuse.fit(tree, roots, config)
        tree = reuse.refresh_root(fitted, evaluated, roots, config, draws)
        ok &= is_same_root
    steps: Any = np.int32(0)  # static, so that a search in one chunk has loops of known length
    return Running(tree, ok, contexts, draws, choice_key, evaluation_key, steps)


def _own_tie_seeds(key: jax.Array, num_games: int, group: Ensemble) -> jax.Array:
    """u32[B K]: the device's own trees' part of the seeds of all trees."""
    seeds = jax.random.bits(key, (num_games * group.trees,), jnp.uint32)
    if group.devices == 1:
        return seeds
    by_device = seeds.reshape(num_games, group.devices, group.own_trees)
    return lax.dynamic_index_in_dim(by_device, group.device(), 1, keepdims=False).reshape(-1)


def _with_utility(
    evaluated: Evaluated, draws: Draws, config: SearchConfig
) -> tuple[Evaluated, Draws]:
    """Roots with score utilities, if a rule needs them, and their centers for the whole search."""
    utility = config.score_utility
    if utility is None:
        return evaluated, draws
    if evaluated.score is None:
        raise ValueError(
            "select: the rule needs scores, but the evaluator returns none (`Evaluation.score`)"
        )
    center = utility.center(evaluated.score[:, 0])
    plies = jnp.zeros(center.shape, jnp.int32)
    return with_utility(evaluated, utility, center, plies), draws._replace(score_center=center)


def advance(
    game: Game,
    evaluator: Evaluator,
    running: Running,
    config: SearchConfig,
    num_steps: int | jax.Array | None = None,
    last_step: int | jax.Array | None = None,
    keep_tree: bool = True,
) -> Running:
    """Run more steps of a search, each of `config.leaves` simulations of every tree.

    The result does not depend on how a search is cut into chunks.

    Args:
      game, evaluator, config: as given to `begin`.
      running: the search.
      num_steps: how many steps, i32[] or a number; None: all that are left.
      last_step: the number of steps of the whole search, if fewer than the config's;
        `config.early_stop` assumes this number. i32[] or a number.
      keep_tree: False for the last steps of a search whose trees are not needed: see `search`.

    Returns:
      The search with more `steps` done: fewer than `num_steps` if it reached its last step or
      stopped early.

    Raises:
      ValueError: with transpositions, whose trees are at different simulations.
    """
    if config.sharing is not None:
        raise ValueError("transpositions: such a search cannot run in chunks; call `search`")
    evaluator = evaluator.prepared()
    last: Any = config.num_simulations // config.leaves
    if last_step is not None:
        last = jnp.minimum(last_step, last)
    end = last if num_steps is None else jnp.minimum(running.steps + num_steps, last)
    history, draws, group = history_of(game, evaluator.observe), running.draws, config.ensemble
    start, carry = running.steps, (running.tree, running.ok)
    simulate_step = _step_of(history, evaluator, running, config)
    steps = end if num_steps is None and last_step is None else jnp.maximum(start, end)
    is_open = lambda tree, i: ~jnp.all(root.decided(tree, (last - i) * config.leaves))
    is_open = is_open if config.early_stop else lambda tree, i: jnp.bool_(True)
    if config.overflows and config.prune:
        steps, carry = _while_pruned(start, end, simulate_step, carry, is_open, config)
    elif lanes.fit(running.tree, config):
        carry = _in_lanes(history, evaluator, running, config, start, end)
        if keep_tree:
            carry = lanes.in_rows(carry[0], running.tree), carry[1]
    elif config.early_stop:
        steps, carry = _while_open(start, end, simulate_step, carry, is_open)
    elif group is not None and group.every is not None:
        every, exchange = group.every // config.leaves, functools.partial(_exchange, config, draws)
        carry = ensemble.by_turns(start, end, every, simulate_step, exchange, carry)
    else:
        carry = lax.fori_loop(start, end, simulate_step, carry)
    return running._replace(tree=carry[0], ok=carry[1], steps=jnp.asarray(steps, jnp.int32))


def _step_of(
    history: History, evaluator: Evaluator, running: Running, config: SearchConfig
) -> Callable[[jax.Array, Any], Any]:
    """One step of a search as a loop body, (i, (tree, ok)) -> (tree, ok)."""
    group, key = config.ensemble or Ensemble(1), running.evaluation_key
    constants = group.own_key(key), evaluator.params, running.contexts, running.draws

    def step(carry, i, constants):
        key, params, contexts, draws = constants
        with_params, key = evaluator._replace(params=params), jax.random.fold_in(key, i + 1)
        return simulate_of(config)(history, with_params, key, contexts, config, draws, *carry)

    if any(jnp.ndim(x) > 1 for x in jax.tree.leaves(evaluator.params)):
        # A network, which a kernel cannot contain: this avoids tracing it twice to find that out.
        # (Local shapes, whose table has one axis, are traced twice.)
        return lambda i, carry: step(carry, i, constants)
    # Once, not in each step.
    hide = lambda constants: stages.not_constant(constants, running.tree.visits)
    constants = mode.by_platform(constants, cpu=hide, default=lambda constants: constants)
    reduced = _reduced(running.tree, config.leaves)
    return lambda i, carry: stages.step_kernel(step, carry, i, constants, reduced=reduced)


def _reduced(tree: Tree, leaves: int = 1) -> int:
    """The size of the largest array that a step reduces, over new nodes and their parents."""
    return (1 if tree.is_dense else 2) * leaves * tree.num_trees * (tree.num_actions + 1)


def simulate_of(config: SearchConfig) -> Callable[..., tuple[Tree, jax.Array]]:
    """The step function: `simulate`, or `leaves.simulate` for several leaves a step."""
    return simulate if config.leaves == 1 else leaves.simulate


def simulate(
    game: History,
    evaluator: Evaluator,
    key: jax.Array,
    contexts: Any,
    config: SearchConfig,
    draws: Draws,
    tree: Tree,
    ok: jax.Array,
) -> tuple[Tree, jax.Array]:
    """One simulation of each tree; `leaves.simulate` makes several in one step.

    Where no node may be added, the path ends at an existing node, which is evaluated again, and its
    value is backed up once more.

    Args:
      game, evaluator, config: static, except for the evaluator's `params`.
      key: PRNG key of the evaluator.
      contexts: of the games, [B].
      draws: the random draws of this search.
      tree, ok: the trees and flags so far.
    """

    def find(tree, tie_seeds):
        return find_leaf(tree, config, tie_seeds)

    def add(tree_and_leaf, positions, evaluated, draws):
        tree, leaf = tree_and_leaf
        return expand.add_leaf(tree, leaf, positions, evaluated, config, draws)

    leaf = _as_kernel(find, config, tree, tree, draws.tie_seeds)
    ancestors, positions = expand.new_positions(game, tree, leaf, config)
    evaluated = evaluate_positions(
        game, evaluator, key, contexts, positions, ancestors, config.counts_left
    )
    center, plies = draws.score_center, ancestors.length
    evaluated = with_utility(evaluated, config.score_utility, center, plies)
    grown = _as_kernel(add, config, tree, (tree, leaf), positions, evaluated, draws)
    return grown, ok & evaluated.ok


def _as_kernel(stage: Callable, config: SearchConfig, tree: Tree, first: Any, *args: Any) -> Any:
    """``stage(first, *args)``, compiled as one kernel on a CPU if the trees are few.

    Either both stages are kernels or neither is: otherwise XLA copies the arrays that one reads and
    the other writes. Neither is with a root rule, which may sort, with `Amaf.ancestor`, which does
    sort, or with `Amaf.legal_only`, which scatters.
    """
    amaf = config.amaf
    if config.root_select or (amaf and (amaf.legal_only or amaf.ancestor)):
        return stage(first, *args)
    return stages.step_kernel(stage, first, *args, word=tree.visits, reduced=_reduced(tree))


def _in_lanes(
    history: History,
    evaluator: Evaluator,
    running: Running,
    config: SearchConfig,
    start: jax.Array,
    end: jax.Array | int,
) -> tuple[Any, jax.Array]:
    """(trees in lanes, ok) after steps `start` to `end`, without `end`."""

    def step(i, carry):
        key = jax.random.fold_in(running.evaluation_key, i + 1)
        inputs = history, evaluator, key, running.contexts, config, running.draws
        return lanes.simulate(*inputs, running.tree, i, *carry)

    carry = lanes.in_lanes(running.tree), running.ok
    return lax.fori_loop(start, end, step, carry)


def _while_open(
    start: jax.Array,
    end: jax.Array | int,
    simulate: Callable[[jax.Array, Any], Any],
    carry: Any,
    is_open: Callable[[Tree, jax.Array], jax.Array],
) -> tuple[jax.Array, Any]:
    """``fori_loop(start, end, simulate, carry)`` that ends as soon as `is_open` is False.

    Args:
      start, end: i32[].
      simulate: (i, carry) -> carry.
      carry: its first element are the trees.
      is_open: (tree, i) -> bool[]: whether to do step i. One value for all trees: a loop must
        not carry a tree under a batched predicate.

    Returns:
      (the first step that was not done, carry). Trip bound: end - start.
    """

    def step(state):
        i, _, carry = state
        carry = simulate(i, carry)
        return i + 1, is_open(carry[0], i + 1), carry

    start = jnp.asarray(start, jnp.int32)
    state = start, is_open(carry[0], start), carry
    i, _, carry = lax.while_loop(lambda state: (state[0] < end) & state[1], step, state)
    return i, carry


def _while_pruned(
    start: jax.Array,
    end: jax.Array | int,
    simulate: Callable[[jax.Array, Any], Any],
    carry: Any,
    is_open: Callable[[Tree, jax.Array], jax.Array],
    config: SearchConfig,
) -> tuple[jax.Array, Any]:
    """`_while_open`, pruning trees without room for a step before that step.

    Trees are pruned between steps, not within them: a step carries no tree under a predicate. Trip
    bound: end - start.
    """
    open_with_room = lambda tree, i: is_open(tree, i) & jnp.all(reuse.has_room(tree, config))

    def until_full(state):
        i, _, (tree, *others) = state
        tree = reuse.make_room(tree, config)
        i, carry = _while_open(i, end, simulate, (tree, *others), open_with_room)
        return i, is_open(carry[0], i), carry

    start = jnp.asarray(start, jnp.int32)
    state = start, is_open(carry[0], start), carry
    i, _, carry = lax.while_loop(lambda state: (state[0] < end) & state[1], until_full, state)
    return i, carry


def _exchange(config: SearchConfig, draws: Draws, tree: Tree, is_due: jax.Array) -> Tree:
    """If due, the trees of each game exchange their statistics, and the nodes choose again."""
    assert config.ensemble is not None
    exchanged = ensemble.exchange(tree, config.ensemble, is_due)
    return expand.choose_at(exchanged.tree, exchanged.nodes, exchanged.count, config, draws)


def finish(running: Running, config: SearchConfig) -> SearchResult:
    """The result of a search so far; its tree becomes the result's."""
    tree, draws, group = running.tree, running.draws, config.ensemble
    simulations, ok, gumbel = running.steps * config.leaves, running.ok, draws.gumbel
    if isinstance(tree, Tree):
        ok &= root.have_scores(tree, config)
    if isinstance(tree, lanes.LaneTrees):
        edges = lanes.root_actions(tree).edges
        value, proven = edges.value, None
    elif group is None:
        edges, value, proven = root.result(tree)
    else:
        edges, value, proven = ensemble.merged_roots(tree, group)
        simulations, gumbel = simulations * group.trees, gumbel[:: group.own_trees]
        ok = jnp.all(ok.reshape(-1, group.own_trees), axis=1)
        ok = group.total((~ok).astype(jnp.int32)) == 0
    keys = jax.random.split(running.choice_key, ok.shape[0])
    final_edges = target_edges = edges
    has_utility = config.score_utility is not None
    if (config.final_move == "eval" or has_utility) and isinstance(tree, Tree):
        seen = root.evaluated_edges(tree)
        if config.final_move == "eval" or config.plays_by_rule:
            final_edges = seen
        if has_utility:  # as the rule of the target has seen them
            target_edges = edges._replace(q=seen.q, value=seen.value, raw_value=seen.raw_value)
    return SearchResult(
        action=jax.vmap(functools.partial(root.final_action, config))(keys, final_edges, gumbel),
        visits=edges.visits,
        q=edges.q,
        policy_target=jax.vmap(functools.partial(root.policy_target, config))(target_edges),
        value=value,
        ok=ok,
        tree=tree if isinstance(tree, Tree) else None,
        simulations=jnp.broadcast_to(jnp.asarray(simulations, jnp.int32), ok.shape),
        proven=proven,
        prior=edges.prior,
        raw_value=edges.raw_value,
    )


@jax.custom_batching.custom_vmap
def _not_mapped(*arguments: Any) -> tuple:
    """Its arguments. A search that is mapped would compile for minutes, then fail inside XLA."""
    return arguments


@_not_mapped.def_vmap
def _refuse_to_map(axis_size: int, in_batched: list, *arguments: Any) -> Any:
    raise ValueError(
        "search: it has a batch axis of its own and cannot be mapped by vmap; reshape states "
        "[S, B, ...] to [S * B, ...]"
    )


def _roots(game: Game, states: Any) -> tuple[Any, Any]:
    """(contexts, positions) of states, with a leading axis [B].

    Raises:
      ValueError: states without a common leading axis, or as `check_game`.
    """
    batch_of(states)
    check_game(game, states)
    return jax.vmap(history_of(game).root)(states)


def batch_of(states: Any) -> int:
    """B of states with a leading axis [B].

    Raises:
      ValueError: they have no common one, or it is 0.
    """
    sizes = {jnp.shape(x)[:1] for x in jax.tree.leaves(states)}
    if len(sizes) != 1 or () in sizes:
        raise ValueError(
            f"states: their leading axes are {sorted(sizes)}; give every leaf the same [B], which "
            "is [1] for a single game"
        )
    if sizes == {(0,)}:
        raise ValueError("states: an empty batch; give at least one game")
    return sizes.pop()[0]


def _check_tree(tree: Tree, game: Game, roots: Any, config: SearchConfig) -> None:
    num_trees = jax.tree.leaves(roots)[0].shape[0]
    properties = {
        "capacity": (tree.capacity, config.num_nodes),
        "num_actions": (tree.num_actions, game.num_actions),
        "batch": (tree.num_trees, num_trees),
        "all-moves-as-first": (tree.amaf is not None, config.amaf is not None),
        "squares": (tree.squares is not None, config.keeps_squares),
        "scores": (tree.scores is not None, config.score_utility is not None),
        "transpositions": (tree.shared is not None, config.sharing is not None),
        "backup": (tree.backup_value is not None, config.backup is not None),
        "prove": (tree.proven is not None, config.prove),
        "ensemble": (tree.last_sync is not None, config.ensemble is not None),
        "wide sums": (isinstance(tree.value_sum, Wide), config.wide),
    }
    if tree.codec != rows.codec_of(roots):
        raise ValueError(
            "tree: its positions are not those of this game; reuse.empty takes "
            "game.positions_of(game, states), not states"
        )
    for name, (actual, needed) in properties.items():
        if actual != needed:
            raise ValueError(f"tree: its {name} is {actual}; this search needs {needed}")
