"""A search that the host ends, after a number of visits or by the clock.

The host runs a search in chunks and checks the clock between them. The trees are updated in place,
because each call takes over those of the previous one. The config's `num_simulations` and capacity
bound the size of a search, so with a time limit they should be large; but `gumbel.GumbelRoot` plans
its halving for `num_simulations`, and a search that ends before these has rejected fewer actions.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import math
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from gozero.compile import executables, stages
from gozero.runs.settings import COUNT, Range, check_ranges
from gozero.search import search as searching
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator, Game
from gozero.search.search import Running, SearchResult
from gozero.search.tree import Tree

Divide = Callable[[str, Callable], Callable]
"""``(name, function) -> function``: begin, advance or finish of a search as it is compiled."""


def undivided(name: str, function: Callable) -> Callable:
    """The function itself."""
    del name
    return function


class SearchPrograms(Protocol):
    """The compiled programs of a search."""

    @property
    def begin(self) -> Callable[..., Running]:
        """(params, key, states, tree) -> the search after its beginning, as `search.begin`."""
        ...

    @property
    def advance(self) -> Callable[..., Running]:
        """(running, params, num_steps, last_step) -> running, as `search.advance`; the arrays of
        the given one are donated."""
        ...

    def prepare(
        self, finish: executables.CachedFunction, params: Any, key: Any, states: Any, tree: Any
    ) -> None:
        """Compile all that is missing to begin such a search, to advance it and to `finish` it."""
        ...


@dataclasses.dataclass(frozen=True)
class Budget:
    """The budget of one search; whichever limit is reached first ends it.

    Attributes:
      visits: simulations of each tree, rounded down to whole steps of `SearchConfig.leaves`, but at
        least one step; None, or more than the config's: the config's number.
      seconds: wall-clock time; None: no limit. With 0, one chunk is done.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    visits: int | None = None
    seconds: float | None = None

    def __post_init__(self):
        check_ranges(self, visits=COUNT._replace(optional=True))
        check_ranges(self, seconds=Range(0, sys.float_info.max, optional=True))


