"""Searches driven step by step from the host, with evaluations by other programs or by the host.

The begin and the step of a search are two programs each (`compile.split`): one up to the
evaluation of positions, and one from there on.
"""

from __future__ import annotations

import concurrent.futures
import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.compile import executables, stages
from gozero.compile.split import Halves, Leaves, SplitFunction, TrimmedProgram
from gozero.search import root
from gozero.search import search as searching
from gozero.search.config import SearchConfig
from gozero.search.evaluate import (
    ExternalEvaluator,
    RulesResult,
    apply_rules,
    check_evaluation,
    evaluation_of,
    pad,
)
from gozero.search.game import (
    Ancestors,
    Evaluate,
    Evaluation,
    Evaluator,
    Game,
    Heuristic,
    History,
    history_of,
)
from gozero.search.prior_counts import WithHeuristic, add_heuristic
from gozero.search.search import Running, SearchResult
from gozero.search.tree import Tree


class SeparatePrograms:
    """A search in which other programs apply the rules and evaluate positions.

    The host calls these programs. They are compiled only once for roots and leaves, and all
    programs are compiled at the same time. This is for rules and evaluators that take long to
    compile, and for steps long enough to make up for the calls. The roots are padded to the number
    of positions that a step evaluates.

    Args:
      game, evaluator, config: as for `search`.
      params: the evaluator's.

    Raises:
      ValueError: a search that `check` refuses.
    """

    def __init__(self, game: Game, evaluator: Evaluator, config: SearchConfig, params: Any):
        check(config)
        self._config, prepared = config, functools.partial(_prepared, evaluator)
        self._history = history_of(game, evaluator.observe)
        self._prepared = executables.jit(prepared) if evaluator.prepare else lambda params: params
        inputs = _functions(game, evaluator), jax.eval_shape(prepared, params)
        self._make_programs = functools.partial(_EvaluationPrograms, *inputs)
        self._programs: dict[tuple, _EvaluationPrograms] = {}
        response_types_of = functools.partial(_response_types, *inputs)
        needed_of = functools.partial(_needed_leaves, *inputs)
        external = functools.partial(_external_evaluator, evaluator.observe)
        self._begin, self._step = _halves(
            game, config, external, response_types_of, needed_of, config.leaves
        )
        self._is_open = executables.jit(functools.partial(_is_open, config))
        self._beside = concurrent.futures.ThreadPoolExecutor(1)

    def begin(self, params, key, states, tree) -> Running:
        begin = self._begin.at(tree, key, states)
        request, arrays = begin.before(tree, key, states)
        programs = self._programs_for(begin.request)
        return begin.after(arrays, programs(jax.tree.leaves(self._prepared(params)), request))

    def advance(self, running: Running, params, num_steps, last_step) -> Running:
        params, early = jax.tree.leaves(self._prepared(params)), self._config.early_stop
        begun, step = int(running.steps), self._step.at(running)
        programs = self._programs_for(step.request)
        for i in range(begun, min(begun + int(num_steps), int(last_step))):
            if early and not self._is_open(running.tree, np.int32(last_step - i)):
                break
            request, arrays = step.before(running)
            running = step.after(arrays, programs(params, request, self._beside))
        return running

    def _programs_for(self, request: Any) -> _EvaluationPrograms:
        leaves, tree = jax.tree.flatten(request)
        kind = tuple(leaves), tree
        if kind not in self._programs:
            self._programs[kind] = self._make_programs(request)
        return self._programs[kind]

    def _request_types(self, key: jax.Array, states: Any) -> tuple:
        """The types of (key, contexts, positions, ancestors) in a step, known before tracing it."""
        leaves, max_plies = self._config.leaves, self._config.path_limit

        def request(key, states):
            contexts, roots = jax.vmap(self._history.root)(states)
            contexts, roots = jax.tree.map(
                lambda x: jnp.repeat(x, leaves, axis=0), (contexts, roots)
            )
            along = jax.tree.map(lambda x: jnp.repeat(x[:, None], max_plies, axis=1), roots)
            length = jnp.zeros(jax.tree.leaves(along)[0].shape[0], jnp.int32)
            return key, contexts, roots, Ancestors(along, length)

        return jax.eval_shape(request, key, states)

    def prepare(self, finish: executables.CachedFunction, params, key, states, tree) -> None:
        """As `runner.TwoPrograms.prepare`; starts with the evaluator."""
        begin = self._begin.at(tree, key, states)
        if not begin.is_missing:
            return
        # XLA compiles most of a program on one core: compile two at a time, the longest first.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            programs = self._programs_for(self._request_types(key, states))
            futures = [pool.submit(programs.evaluate.prepare)]
            step = self._step.at(running := begin.result)
            futures.append(pool.submit(step.prepare_before))
            futures += [pool.submit(program.prepare) for program in programs.others]
            futures.append(pool.submit(step.prepare_after, programs.types))
            futures.append(pool.submit(begin.prepare_after, programs.types))
            futures.append(pool.submit(begin.prepare_before))
            without_tree = running._replace(tree=None)
            futures.append(pool.submit(finish.prepare, running.tree, without_tree))
            for future in futures:
                future.result()


