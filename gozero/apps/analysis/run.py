"""``gozero analyze --json``: queries of KataGo's protocol, each answered when its search ends.

One thread reads lines. The positions of a batch are searched together, in chunks of a tenth of a
second; between two chunks, new lines are handled: queries are queued, and terminated ones end.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gozero import __version__
from gozero.apps import flags, runtime, streams
from gozero.apps.analysis import query as queries
from gozero.apps.analysis.config import AnalyzeConfig
from gozero.apps.analysis.query import Query, QueryError
from gozero.compile import mode
from gozero.runs.memory import DoesNotFit

if TYPE_CHECKING:
    from gozero.apps.analysis.positions import Positions, RulesKey
    from gozero.apps.analysis.search import Searches

PROG = "gozero analyze"
CHECK_EVERY_S = 0.1
"""About how many seconds pass between two checks for input."""
SMALL_BATCH = 8
"""The positions of a small batch."""
MAX_BUFFERED = 2**25
"""The most bytes of lines read ahead and of waiting positions; beyond that, input must wait."""
LINE_BYTES = 2**7
"""The bytes that a line which was read ahead counts for, besides its own."""
MIN_POSITION_BYTES = 2**10
"""The fewest bytes that a position counts for."""

__all__ = ["AnalyzeConfig", "run"]


def run(config: AnalyzeConfig, stdin: Any = None, stdout: Any = None) -> int:
    """Answer all queries until the end of input; returns the exit status.

    Raises:
      SystemExit: status 2 and one line for files that do not exist, before any answer; or as
        `streams.serving`.
    """
    if config.is_random:
        print(runtime.random_network_message(), file=sys.stderr)
    with flags.exit_on_error(PROG):
        for name in config.own_files:
            if not getattr(config, name).is_file():
                raise ValueError(f"--{name} {getattr(config, name)}: no such file")
    with streams.serving(PROG, stdin, stdout) as (stdin, stdout):
        server = Server(config, stdout)
        threading.Thread(target=server.listen, args=(stdin,), daemon=True).start()
        print(f"gozero {__version__}, ready for queries", file=sys.stderr, flush=True)
        server.serve()
    return 0


@dataclasses.dataclass
class Job:
    """A position of a query, to be searched."""

    query: Query
    turn: int
    priority: float
    number: int  # by order of arrival
    size: int  # its share of the line, in bytes
    begun: float = 0.0
    next_report: float = 0.0
    ended: bool = False  # it was terminated, and is answered with the results so far


class Server:
    """Takes queries and answers them.

    Args:
      config: the flags.
      out: where answers are written, one per line.
      clock: seconds, from any origin.
      prog: the name of the command, for messages on stderr.
    """

    def __init__(
        self,
        config: AnalyzeConfig,
        out: Any,
        clock: Callable[[], float] = time.monotonic,
        prog: str = PROG,
    ):
        self._config, self._out, self._clock, self._prog = config, out, clock, prog
        self._inbox: queue.Queue[tuple[bytes | str, bool] | OSError | None] = queue.Queue()
        self._bytes_read = 0  # bytes of lines read, counted by `listen`; the next two by `serve`
        self._bytes_handled = self._bytes_waiting = (
            0  # bytes of lines handled, and of waiting positions
        )
        self._waiting: list[Job] = []
        self._running: list[Job] = []
        self._count, self._batches, self._closed = 0, 0, False
        self._searches: collections.OrderedDict[Any, Searches] = collections.OrderedDict()
        self._position_cache: Positions | None = None

    def listen(self, stream: Any) -> None:
        """Takes the lines of a stream until its end, except blank ones."""
        try:
            for line in streams.lines(stream, queries.MAX_LINE):
                if not line[0].strip():
                    continue
                self._bytes_read += len(line[0]) + LINE_BYTES
                self._inbox.put(line)
                while self._bytes_read - self._bytes_handled + self._bytes_waiting > MAX_BUFFERED:
                    time.sleep(CHECK_EVERY_S)
        except OSError as error:
            self._inbox.put(error)
        except ValueError:  # the stream was closed meanwhile
            pass
        self._inbox.put(None)

    def serve(self) -> None:
        """Answers until the end of input.

        Raises:
          OSError: a line cannot be read, or an answer cannot be written.
        """
        while not (self._closed and not self._waiting):
            self._handle_lines(wait=not self._waiting and not self._closed)
            if self._waiting:
                self._running = self._next_batch()
                try:
                    self._search(self._running)
                except OSError:
                    raise
                except Exception as error:  # fails this batch only; others may succeed
                    self._fail(error)
                self._running = []

    def _fail(self, error: Exception) -> None:
        """Answer the positions being searched with an error."""
        message = " ".join(f"internal error: {type(error).__name__}: {error}".split())[:300]
        print(f"{self._prog}: {message}", file=sys.stderr, flush=True)
        for job in self._running:
            self._send({"id": job.query.id, "turnNumber": job.turn, "error": message})

    def _handle_lines(self, wait: bool) -> None:
        """Handle the lines that have come; with `wait`, wait for at least one."""
        while True:
            try:
                line = self._inbox.get(block=wait, timeout=None)
            except queue.Empty:
                return
            wait = False
            if isinstance(line, OSError):
                raise line
            if line is None:
                self._closed = True
            else:
                self._handle(*line)
                self._bytes_handled += len(line[0]) + LINE_BYTES

    def _send(self, answer: dict) -> None:
        self._out.write(json.dumps(answer) + "\n")
        self._out.flush()

    def _handle(self, line: bytes | str, is_whole: bool) -> None:
        fields: dict = {}
        try:
            fields = queries.decode(line, is_whole)
            if "action" in fields:
                self._act(fields)
                return
            query = queries.read(fields, self._config.simulations)
            self._positions().check(query, self._checked_rules(query))
        except QueryError as error:
            answer: dict[str, Any] = {"error": str(error)}
            answer |= {} if error.field is None else {"field": error.field}
            self._send(answer | ({"id": fields["id"]} if isinstance(fields.get("id"), str) else {}))
            return
        for field, message in query.warnings:
            self._send({"id": query.id, "field": field, "warning": message})
        for turn, priority in zip(query.turns, query.priorities, strict=True):
            self._count += 1
            size = max(MIN_POSITION_BYTES, len(line) // len(query.turns))
            self._waiting.append(Job(query, turn, priority, self._count, size))
            self._bytes_waiting += size

    def _act(self, fields: dict) -> None:
        """Perform query_version, clear_cache, terminate, terminate_all or query_models."""
        action = fields["action"]
        if not isinstance(fields.get("id"), str):
            raise QueryError("id", "Must be a string")
        if action == "query_version":
            self._send({**fields, "version": __version__, "git_hash": "gozero"})
        elif action == "query_models":
            self._send({**fields, "models": []})
        elif action == "clear_cache":
            self._position_cache = None
            self._send(fields)
        elif action in ("terminate", "terminate_all"):
            target_id = fields.get("terminateId")
            if action == "terminate" and not isinstance(target_id, str):
                raise QueryError("terminateId", "Must be a string")
            turns = fields.get("turnNumbers")
            is_list = isinstance(turns, list) and all(isinstance(turn, int) for turn in turns)
            if turns is not None and not is_list:
                raise QueryError("turnNumbers", "Must be an array of integers")
            self._send(fields)
            target_turns = None if turns is None else set(turns)
            self._terminate(target_id if action == "terminate" else None, target_turns)
        else:
            raise QueryError("action", f"Unknown action: {str(action)[:40]}")

    def _terminate(self, target_id: str | None, turns: set[int] | None) -> None:
        is_target = lambda job: (
            (target_id is None or job.query.id == target_id)
            and (turns is None or job.turn in turns)
        )
        for job in filter(is_target, self._running):
            job.ended = True
        terminated = [job for job in self._waiting if is_target(job)]
        self._wait_for([job for job in self._waiting if not is_target(job)])
        for job in terminated:
            self._send(_no_results(job))

    def _wait_for(self, jobs: list[Job]) -> None:
        """Set the jobs that wait to be searched."""
        self._waiting, self._bytes_waiting = jobs, sum(job.size for job in jobs)

    def _positions(self) -> Positions:
        if self._position_cache is None:
            from gozero.apps.analysis.positions import Positions  # imports JAX, which takes seconds

            self._position_cache = Positions()
        return self._position_cache

    def _rules_of(self, query: Query) -> RulesKey:
        ko = query.ko or self._config.ko
        return query.size, ko, query.suicide, self._config.on(query.size).needs_past_boards

    def _checked_rules(self, query: Query) -> RulesKey:
        """`_rules_of` a query that has just been read.

        Raises:
          QueryError: the flags do not allow its board.
        """
        try:
            return self._rules_of(query)
        except ValueError as error:
            raise QueryError("boardXSize", str(error)) from error

    def _next_batch(self) -> list[Job]:
        """The waiting job of the highest priority, and others under the same rules.

        On a CPU, where a search takes time in proportion to its positions, the others have the same
        priority, and batches of a priority below 0 are small, so that jobs which arrive meanwhile
        wait less.
        """
        self._waiting.sort(key=lambda job: (-job.priority, job.number))
        first, most = self._waiting[0], self._config.batch
        rules = self._rules_of(first.query)
        batch = [job for job in self._waiting if self._rules_of(job.query) == rules]
        if mode.backend() == "cpu":
            batch = [job for job in batch if job.priority == first.priority]
            limit = most if first.priority >= 0 else min(most, SMALL_BATCH)
            most = _cpu_size(len(batch), limit)
        batch = batch[:most]
        chosen = {job.number for job in batch}
        self._wait_for([job for job in self._waiting if job.number not in chosen])
        return batch

    def _searches_for(self, key: RulesKey) -> Searches:
        from gozero.apps.analysis.search import Searches

        if key not in self._searches:
            from gozero.apps.analysis.positions import rules_of

            board_config, config = self._config.on(key[0]), self._config
            message = runtime.compiling_message(key[0], katago=config.uses_katago_network)
            print(f"{self._prog}: {message}", file=sys.stderr, flush=True)
            searches = Searches(rules_of(key), board_config, config.seed, config.score_playouts)
            self._searches[key] = searches
            while len(self._searches) > 4:
                self._searches.popitem(last=False)
        self._searches.move_to_end(key)
        return self._searches[key]

    def _search(self, batch: list[Job]) -> None:
        """Search some jobs in lockstep."""
        key, size = self._rules_of(batch[0].query), _padded_size(len(batch), self._config.batch)
        try:
            searches = self._searches_for(key)
            if size not in searches.compiled:
                print(f"{self._prog}: {searches.check_memory(size)}", file=sys.stderr, flush=True)
        except ValueError as error:  # weights of another size, say, or too little memory
            field = {} if isinstance(error, DoesNotFit) else {"field": "boardXSize"}
            for job in batch:
                where = {"id": job.query.id, "turnNumber": job.turn}
                self._send({**where, "error": str(error), **field})
            return
        states = [self._positions().to_search(job.query, job.turn, key) for job in batch]
        padded = states + states[-1:] * (size - len(states))
        searches.compile(padded)
        self._batches += 1
        now = self._clock()
        for job in batch:
            job.begun, job.next_report = now, now + job.query.first_report
        self._advance(searches, *searches.begin(self._batches, padded))

    def _advance(self, searches: Searches, running: Any, states: Any) -> None:
        """Run a search until each job is answered: when its visits or its time are used up, and
        before that as often as its query asks."""
        from gozero.search.runner import next_chunk

        leaves, open_jobs = searches.settings.leaves, dict(enumerate(self._running))
        done, steps, analyses = 0, 4, None
        while open_jobs:
            to_do = min(self._simulations(job) for job in open_jobs.values()) - done
            steps = max(1, min(steps, -(-to_do // leaves)))
            before = self._clock()
            running = searches.advance(running, steps)
            now, done = self._clock(), done + steps * leaves
            steps = next_chunk(steps, now - before, CHECK_EVERY_S)
            self._handle_lines(wait=False)
            over = {i for i, job in open_jobs.items() if self._is_over(job, done, now)}
            due = over | {i for i, job in open_jobs.items() if now >= job.next_report}
            if due:
                analyses = searches.analyse_fully(running, states, analyses)
            for i in sorted(due):
                self._send_result(open_jobs[i], analyses, i, during=i not in over)
                open_jobs[i].next_report = now + open_jobs[i].query.report_every
            open_jobs = {i: job for i, job in open_jobs.items() if i not in over}
            self._running = list(open_jobs.values())

    def _simulations(self, job: Job) -> int:
        """The simulations for the visits that a job requests, limited to the capacity of the trees.
        As in KataGo the evaluation of the root is the first of the visits."""
        visits = min(job.query.visits or self._config.simulations, self._config.simulations)
        return max(1, visits - 1)

    def _is_over(self, job: Job, done: int, now: float) -> bool:
        """Whether a job has used up its visits or its time, or was terminated."""
        is_late = now - job.begun >= job.query.max_time
        return job.ended or done >= self._simulations(job) or is_late

    def _send_result(self, job: Job, analyses: Any, i: int, during: bool) -> None:
        from gozero.apps.analysis.answer import answer

        analysis = type(analyses)(*(field[i] for field in analyses))
        if not analysis.ok:
            error = "an evaluation was not finite"
            if not during:  # only once
                self._send({"id": job.query.id, "turnNumber": job.turn, "error": error})
            return
        view = job.query.winrates_as or self._config.report_winrates_as
        self._send(answer(job.query, job.turn, analysis, view, during))


def _no_results(job: Job) -> dict:
    return {
        "id": job.query.id,
        "isDuringSearch": False,
        "noResults": True,
        "turnNumber": job.turn,
    }


def _padded_size(count: int, most: int) -> int:
    """The size to which a batch of `count` positions is padded: one of few, as each is compiled."""
    return next((size for size in (1, SMALL_BATCH, most) if count <= size <= most), most)


def _cpu_size(count: int, most: int) -> int:
    """The size of a CPU's next batch if `count` positions wait: the largest of the sizes to which
    batches are padded that is at least half full."""
    sizes = (1, SMALL_BATCH, most)
    return max(size for size in sizes if size <= min(most, max(1, 2 * count)))
