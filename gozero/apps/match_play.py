"""The games of a match, many at once: programs think in threads, ours search a cohort in a batch.

A cohort is searched when none of its programs is thinking; one that takes long is waited for no
longer than a search takes, then its lane stays idle for once.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from gozero.apps.match_config import MatchConfig
from gozero.apps.match_openings import Openings
from gozero.apps.match_ours import Ours
from gozero.apps.match_score import Game
from gozero.apps.match_table import Table
from gozero.apps.runtime import StopRequest
from gozero.apps.sgf import GameRecord
from gozero.go.rules import Rules

_LOOK_S = 0.2
"""Between two looks at who waits, and whether to stop."""

_LEAST_PATIENCE_S = 1.0


class _Inline(concurrent.futures.Executor):
    """Does what it is given at once: no program has to be waited for, and the order is known."""

    def submit(self, fn, /, *args, **kwargs) -> Future:
        future: Future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def play_games(
    config: MatchConfig,
    rules: Rules,
    names: tuple[str, str],
    openings: Openings,
    ours: Ours,
    todo: Sequence[int],
    finished: Callable[[Game, GameRecord], None],
    stop: StopRequest,
) -> None:
    """Play games until they are done or a stop is requested.

    Args:
      config, rules, names, openings: the match.
      ours: the sides that are ours, prepared for `config.parallel` games.
      todo: the numbers of the games.
      finished: called with each that is over, or void for good.
      stop: looked at between steps; games in play are given up then.
    """
    pool = _Inline() if ours.all_ours else concurrent.futures.ThreadPoolExecutor(config.parallel)
    hall = _Hall(config, ours, pool, finished)
    hall.open = lambda number: Table(config, rules, number, openings.of(number // 2), names)
    try:
        hall.play(deque(todo), stop)
    finally:
        for table in hall.tables:
            if table is not None:
                table.abandon()
        pool.shutdown(wait=True, cancel_futures=True)


class _Hall:
    """Lanes, a game in each; those of cohort c are c * L and on."""

    open: Callable[[int], Table]

    def __init__(self, config: MatchConfig, ours: Ours, pool, finished):
        self.config, self.ours, self.pool, self.finished = config, ours, pool, finished
        self.tables: list[Table | None] = [None] * config.parallel
        self.thinking: dict[Future, int] = {}  # -> lane
        self.failures: defaultdict[int, list[str]] = defaultdict(list)  # of a game so far

    def play(self, todo: deque[int], stop: StopRequest) -> None:
        while not stop.requested:
            self._seat(todo)
            due = self._due()
            if due is not None:
                self._search(*due)
            elif not self.thinking:
                return
            self._collect(todo, 0.0 if due is not None else _LOOK_S)

    def _seat(self, todo: deque[int]) -> None:
        for lane, table in enumerate(self.tables):
            number = self._next(lane, todo) if table is None else None
            if number is not None:
                table = self.tables[lane] = self.open(number)
                self.thinking[self.pool.submit(table.begin)] = lane

    def _next(self, lane: int, todo: deque[int]) -> int | None:
        """The game for a free lane, which is taken; of ours against ours even ones are for the
        first cohort, in all of which the same side is to move."""
        any_game = not self.ours.all_ours or self.ours.num_cohorts == 1
        for number in todo:
            if any_game or self._in(lane, number % 2):
                todo.remove(number)
                return number
        return None

    def _due(self) -> tuple[int, int] | None:
        """(the cohort, the side) to search for: the one that has waited longest."""
        waiting = {
            lane: table
            for lane, table in enumerate(self.tables)
            if table is not None and lane not in self.thinking.values()
        }
        for lane in sorted(waiting, key=lambda lane: waiting[lane].waiting_since or 0.0):
            cohort = lane // self.ours.lanes
            if self._is_ready(cohort, waiting[lane].waiting_since or 0.0):
                sides = Counter(
                    table.side_to_move for i, table in waiting.items() if self._in(i, cohort)
                )
                return cohort, sides.most_common(1)[0][0]
        return None

    def _is_ready(self, cohort: int, since: float) -> bool:
        if not any(self._in(lane, cohort) for lane in self.thinking.values()):
            return True
        if self.ours.all_ours:
            return False  # what is under way is done at once
        return time.monotonic() - since > max(_LEAST_PATIENCE_S, self.ours.seconds)

    def _in(self, lane: int, cohort: int) -> bool:
        return lane // self.ours.lanes == cohort

    def _search(self, cohort: int, side: int) -> None:
        lanes = {
            lane: table
            for lane, table in enumerate(self.tables)
            if table is not None
            and self._in(lane, cohort)
            and lane not in self.thinking.values()
            and table.side_to_move == side
        }
        first = cohort * self.ours.lanes
        found = self.ours.choose(side, cohort, {i - first: table for i, table in lanes.items()})
        seconds = self.ours.seconds / len(lanes)
        for lane, table in lanes.items():
            self.thinking[self.pool.submit(table.play, found[lane - first], seconds)] = lane

    def _collect(self, todo: deque[int], timeout: float) -> None:
        """Those that have done thinking: games that are over are recorded, or begun anew."""
        done, _ = concurrent.futures.wait(
            self.thinking, timeout, concurrent.futures.FIRST_COMPLETED
        )
        for future in sorted(done, key=self.thinking.__getitem__):
            future.result()
            lane = self.thinking.pop(future)
            table = self.tables[lane]
            assert table is not None
            if not table.over:
                continue
            self.tables[lane] = None
            failures = self.failures[table.number]
            if table.failure is not None and len(failures) < self.config.retries:
                failures.append(table.failure)
                todo.appendleft(table.number)
            else:
                self.finished(*table.result(failures))