def unsupported_reason(config: SearchConfig) -> str | None:
    """The reason why a search cannot run step by step from the host; None if it can.

    It cannot with transpositions, with an ensemble, or with `prune` if trees can fill up.
    """
    for name in ("ensemble", "transpositions"):
        if getattr(config, name):
            return f"{name}: such a search cannot run step by step"
    if config.prune and config.overflows:
        return (
            "prune: a search that runs step by step cannot prune trees; give it a capacity of more "
            f"than {config.num_simulations} nodes"
        )
    return None


def check(config: SearchConfig) -> None:
    """Refuse a search that cannot run step by step.

    Raises:
      ValueError: with the reason that `unsupported_reason` returns.
    """
    if (reason := unsupported_reason(config)) is not None:
        raise ValueError(reason)


def _halves(
    game: Game,
    config: SearchConfig,
    make_evaluator: Callable[[Callable], Any],
    response_types_of: Callable,
    needed_of: Callable | None = None,
    num_copies: int = 1,
) -> tuple[SplitFunction, SplitFunction]:
    """``begin(tree, key, states)`` and ``step(running)``, each cut in two at its evaluation.

    Args:
      game, config: as for `search`.
      make_evaluator: (send) -> a replacement for the evaluator, which calls `send`.
      response_types_of, needed_of: see `SplitFunction`.
      num_copies: the roots are padded to `num_copies` times as many positions.
    """
    begin = functools.partial(_begin, game, config, make_evaluator, num_copies)
    step = functools.partial(_step, game, config, make_evaluator)
    begin = SplitFunction(begin, response_types_of, needed_of, True, stages.unoptimized_options)
    return begin, SplitFunction(
        step, response_types_of, needed_of, True, stages.fast_compile_options
    )


def _begin(
    game: Game, config: SearchConfig, make_evaluator, num_copies: int, send, tree, key, states
) -> Running:
    def send_padded(request):
        key, *rest = request
        (count,) = {len(x) for x in jax.tree.leaves(rest)}
        padded = jax.tree.map(lambda x: pad(x, (num_copies - 1) * count), rest)
        return jax.tree.map(lambda x: x[:count], send((key, *padded)))

    return searching.begin(game, make_evaluator(send_padded), key, states, config, tree)


def _step(game: Game, config: SearchConfig, make_evaluator, send, running: Running) -> Running:
    evaluator, steps = make_evaluator(send), running.steps + 1
    history = history_of(game, evaluator.observe)
    key = jax.random.fold_in(running.evaluation_key, steps)
    inputs = key, running.contexts, config, running.draws, running.tree, running.ok
    tree, ok = searching.simulate_of(config)(history, evaluator, *inputs)
    return running._replace(tree=tree, ok=ok, steps=steps)


def _external_evaluator(observe: Callable | None, send: Callable) -> ExternalEvaluator:
    def evaluate(*request: Any) -> tuple[RulesResult, Evaluation]:
        rules_result, evaluation, heuristic = send(request)
        return rules_result, evaluation if heuristic is None else add_heuristic(
            heuristic, evaluation
        )

    return ExternalEvaluator(evaluate, observe)


def _by_observations(observe: Callable | None, send: Callable) -> Evaluator:
    return Evaluator(lambda params, *request: send(request), observe=observe)


class _Functions(NamedTuple):
    """Functions of (key, contexts, positions, ancestors); the last two take params first."""

    apply_rules: Callable  # takes no key
    evaluate: Callable
    heuristic: Callable | None


def _functions(game: Game, evaluator: Evaluator) -> _Functions:
    """The functions of a game and an evaluator; a heuristic is separate from the evaluator."""
    history, evaluate, heuristic = history_of(game, evaluator.observe), evaluator.evaluate, None
    if isinstance(evaluate, WithHeuristic):
        heuristic = functools.partial(_heuristic, history, evaluate.heuristic)
        evaluate = evaluate.evaluate
    evaluate = functools.partial(_evaluate, history, evaluate, heuristic is not None)
    return _Functions(functools.partial(apply_rules, history), evaluate, heuristic)