class Runner:
    """Runs searches within budgets, in chunks; compiled once for each set of array shapes.

    A search with a given number of visits returns the result of `search`, whatever the chunks. The
    clock starts when everything is compiled: a first timed search follows a rehearsal of one step
    on empty trees. A chunk is not started if, at the speed of the previous one, it would end too
    late; so a search overruns by at most part of a chunk, unless the machine slows down. One chunk
    is always done.

    Args:
      game, evaluator, config: as for `search`; `config.early_stop` ends a search too.
      chunk: steps between two checks of the clock.
      clock: returns the time in seconds, from any origin.
      chunk_seconds: the seconds that a chunk should take: after the first chunk of a search, the
        number of steps is set by the time of the previous chunk. None: all have the same size.
      programs: ``(game, evaluator, config, params) -> SearchPrograms``; None: `TwoPrograms`.
        Another class is `by_step.SeparatePrograms`.
      divide: divides the trees of a search among devices, see `over_devices.dividing`; only with
        `TwoPrograms`.

    Raises:
      ValueError: a chunk of less than one step.
    """

    def __init__(
        self,
        game: Game,
        evaluator: Evaluator,
        config: SearchConfig,
        chunk: int = 16,
        clock: Callable[[], float] = time.monotonic,
        chunk_seconds: float | None = None,
        programs: Callable[..., SearchPrograms] | None = None,
        divide: Divide = undivided,
    ):
        if not isinstance(chunk, int) or chunk < 1:
            raise ValueError(f"chunk: {chunk!r} is not a whole number of at least 1")
        self.config, self.chunk, self.clock = config, chunk, clock
        self.chunk_seconds = chunk_seconds
        self._params = evaluator.params
        self._prepared: set = set()
        self._rehearsed: set = set()
        evaluator = evaluator._replace(params=None)  # not part of the programs
        make_programs = programs or functools.partial(TwoPrograms, divide=divide)
        self._programs: SearchPrograms = make_programs(game, evaluator, config, self._params)

        def finish(tree, others):  # apart: only the tree can be donated
            return searching.finish(others._replace(tree=tree), config)

        options = stages.fast_compile_options
        self._finish = executables.jit(
            divide("finish", finish), donate_argnums=0, compiler_options=options
        )
        self._empty = executables.jit(functools.partial(jax.tree.map, jnp.zeros_like))

    def search(
        self,
        key: jax.Array,
        states: Any,
        budget: Budget = Budget(),
        tree: Tree | None = None,
        params: Any = None,
        look: Callable[[Running, bool], bool] | None = None,
    ) -> SearchResult:
        """Run one search; its arguments are those of `search`. Given trees are donated.

        `params`, if given, replace the evaluator's own, without compiling again. Between chunks,
        `look(running, False)` sees the search so far, whose arrays the next chunk donates, and
        returns whether to end it; after the last chunk, `look(running, True)` sees all of it.

        Returns:
          The result; `simulations` is the number that was done.
        """
        params = self._params if params is None else params
        run = functools.partial(self._run, params, key, states)
        signature = _signature((params, states, tree))
        if signature not in self._prepared:
            with executables.without_gc():
                self._programs.prepare(self._finish, params, key, states, tree)
            self._prepared.add(signature)
        if budget.seconds is not None and signature not in self._rehearsed:
            run(None if tree is None else self._empty(tree), 1, 0.0)
            self._rehearsed.add(signature)
        max_visits = self.config.num_simulations
        visits = max_visits if budget.visits is None else min(budget.visits, max_visits)
        return run(tree, max(visits // self.config.leaves, 1), budget.seconds, look)

    def _run(self, params, key, states, tree, last: int, seconds, look=None) -> SearchResult:
        end = math.inf if seconds is None else self.clock() + seconds
        running = self._programs.begin(params, key, states, tree)
        in_one = seconds is None and look is None
        chunk, done, is_open = last if in_one else self.chunk, 0, True
        while is_open:
            before, steps_before = self.clock(), done
            running = self._programs.advance(running, params, np.int32(chunk), np.int32(last))
            done = int(running.steps)  # blocks until it is done
            is_open, now = done == steps_before + chunk and done < last, self.clock()
            taken = now - before
            if is_open and look is not None:
                is_open, now = not look(running, False), self.clock()
            chunk = chunk if in_one else self._next(chunk, taken, end - now)
            is_open = is_open and chunk > 0
        if look is not None:
            look(running, True)
        return self._finish(running.tree, running._replace(tree=None))

    def _next(self, chunk: int, taken: float, seconds_left: float) -> int:
        """The steps of the next chunk, after one that took `taken` seconds; 0: no time for one."""
        if self.chunk_seconds is None:
            return chunk if taken <= seconds_left else 0
        fitting = chunk * seconds_left / max(taken, 1e-9)
        return max(0, int(min(next_chunk(chunk, taken, self.chunk_seconds), fitting)))


class TwoPrograms:
    """A search as two programs: one for its begin, and one for each chunk.

    Args:
      game, evaluator, config: as for `search`.
      sooner: whether to compile faster, for a few games (`stages.fast_compile_options`).
      divide: as for `Runner`.
    """

    def __init__(
        self,
        game: Game,
        evaluator: Evaluator,
        config: SearchConfig,
        params: Any,
        sooner: bool = False,
        divide: Divide = undivided,
    ):
        del params
        begin_options = stages.unoptimized_options if sooner else dict
        advance_options = stages.fast_compile_options if sooner else dict

        def begin(params, key, states, tree):
            with_params = evaluator._replace(params=params)
            return searching.begin(game, with_params, key, states, config, tree)

        def advance(running, params, num_steps, last_step):
            with_params = evaluator._replace(params=params)
            return searching.advance(game, with_params, running, config, num_steps, last_step)

        begin, advance = divide("begin", begin), divide("advance", advance)
        self.begin = executables.jit(begin, donate_argnums=3, compiler_options=begin_options)
        self.advance = executables.jit(advance, donate_argnums=0, compiler_options=advance_options)

    def prepare(self, finish: executables.CachedFunction, params, key, states, tree) -> None:
        """Compile all missing programs at once: XLA compiles most of each on a single core."""
        arguments = key, states, tree
        if not self.begin.is_missing(params, *arguments):
            return
        running = jax.eval_shape(self.begin.traced, params, *arguments)
        steps = jax.ShapeDtypeStruct((), jnp.int32)
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            begun = other.submit(self.begin.prepare, params, *arguments)
            self.advance.prepare(running, params, steps, steps)
            finish.prepare(running.tree, running._replace(tree=None))
            begun.result()


def next_chunk(chunk: int, taken: float, target_seconds: float) -> int:
    """The steps that fit `target_seconds` if a chunk took `taken` seconds; at most 4 * chunk."""
    return max(1, min(4 * chunk, int(chunk * target_seconds / max(taken, 1e-4))))


def _signature(arguments: Any) -> Any:
    leaves, structure = jax.tree.flatten(arguments)
    return structure, tuple((jnp.shape(x), jnp.result_type(x)) for x in leaves)
