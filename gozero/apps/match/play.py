"""The games of a match, many at once: programs think in threads, ours search a cohort in a batch.

A cohort is searched when none of its programs is thinking; one that takes long is waited for no
longer than a search takes, then its lane stays idle for once.
"""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from gozero.apps.match.config import MatchConfig
from gozero.apps.match.openings import Openings
from gozero.apps.match.ours import Ours
from gozero.apps.match.score import Game
from gozero.apps.match.table import Table
from gozero.apps.runtime import StopRequest
from gozero.apps.sgf import GameRecord
from gozero.go.rules import Rules

_LOOK_S = 0.2
"""Between two looks at who waits, and whether to stop."""

_LEAST_PATIENCE_S = 1.0

_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Before a program that could not be started is tried again; with no game in play the match ends
after the last."""


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
    failures: Mapping[int, Sequence[str]] | None = None,
) -> None:
    """Play games until they are done or a stop is requested.

    A program that cannot be started (the machine is out of processes, its file is being replaced)
    is tried again after a while; that costs no game its retries.

    Args:
      config, rules, names, openings: the match.
      ours: the sides that are ours, prepared for `config.parallel` games.
      todo: the numbers of the games.
      finished: called with each that is over, or void for good, as soon as it is, and before its
        programs have quit; from any thread, but from one at a time.
      stop: looked at between steps; games in play are given up then.
      failures: of games that were void, why, by their numbers.

    Raises:
      OSError: a program cannot be started any more.
      Whatever `finished` raises.
    """
    pool = _Inline() if ours.all_ours else concurrent.futures.ThreadPoolExecutor(config.parallel)
    hall = _Hall(config, ours, pool, finished, failures or {})
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

    def __init__(self, config: MatchConfig, ours: Ours, pool, finished, failures):
        self.config, self.ours, self.pool, self.finished = config, ours, pool, finished
        self.tables: list[Table | None] = [None] * config.parallel
        self.thinking: dict[Future, int] = {}  # -> lane
        self.failures = defaultdict[int, list[str]](list)  # of a game so far
        self.failures.update({number: [*why] for number, why in failures.items()})
        self.recorded: set[int] = set()
        self.recording = threading.Lock()  # `failures`, `recorded`, and who calls `finished`
        self.pauses = 0  # since a program was started
        self.paused_until = 0.0

    def play(self, todo: deque[int], stop: StopRequest) -> None:
        while not stop.requested:
            self._seat(todo)
            due = self._due()
            if due is not None:
                self._search(*due)
            elif not self.thinking and not todo:
                return
            self._collect(todo, 0.0 if due is not None else _LOOK_S)

    def _seat(self, todo: deque[int]) -> None:
        if time.monotonic() < self.paused_until:
            return
        for lane, table in enumerate(self.tables):
            number = self._next(lane, todo) if table is None else None
            if number is not None:
                table = self.tables[lane] = self.open(number)
                self._let(lane, table, table.begin)

    def _let(self, lane: int, table: Table, step: Callable[..., None], *args) -> None:
        """Take a step at a table in a thread."""
        self.thinking[self.pool.submit(self._take, table, step, *args)] = lane

    def _take(self, table: Table, step: Callable[..., None], *args) -> None:
        try:
            step(*args)
            if table.over:
                self._settle(table)
        finally:
            if table.left:
                table.close()

    def _settle(self, table: Table) -> None:
        """Record a game that is over, unless it is to be played anew."""
        with self.recording:
            failures = self.failures[table.number]
            if table.failure is not None and table.abandoned:
                return
            if table.failure is not None and len(failures) < self.config.retries:
                failures.append(table.failure)
                return
            self.finished(*table.result(failures))
            self.recorded.add(table.number)

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
            self._let(lane, table, table.play, found[lane - first], seconds)

    def _collect(self, todo: deque[int], timeout: float) -> None:
        """Those that have done thinking: the lanes of games that are over are free."""
        if not self.thinking:
            time.sleep(timeout)
        done, _ = concurrent.futures.wait(
            self.thinking, timeout, concurrent.futures.FIRST_COMPLETED
        )
        for future in sorted(done, key=self.thinking.__getitem__):
            future.result()
            lane = self.thinking.pop(future)
            table = self.tables[lane]
            assert table is not None
            if table.left:
                self.tables[lane] = None
                if table.number not in self.recorded:
                    todo.appendleft(table.number)
            if table.not_begun is None:
                self.pauses = 0
            else:
                self._pause(table.not_begun)

    def _pause(self, why: str) -> None:
        """Begin no game for a while, once for all that could not be begun at a time.

        Raises:
          OSError: it was long enough.
        """
        now = time.monotonic()
        if now < self.paused_until:
            return
        in_play = any(table is not None and table.begun for table in self.tables)
        if self.pauses == len(_PAUSES_S) and not in_play:
            raise OSError(f"{why}; what was played is kept, and the same command goes on")
        self.pauses = min(self.pauses + 1, len(_PAUSES_S))
        self.paused_until = now + _PAUSES_S[self.pauses - 1]
