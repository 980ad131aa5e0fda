"""Searches made step by step from the host, their evaluations by other programs, or by the host.

A search's begin and its step are two programs each (`compile.apart`): up to where they evaluate
positions, and on from there.
"""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.compile import executables, stages
from gozero.compile.apart import InTwo
from gozero.search import root
from gozero.search import search as pieces
from gozero.search.config import SearchConfig
from gozero.search.evaluate import (
    Elsewhere,
    Judged,
    check_evaluation,
    evaluation_of,
    filled_up,
    judge,
)
from gozero.search.game import (
    Evaluate,
    Evaluation,
    Evaluator,
    Game,
    Heuristic,
    History,
    Trail,
    history_of,
)
from gozero.search.prior_counts import WithHeuristic, together
from gozero.search.search import Running, SearchResult
from gozero.search.tree import Tree


class Apart:
    """The pieces of a search whose positions other programs judge and evaluate, called by the host.

    These are compiled once for the roots and the leaves, and all programs at the same time: for
    rules and an evaluator that take long to compile, and steps that are worth the calls. The roots
    are filled up to as many positions as a step evaluates.

    Args:
      game, evaluator, config: as `search` has them.
      params: of the evaluator.

    Raises:
      ValueError: a search that `check` refuses.
    """

    def __init__(self, game: Game, evaluator: Evaluator, config: SearchConfig, params: Any):
        check(config)
        self._config, prepared = config, functools.partial(_prepared, evaluator)
        self._history = history_of(game, evaluator.observe)
        self._prepared = executables.jit(prepared) if evaluator.prepare else lambda params: params
        self._programs = programs = _programs(game, evaluator)
        types_of = functools.partial(_types_said, *programs, jax.eval_shape(prepared, params))
        self._begin, self._step = _halves(game, config, _elsewhere, types_of, config.leaves)
        self._is_open = executables.jit(functools.partial(_is_open, config))
        self._judges_asked = False
        self._beside = concurrent.futures.ThreadPoolExecutor(1)

    def begin(self, params, key, states, tree) -> Running:
        after = self._begin.after(tree, key, states)
        asked, kept = self._begin.before(tree, key, states)
        said = _said(*self._programs, self._prepared(params), asked)
        self._judges_asked = said[1].positions is None  # else what the evaluator changed them to
        return after(*kept, said)

    def advance(self, running: Running, params, num_steps, last_step) -> Running:
        params, early = self._prepared(params), self._config.early_stop
        begun, programs = int(running.steps), tuple(self._programs)
        before: Callable = self._step.before
        after: Callable = self._step.after(running)
        for i in range(begun, min(begun + int(num_steps), int(last_step))):
            if early and not self._is_open(running.tree, np.int32(last_step - i)):
                break
            asked, kept = before(given := running)
            said = self._said_at_once(*programs, params, asked)
            running = after(*kept, said)
            if i == begun:  # all further calls are of the same types
                before, after = before.again(given), after.again(*kept, said)
                programs = _again(*programs, params, asked)
        return running

    def _said_at_once(self, judging, evaluating, heuristic, params: Any, asked: tuple) -> tuple:
        """As `_said`; what does not wait for the evaluation is found out while that is made."""
        waiting = self._beside.submit(evaluating, params, *asked)
        own = None if heuristic is None else heuristic(params, *asked)
        judged = judging(*asked[1:]) if self._judges_asked else None
        said = waiting.result()
        return judged or judging(asked[1], said.positions, asked[3]), said, own

    def _types_asked(self, key: jax.Array, states: Any) -> tuple:
        """The types of (key, contexts, positions, trail) of a step: known before it is traced."""
        times, plies = self._config.leaves, self._config.path_limit

        def asked(key, states):
            contexts, roots = jax.vmap(self._history.root)(states)
            contexts, roots = jax.tree.map(
                lambda x: jnp.repeat(x, times, axis=0), (contexts, roots)
            )
            along = jax.tree.map(lambda x: jnp.repeat(x[:, None], plies, axis=1), roots)
            length = jnp.zeros(jax.tree.leaves(along)[0].shape[0], jnp.int32)
            return key, contexts, roots, Trail(along, length)

        return jax.eval_shape(asked, key, states)

    def prepare(self, finish: executables.Kept, params, key, states, tree) -> None:
        """As `runner.Whole.prepare`; the evaluator is begun with."""
        given = tree, key, states
        if not self._begin.before.is_missing(*given):
            return
        params = jax.eval_shape(self._prepared, params)
        judging, evaluating, heuristic = self._programs
        asked = self._types_asked(key, states)
        # XLA compiles the most of a program on one core: two at once, the longest first.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(evaluating.prepare, params, *asked)]
            _, kept = jax.eval_shape(self._begin.before.traced, *given)
            after, said = self._begin.after(*given), _types_said(*self._programs, params, asked)
            running = jax.eval_shape(after.traced, *kept, said)
            waiting.append(pool.submit(self._step.before.prepare, running))
            if heuristic is not None:
                waiting.append(pool.submit(heuristic.prepare, params, *asked))
            waiting.append(pool.submit(judging.prepare, *asked[1:]))
            _, kept_of_step = jax.eval_shape(self._step.before.traced, running)
            after_step = self._step.after(running)
            waiting.append(pool.submit(after_step.prepare, *kept_of_step, said))
            waiting.append(pool.submit(after.prepare, *kept, said))
            waiting.append(pool.submit(self._begin.before.prepare, *given))
            rest = running.tree, running._replace(tree=None)
            waiting.append(pool.submit(finish.prepare, *rest))
            for one in waiting:
                one.result()