class _EvaluationPrograms:
    """The programs that serve requests (key, contexts, positions, ancestors) of given types.

    Args:
      functions: the functions that they compute.
      params: the types of the evaluator's parameters.
      request: the types of the request.
    """

    def __init__(self, functions: _Functions, params: Any, request: tuple):
        _, contexts, positions, ancestors = request
        self._num_params = len(jax.tree.leaves(params))
        self._num_before = 1 + len(jax.tree.leaves(contexts))  # 1 for the key
        self._num_positions = len(jax.tree.leaves(positions))
        args = params, *request
        self.evaluate = TrimmedProgram(functions.evaluate, args, stages.fast_compile_options)
        deep = functools.partial(stages.fast_compile_options, fuses_deeply=True)
        heuristic = functions.heuristic
        self.heuristic = None if heuristic is None else TrimmedProgram(heuristic, args, deep)
        new_positions = self.evaluate.result_types.positions  # None: positions are unchanged
        self._changes_positions = new_positions is not None
        rules_input = contexts, new_positions if self._changes_positions else positions, ancestors
        self.rules = TrimmedProgram(functions.apply_rules, rules_input, stages.unoptimized_options)

    def __call__(self, params: Leaves, request: Leaves, pool: Any = None) -> tuple:
        """(`RulesResult`, `Evaluation`, `Heuristic` or None).

        Args:
          params, request: leaves of the parameters and of the request.
          pool: a thread pool for the evaluation, so that responses that do not depend on it are
            computed meanwhile.
        """
        leaves = [*params, *request]
        future = None if pool is None else pool.submit(self.evaluate, leaves)
        heuristic = self.heuristic and self.heuristic(leaves)
        rules_result = None if self._changes_positions else self.rules(self._rules_input(request))
        evaluation = self.evaluate(leaves) if future is None else future.result()
        if rules_result is None:
            rules_result = self.rules(self._rules_input(request, evaluation.positions))
        return rules_result, evaluation, heuristic

    def _rules_input(self, request: Leaves, positions: Any = None) -> Leaves:
        """The input leaves of `rules`."""
        begin, end = self._num_before, self._num_before + self._num_positions
        positions = request[begin:end] if positions is None else jax.tree.leaves(positions)
        return [*request[1:begin], *positions, *request[end:]]

    @property
    def others(self) -> list[TrimmedProgram]:
        """The programs other than the evaluator, the longest to compile first."""
        return [x for x in (self.heuristic, self.rules) if x is not None]

    @property
    def types(self) -> tuple:
        """The types of the response."""
        heuristic_types = self.heuristic and self.heuristic.result_types
        return self.rules.result_types, self.evaluate.result_types, heuristic_types

    @property
    def needed(self) -> list[bool]:
        """Which of the request's leaves any of the programs needs."""
        by_program = [x.needed[self._num_params :] for x in (self.evaluate, self.heuristic) if x]
        used, end = self.rules.needed, self._num_before - 1 + self._num_positions
        own = (
            [False] * self._num_positions
            if self._changes_positions
            else used[self._num_before - 1 : end]
        )
        by_program.append([False, *used[: self._num_before - 1], *own, *used[end:]])
        return [any(each) for each in zip(*by_program, strict=True)]


def _response_types(functions: _Functions, params: Any, request: tuple) -> tuple:
    return _EvaluationPrograms(functions, params, request).types


def _needed_leaves(functions: _Functions, params: Any, request: tuple) -> list[bool]:
    return _EvaluationPrograms(functions, params, request).needed


def _evaluate(history: History, evaluate: Evaluate, second: bool, params, key, *positions):
    """Evaluate (contexts, positions, ancestors); `second`: with the second half of the key."""
    key = jax.random.split(key)[1] if second else key
    return evaluation_of(history, Evaluator(evaluate, params), key, *positions)


def _heuristic(history: History, heuristic: Callable, params, key, *positions: Any) -> Heuristic:
    observations = jax.vmap(history.observe)(*positions)
    return heuristic(params, jax.random.split(key)[0], observations)


def _prepared(evaluator: Evaluator, params: Any) -> Any:
    return evaluator._replace(params=params).prepared().params


def _is_open(config: SearchConfig, tree: Tree, steps: jax.Array) -> jax.Array:
    """bool[]: whether this many more steps could change a tree's final choice."""
    return ~jnp.all(root.decided(tree, steps * config.leaves))


