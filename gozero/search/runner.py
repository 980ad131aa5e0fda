"""A search that the host ends: by its visits, or by the clock.

The host runs a search in chunks and looks at the clock between them. The trees stay in
place, because each call is given those of the call before. The config's `num_simulations` and
capacity bound the size of a search, so with a limit of seconds let them be large.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.compile import executables, stages
from gozero.runs.settings import COUNT, Range, check_ranges
from gozero.search import search as pieces
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator, Game
from gozero.search.search import Running, SearchResult
from gozero.search.tree import Tree


@dataclasses.dataclass(frozen=True)
class Budget:
    """What one search may use; whatever is used up first ends it.

    Attributes:
      visits: simulations of each tree, by whole steps of `SearchConfig.leaves`, one at least;
        None, or more than the config's: as many as the config's.
      seconds: by the clock; None: no limit. 0 is one chunk.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    visits: int | None = None
    seconds: float | None = None

    def __post_init__(self):
        check_ranges(self, visits=COUNT._replace(optional=True))
        check_ranges(self, seconds=Range(0, sys.float_info.max, optional=True))


class Runner:
    """Searches of one kind within budgets, each in chunks; compiled once for arrays of a shape.

    A search that is given its visits finds what `search` finds, whatever the chunks. The clock
    starts when everything is compiled: a first search by it is rehearsed before, on empty trees. It
    does not begin a chunk that would last too long if its steps took as long as those before; so it
    is late by a part of a chunk at most, unless the machine falters. One chunk is always done.

    Args:
      game, evaluator, config: as `search` has them; `config.early_stop` ends a search too.
      chunk: steps between two looks at the clock.
      clock: seconds, from any moment on.
      piece: seconds that a chunk is to take: those after a search's first have as many steps as the
        time of the one before says; None: all have the same.
      kind: of what programs a search is made; None: `Whole`. `by_step.Apart` is another.

    Raises:
      ValueError: a chunk of no steps.
    """

    def __init__(
        self,
        game: Game,
        evaluator: Evaluator,
        config: SearchConfig,
        chunk: int = 16,
        clock: Callable[[], float] = time.monotonic,
        piece: float | None = None,
        kind: Callable[..., Any] | None = None,
    ):
        if not isinstance(chunk, int) or chunk < 1:
            raise ValueError(f"chunk: {chunk!r} is not a whole number of at least 1")
        self.config, self.chunk, self.clock, self.piece = config, chunk, clock, piece
        self._params = evaluator.params
        self._prepared: set = set()
        self._rehearsed: set = set()
        evaluator = evaluator._replace(params=None)  # no part of the programs
        self._pieces = (kind or Whole)(game, evaluator, config, self._params)

        def finish(tree, others):  # apart: what is not in the result cannot be handed on
            return pieces.finish(others._replace(tree=tree), config)

        options = stages.soon_options
        self._finish = executables.jit(finish, donate_argnums=0, compiler_options=options)
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
        """One search; its arguments are `search`'s. Trees to go on from are used up.

        Other parameters than the evaluator's own, if given, compile nothing anew. Between chunks
        `look` sees the search so far, which the next one uses up, and says whether to end it; at
        the end it sees the whole of it, and is told that.

        Returns:
          The result; `simulations` says how many were done.
        """
        params = self._params if params is None else params
        run = functools.partial(self._run, params, key, states)
        signature = _signature((params, states, tree))
        if signature not in self._prepared:
            with executables.uncollected():
                self._pieces.prepare(self._finish, params, key, states, tree)
            self._prepared.add(signature)
        if budget.seconds is not None and signature not in self._rehearsed:
            run(None if tree is None else self._empty(tree), 1, 0.0)
            self._rehearsed.add(signature)
        most = self.config.num_simulations
        visits = most if budget.visits is None else min(budget.visits, most)
        return run(tree, max(visits // self.config.leaves, 1), budget.seconds, look)

    def _run(self, params, key, states, tree, last: int, seconds, look=None) -> SearchResult:
        end = math.inf if seconds is None else self.clock() + seconds
        running = self._pieces.begin(params, key, states, tree)
        in_one = seconds is None and look is None
        chunk, done, is_open = last if in_one else self.chunk, 0, True
        while is_open:
            before, begun = self.clock(), done
            running = self._pieces.advance(running, params, np.int32(chunk), np.int32(last))
            done = int(running.steps)  # waits for it
            is_open, now = done == begun + chunk and done < last, self.clock()
            took = now - before
            if is_open and look is not None:
                is_open, now = not look(running, False), self.clock()
            chunk = chunk if in_one else self._next(chunk, took, end - now)
            is_open = is_open and chunk > 0
        if look is not None:
            look(running, True)
        return self._finish(running.tree, running._replace(tree=None))

    def _next(self, chunk: int, took: float, left: float) -> int:
        """Steps of the next chunk, after one that took so long; 0: none fits into what is left."""
        if self.piece is None:
            return chunk if took <= left else 0
        fitting = chunk * left / max(took, 1e-9)
        return max(0, int(min(next_chunk(chunk, took, self.piece), fitting)))


class Whole:
    """The pieces of a search: its begin is a program, and all that each chunk does is one.

    Args:
      game, evaluator, config: as `search` has them.
      sooner: they compile sooner, for a few games (`stages.soon_options`).
    """

    def __init__(
        self,
        game: Game,
        evaluator: Evaluator,
        config: SearchConfig,
        params: Any,
        sooner: bool = False,
    ):
        del params
        seldom, often = (stages.seldom_options, stages.soon_options) if sooner else (dict, dict)

        def begin(params, key, states, tree):
            own = evaluator._replace(params=params)
            return pieces.begin(game, own, key, states, config, tree)

        def advance(running, params, num_steps, last_step):
            own = evaluator._replace(params=params)
            return pieces.advance(game, own, running, config, num_steps, last_step)

        self.begin = executables.jit(begin, donate_argnums=3, compiler_options=seldom)
        self.advance = executables.jit(advance, donate_argnums=0, compiler_options=often)

    def prepare(self, finish: executables.Kept, params, *arguments: Any) -> None:
        """Compile all at once, if they are missing: XLA compiles the most of each on a core."""
        if not self.begin.is_missing(params, *arguments):
            return
        running = jax.eval_shape(self.begin.traced, params, *arguments)
        steps = jax.ShapeDtypeStruct((), jnp.int32)
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            begun = other.submit(self.begin.prepare, params, *arguments)
            self.advance.prepare(running, params, steps, steps)
            finish.prepare(running.tree, running._replace(tree=None))
            begun.result()


def next_chunk(chunk: int, took: float, wanted: float) -> int:
    """Steps for the wanted seconds, where a chunk took so long; at most four times the chunk's."""
    return max(1, min(4 * chunk, int(chunk * wanted / max(took, 1e-4))))


def _signature(arguments: Any) -> Any:
    leaves, structure = jax.tree.flatten(arguments)
    return structure, tuple((jnp.shape(x), jnp.result_type(x)) for x in leaves)