def misfit(config: SearchConfig) -> str | None:
    """Why a search is not made step by step from the host: transpositions, trees that exchange what
    they find, `prune` where trees fill up. None: it can be."""
    for name in ("ensemble", "transpositions"):
        if getattr(config, name):
            return f"{name}: such a search is not made step by step"
    if config.prune and config.overflows:
        return "prune: a search step by step prunes no trees; give it capacity"
    return None


def check(config: SearchConfig) -> None:
    """Raises:
    ValueError: a search that is a `misfit`.
    """
    if (why := misfit(config)) is not None:
        raise ValueError(why)


def _halves(
    game: Game,
    config: SearchConfig,
    asking: Callable[[Callable], Any],
    types_of: Callable,
    times: int = 1,
) -> tuple[InTwo, InTwo]:
    """``begin(tree, key, states)`` and ``step(running)``, each cut where it evaluates.

    Args:
      game, config: as `search` has them.
      asking: (ask) -> what is in the place of the evaluator, and asks.
      types_of: see `InTwo`.
      times: of roots, so many times as many as there are are asked for.
    """
    begin = functools.partial(_begin, game, config, asking, times)
    step = functools.partial(_step, game, config, asking)
    begin = InTwo(begin, types_of, True, stages.seldom_options)
    return begin, InTwo(step, types_of, True, stages.soon_options)


def _begin(game: Game, config: SearchConfig, asking, times: int, ask, tree, key, states) -> Running:
    def ask_of_more(question):
        key, *rest = question
        (count,) = {len(x) for x in jax.tree.leaves(rest)}
        more = jax.tree.map(lambda x: filled_up(x, (times - 1) * count), rest)
        return jax.tree.map(lambda x: x[:count], ask((key, *more)))

    return pieces.begin(game, asking(ask_of_more), key, states, config, tree)


def _step(game: Game, config: SearchConfig, asking, ask, running: Running) -> Running:
    evaluator, steps = asking(ask), running.steps + 1
    history = history_of(game, evaluator.observe)
    key = jax.random.fold_in(running.evaluation_key, steps)
    given = key, running.contexts, config, running.draws, running.tree, running.ok
    tree, ok = pieces.simulate_of(config)(history, evaluator, *given)
    return running._replace(tree=tree, ok=ok, steps=steps)


def _elsewhere(ask: Callable) -> Elsewhere:
    def say(*question: Any) -> tuple[Judged, Evaluation]:
        judged, said, heuristic = ask(question)
        return judged, said if heuristic is None else together(heuristic, said)

    return Elsewhere(say)


def _by_observations(observe: Callable | None, ask: Callable) -> Evaluator:
    return Evaluator(lambda params, *question: ask(question), observe=observe)


class _Programs(NamedTuple):
    """What is said of (key, contexts, positions, trail); all but the first take parameters too."""

    judge: executables.Kept
    evaluate: executables.Kept
    heuristic: executables.Kept | None


def _programs(game: Game, evaluator: Evaluator) -> _Programs:
    """A heuristic beside the evaluator is a program by itself."""
    history, evaluate, heuristic = history_of(game, evaluator.observe), evaluator.evaluate, None
    if isinstance(evaluate, WithHeuristic):
        own = functools.partial(_heuristic, history, evaluate.heuristic)
        deep = functools.partial(stages.soon_options, fuses_deeply=True)
        heuristic, evaluate = executables.jit(own, compiler_options=deep), evaluate.evaluate
    judging = functools.partial(judge, history)
    evaluating = functools.partial(_evaluate, history, evaluate, heuristic is not None)
    judging = executables.jit(judging, compiler_options=stages.seldom_options)
    evaluating = executables.jit(evaluating, compiler_options=stages.soon_options)
    return _Programs(judging, evaluating, heuristic)


def _said(judging, evaluating, heuristic, params: Any, asked: tuple) -> tuple:
    """(`Judged`, `Evaluation`, `Heuristic` or None) of (key, contexts, positions, trail)."""
    said = evaluating(params, *asked)
    own = None if heuristic is None else heuristic(params, *asked)
    kept = asked[2] if said.positions is None else said.positions
    return judging(asked[1], kept, asked[3]), said, own