class Overlapped:
    """Searches whose evaluator is a host function, overlapped in two or more groups of games.

    While one group waits for its evaluations (by a network on another device, or a server), the
    trees of the others are searched: a step takes as long as the slower of the two, not their sum.
    For a device that evaluates one batch at a time, make a group as large as its best batch size.

    Args:
      game, config: as for `search`.
      evaluate: ``observations[M] -> Evaluation[M]``, in arrays of any kind, without `heuristic` and
        `positions`; called in threads, for each group separately.
      groups: the number of groups, of equal size; two or three for each device or server. Each has
        a thread.
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
            raise ValueError(
                "early_stop: overlapped searches always run all simulations; use early_stop=False"
            )
        self.config, self.groups, self._evaluate = config, groups, evaluate
        self._types_of = functools.partial(
            _host_response_types,
            game.num_actions,
            config.amaf is not None,
            config.score_utility is not None,
        )
        make_evaluator = functools.partial(_by_observations, observe)
        self._begin, self._step = _halves(game, config, make_evaluator, self._types_of)
        self._finish = jax.jit(
            lambda running: searching.finish(running, config)._replace(tree=None)
        )

    def search(self, key: jax.Array, states: Any, keep_tree: bool = True) -> SearchResult:
        """The results of `search` for each group, with the key ``fold_in(key, group number)``.

        Args:
          key, states, keep_tree: as for `search`. (Joining the groups' trees takes as long as some
            steps.)

        Raises:
          ValueError: games that cannot be divided evenly; evaluations of the wrong shape.
        """
        count = searching.batch_of(states)
        if count % self.groups:
            raise ValueError(f"states: {count} games cannot be divided into {self.groups} groups")
        share = count // self.groups
        part = lambda g: jax.tree.map(lambda x: x[g * share :][:share], states)
        parts = [part(g) for g in range(self.groups)]
        keys = [jax.random.fold_in(key, g) for g in range(self.groups)]
        begin = self._begin.at(None, keys[0], parts[0])
        step = self._step.at(begin.result)  # for all groups: their shapes are equal
        search = functools.partial(self._search, keep_tree, *map(self._joined, (begin, step)))
        stop = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(self.groups) as pool:
            groups = [
                pool.submit(search, stop, *inputs) for inputs in zip(keys, parts, strict=True)
            ]
            try:
                concurrent.futures.wait(groups, return_when="FIRST_EXCEPTION")
            finally:
                stop.set()  # ends the other groups too
        return jax.tree.map(
            lambda *parts: jnp.concatenate(parts), *(group.result() for group in groups)
        )

    def _search(self, keep_tree: bool, begin, step, stop, key, states) -> SearchResult:
        """The search of one group; its result so far once `stop` is set.

        Runs in a thread of its own: XLA:CPU runs the calls of one thread one after another (jaxlib
        0.10.1).
        """
        running = begin(None, key, states)
        for _ in range(self.config.num_simulations // self.config.leaves):
            if stop.is_set():
                break
            running = step(running)
        return self._finish(running)._replace(tree=running.tree if keep_tree else None)

    def _joined(self, programs: Halves) -> Callable[..., Running]:
        """The function that these programs are halves of, with the host's evaluation between."""
        structure = jax.tree.structure(programs.request)
        types = self._types_of(programs.request)

        def run(*args: Any) -> Running:
            request, arrays = programs.before(*args)
            request = jax.tree.unflatten(structure, request)
            return programs.after(arrays, self._evaluate_on_host(types, request))

        return run

    def _evaluate_on_host(self, types: Evaluation, request: Any) -> Evaluation:
        """The host's evaluation of (key, observations), converted to the programs' types."""
        evaluation = self._evaluate(request[1])
        check_evaluation(evaluation, types.prior_logits.shape)
        if types.played is None:
            evaluation = evaluation._replace(played=None)
        elif evaluation.played is None:
            evaluation = evaluation._replace(played=np.zeros(types.played.shape, bool))
        if types.score is None:
            evaluation = evaluation._replace(score=None)
        elif evaluation.score is None:
            raise ValueError(
                "evaluate: it returns no score, which the rule needs (`Evaluation.score`)"
            )
        return jax.tree.map(lambda x, like: jnp.asarray(x, like.dtype), evaluation, types)


def _host_response_types(
    num_actions: int, first_plays: bool, scores: bool, request: Any
) -> Evaluation:
    """The types of what the search uses of the evaluation of (key, observations)."""
    count = len(jax.tree.leaves(request[1])[0])
    logits, value = jnp.zeros((count, num_actions)), jnp.zeros(count)
    played = jnp.zeros((count, 2, num_actions), bool) if first_plays else None
    score = jnp.zeros((count, 2)) if scores else None
    return jax.eval_shape(lambda: Evaluation(logits, value, played, score=score))
