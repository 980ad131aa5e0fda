"""The games of a match, many at once: programs think in threads, our searches run in batches.

A batch is searched when none of its programs is thinking, or when one of its games has waited for
as long as a search takes; the lanes of slower programs then stay idle in the search.
"""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from gozero.apps.match.config import MatchConfig
from gozero.apps.match.openings import PairOpenings
from gozero.apps.match.ours import BatchedSide
from gozero.apps.match.score import GameLine
from gozero.apps.match.worker import GameWorker
from gozero.apps.runtime import StopRequest
from gozero.apps.sgf import GameRecord
from gozero.go.rules import Rules

_POLL_S = 0.2
"""Seconds between two checks for waiting games and for a stop."""

_LEAST_PATIENCE_S = 1.0

_STOP_GRACE_S = 0.3
"""Seconds after a program's death in which a stop tells that it did not crash: a stop may be sent
to all processes of a job, programs included."""

_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before a program that could not be started is tried again; if no game is in play, the
match ends after the last pause."""


def play_games(
    config: MatchConfig,
    rules: Rules,
    names: tuple[str, str],
    openings: PairOpenings,
    ours: BatchedSide | None,
    todo: Sequence[int],
    finished: Callable[[GameLine, GameRecord], None],
    playing: Callable[[int, int], None],
    stop: StopRequest,
    failed: Callable[[int, Sequence[str]], None] = lambda number, failures: None,
    failures: Mapping[int, Sequence[str]] | None = None,
) -> None:
    """Play games until they are done or a stop is requested.

    A program that cannot be started (the machine is out of processes, its file is being replaced)
    is started again after a pause; that does not count as one of the game's retries.

    Args:
      config, rules, names, openings: the match.
      ours: our side; None: both sides are programs.
      todo: the numbers of the games.
      finished: called with each game as soon as it is over or finally void, before its programs
        have quit; from any thread, but only from one at a time.
      playing: called now and then, while games go on, with the number of games in play and the
        moves played in the longest of them.
      stop: checked between steps; games in play are then abandoned.
      failed: called like `finished`, with the number of a game that is to be replayed and the
        reasons why each attempt so far was void.
      failures: those of earlier attempts, as passed to `failed`, by the games' numbers.

    Raises:
      OSError: a program cannot be started any more.
      Whatever `finished` and `failed` raise.
    """
    pool = concurrent.futures.ThreadPoolExecutor(config.parallel)
    scheduler = _Scheduler(config, ours, pool, finished, failed, failures or {})
    scheduler.open = lambda number: GameWorker(
        config, rules, number, openings.of(number // 2), names
    )
    try:
        scheduler.play(deque(todo), playing, stop)
    finally:
        for worker in scheduler.workers:
            if worker is not None:
                worker.abandon()
        pool.shutdown(wait=True, cancel_futures=True)


class _Scheduler:
    """Gives games to lanes and decides what to do next; the L lanes from b * L on are batch b."""

    open: Callable[[int], GameWorker]

    def __init__(
        self, config: MatchConfig, ours: BatchedSide | None, pool, finished, failed, failures
    ):
        self.config, self.ours, self.pool = config, ours, pool
        self.finished, self.failed = finished, failed
        self.workers: list[GameWorker | None] = [None] * config.parallel
        self.thinking: dict[Future, int] = {}  # -> lane
        self.failures = defaultdict[int, list[str]](list)  # of a game so far
        self.failures.update({number: [*reasons] for number, reasons in failures.items()})
        self.recorded: set[int] = set()
        self.recording = threading.Lock()  # guards `failures`, `recorded` and calls of `finished`
        self.pauses = 0  # since a program was last started
        self.paused_until = 0.0

    def play(
        self, todo: deque[int], playing: Callable[[int, int], None], stop: StopRequest
    ) -> None:
        while not stop.requested:
            self._start_games(todo)
            lengths = [worker.num_moves for worker in self.workers if worker is not None]
            if lengths:
                playing(len(lengths), max(lengths))
            due = self.ours and self._due(self.ours)
            if self.ours and due is not None:
                self._search(self.ours, due)
            elif not self.thinking and not todo:
                return
            self._collect(todo, 0.0 if due is not None else _POLL_S, stop)

    def _start_games(self, todo: deque[int]) -> None:
        if time.monotonic() < self.paused_until:
            return
        for lane, worker in enumerate(self.workers):
            if worker is None and todo:
                worker = self.workers[lane] = self.open(todo.popleft())
                self._submit(lane, worker, worker.begin)

    def _submit(self, lane: int, worker: GameWorker, step: Callable[..., None], *args) -> None:
        """Run a step of a game in a thread."""
        self.thinking[self.pool.submit(self._step, worker, step, *args)] = lane

    def _step(self, worker: GameWorker, step: Callable[..., None], *args) -> None:
        try:
            step(*args)
            if worker.failure is not None:
                time.sleep(_STOP_GRACE_S)  # recorded by `_collect`, unless there is a stop
            elif worker.over:
                self._record(worker)
        finally:
            if worker.done:
                worker.close()

    def _record(self, worker: GameWorker) -> None:
        """Record a game that is over, unless it is to be replayed."""
        with self.recording:
            failures = self.failures[worker.number]
            if worker.failure is not None:
                loses, crashes = self.config.crash == "loss", worker.crashes(failures)
                if (crashes - 1 if loses else len(failures)) < self.config.retries:
                    failures.append(worker.failure)
                    self.failed(worker.number, failures)
                    return
                if loses:
                    worker.lose(crashes)
            self.finished(*worker.result(failures))
            self.recorded.add(worker.number)

    def _due(self, ours: BatchedSide) -> int | None:
        """The batch to search: of those ready, the one whose game has waited longest, or None."""
        waiting = self._waiting()
        for lane in sorted(waiting, key=lambda lane: waiting[lane].waiting_since or 0.0):
            batch = lane // ours.lanes
            if self._is_ready(ours, batch, waiting[lane].waiting_since or 0.0):
                return batch
        return None

    def _waiting(self) -> dict[int, GameWorker]:
        """The games that wait for a search of ours, by lane."""
        thinking = set(self.thinking.values())
        return {
            lane: worker
            for lane, worker in enumerate(self.workers)
            if worker is not None and lane not in thinking
        }

    def _is_ready(self, ours: BatchedSide, batch: int, since: float) -> bool:
        """Whether none of the batch's programs is thinking, or a game has waited long enough."""
        if all(lane // ours.lanes != batch for lane in self.thinking.values()):
            return True
        return time.monotonic() - since > max(_LEAST_PATIENCE_S, ours.seconds)

    def _search(self, ours: BatchedSide, batch: int) -> None:
        waiting = self._waiting()
        lanes = {lane: worker for lane, worker in waiting.items() if lane // ours.lanes == batch}
        first_lane = batch * ours.lanes
        actions = ours.choose(batch, {i - first_lane: worker for i, worker in lanes.items()})
        seconds = ours.seconds / len(lanes)
        for lane, worker in lanes.items():
            self._submit(lane, worker, worker.play, actions[lane - first_lane], seconds)

    def _collect(self, todo: deque[int], timeout: float, stop: StopRequest) -> None:
        """Handle the steps that are done; the lanes of games that are over become free.

        A program's death is recorded here, as this thread runs the handlers of signals first.
        """
        if not self.thinking:
            time.sleep(timeout)
        done, _ = concurrent.futures.wait(
            self.thinking, timeout, concurrent.futures.FIRST_COMPLETED
        )
        for future in sorted(done, key=self.thinking.__getitem__):
            future.result()
            lane = self.thinking.pop(future)
            worker = self.workers[lane]
            assert worker is not None
            if worker.failure is not None and not stop.requested:
                self._record(worker)
            if worker.done:
                self.workers[lane] = None
                if worker.number not in self.recorded:
                    todo.appendleft(worker.number)
            if worker.start_error is None:
                self.pauses = 0
            else:
                self._pause(worker.start_error)

    def _pause(self, reason: str) -> None:
        """Begin no game for a while; failures that come together cause one pause.

        Raises:
          OSError: there have been enough pauses, and no game is in play.
        """
        now = time.monotonic()
        if now < self.paused_until:
            return
        in_play = any(worker is not None and worker.begun for worker in self.workers)
        if self.pauses == len(_PAUSES_S) and not in_play:
            raise OSError(f"{reason}; the same command resumes the match, with all games so far")
        self.pauses = min(self.pauses + 1, len(_PAUSES_S))
        self.paused_until = now + _PAUSES_S[self.pauses - 1]