def _again(judging, evaluating, heuristic, params: Any, asked: tuple) -> tuple:
    """The programs for such arguments; see `executables.Kept.again`."""
    all_of = params, *asked
    heuristic = None if heuristic is None else heuristic.again(*all_of)
    return judging.again(*asked[1:]), evaluating.again(*all_of), heuristic


def _types_said(judging, evaluating, heuristic, params: Any, asked: tuple) -> tuple:
    jitted = [None if x is None else x.traced for x in (judging, evaluating, heuristic)]
    return jax.eval_shape(functools.partial(_said, *jitted), params, asked)


def _evaluate(history: History, evaluate: Evaluate, second: bool, params, key, *positions):
    """The evaluation of (contexts, positions, trail); by the second of the two halves of a key."""
    key = jax.random.split(key)[1] if second else key
    return evaluation_of(history, Evaluator(evaluate, params), key, *positions)


def _heuristic(history: History, heuristic: Callable, params, key, *positions: Any) -> Heuristic:
    own = jax.vmap(history.observe)(*positions)
    return heuristic(params, jax.random.split(key)[0], own)


def _prepared(evaluator: Evaluator, params: Any) -> Any:
    return evaluator._replace(params=params).prepared().params


def _is_open(config: SearchConfig, tree: Tree, steps: jax.Array) -> jax.Array:
    """bool[]: whether so many steps more could change a tree's choice."""
    return ~jnp.all(root.decided(tree, steps * config.leaves))


class Overlapped:
    """Searches whose evaluator is a function of the host, two or more groups of games by turns.

    While a group waits for its evaluations (a network on another device, a server) the trees of the
    others are worked on: a step of all takes as long as the slower of both, and not the sum.

    Args:
      game, config: as `search` has them.
      evaluate: ``observations[M] -> Evaluation[M]``, of any arrays, without a heuristic and
        without positions; called in threads, for each group by itself.
      groups: of equal size.
      observe: as `Evaluator.observe`.

    Raises:
      ValueError: `early_stop`, or a config that `check` refuses.
    """

    def __init__(
        self,
        game: Game,
        evaluate: Callable[[Any], Evaluation],
        config: SearchConfig,
        groups: int = 2,
        observe: Callable | None = None,
    ):
        if not isinstance(groups, int) or groups < 1:
            raise ValueError(f"groups: {groups!r} is not a whole number of at least 1")
        check(config)
        if config.early_stop:
            raise ValueError("early_stop: a search by turns makes all of its simulations")
        self.config, self.groups, self._evaluate = config, groups, evaluate
        self._types_of = functools.partial(_said_by_host, game.num_actions, config.amaf is not None)
        asking = functools.partial(_by_observations, observe)
        self._begin, self._step = _halves(game, config, asking, self._types_of)
        self._finish = jax.jit(lambda running: pieces.finish(running, config))

    def search(self, key: jax.Array, states: Any) -> SearchResult:
        """What `search` finds of each group, with the key ``fold_in(key, number of the group)``.

        Raises:
          ValueError: games that cannot be divided evenly; evaluations of other shapes.
        """
        (count,) = {len(x) for x in jax.tree.leaves(states)}
        if count % self.groups:
            raise ValueError(f"states: {count} games cannot be divided into {self.groups} groups")
        share, steps = count // self.groups, self.config.num_simulations // self.config.leaves
        numbers = range(self.groups)
        part = lambda g: jax.tree.map(lambda x: x[g * share :][:share], states)
        with concurrent.futures.ThreadPoolExecutor(self.groups) as pool:

            def ask(half: InTwo, *given: Any) -> Callable[[], Running]:
                """Have a group's positions evaluated; what waits for that, and goes on."""
                after = half.after(*given)
                asked, kept = half.before(*given)
                waiting = pool.submit(self._said, asked)
                return lambda: after(*kept, waiting.result())

            keys = [jax.random.fold_in(key, g) for g in numbers]
            going = [ask(self._begin, None, keys[g], part(g)) for g in numbers]
            for _ in range(steps):
                for g in numbers:
                    going[g] = ask(self._step, going[g]())
            results = [self._finish(one()) for one in going]
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *results)

    def _said(self, asked: Any) -> Evaluation:
        """The host's evaluation of (key, observations), of the types that the programs take."""
        types, said = self._types_of(asked), self._evaluate(asked[1])
        if types.first_play is not None and said.first_play is None:
            said = said._replace(first_play=np.zeros(types.first_play.shape, bool))
        check_evaluation(said, types.prior_logits.shape)
        return jax.tree.map(lambda x, like: jnp.asarray(x, like.dtype), said, types)


def _said_by_host(num_actions: int, first_plays: bool, asked: Any) -> Evaluation:
    """The types of evaluations of (key, observations)."""
    count = len(jax.tree.leaves(asked[1])[0])
    logits, value = jnp.zeros((count, num_actions)), jnp.zeros(count)
    played = jnp.zeros((count, 2, num_actions), bool) if first_plays else None
    return jax.eval_shape(lambda: Evaluation(logits, value, played))
