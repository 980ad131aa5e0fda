"""The players and the analysis engine that all boards of a process share. JAX is imported late."""

from __future__ import annotations

import collections
import itertools
import json
import queue
import sys
import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gozero.apps import runtime
from gozero.apps.analysis.run import Server
from gozero.apps.web.config import ThinkingConfig
from gozero.go import coords

if TYPE_CHECKING:
    from gozero.apps.gtp.search import Searcher
    from gozero.apps.web.variations import Variations
    from gozero.go.rules import Rules

OURS = "flags"
"""The name of the player that the command's flags define, if they are more than a name."""

OnAnswer = Callable[[dict], None]
"""Takes an answer of KataGo's analysis protocol; called in the analysis engine's thread."""


def is_of_query(answer: dict) -> bool:
    """Whether an answer is the error of a whole query, after which no other comes."""
    return "error" in answer and "turnNumber" not in answer


class Thinking:
    """Answers the requests of boards: moves of players, and analyses.

    Args:
      config: the flags.
      prog: the name of the command, for messages on stderr about compilation.
    """

    def __init__(self, config: ThinkingConfig, prog: str):
        self.config, self._prog = config, prog
        self._searchers: collections.OrderedDict[Any, Searcher] = collections.OrderedDict()
        self._lock, self._device = threading.Lock(), threading.Lock()
        self._numbers = itertools.count(1)
        self._queries: queue.Queue[str] = queue.Queue()
        self._pending: dict[str, tuple[OnAnswer, set[int]]] = {}  # with the turns left
        self._engine: threading.Thread | None = None
        self._analysed_sizes: set[int] = set()

    def waiting_text(self, name: str | None, rules: Rules) -> str | None:
        """The notice that a player, or the analysis (None), will compile, before its first use
        under these rules; None if it is compiled."""
        has_analysed = rules.size in self._analysed_sizes
        is_compiled = has_analysed if name is None else (name, rules) in self._searchers
        return None if is_compiled else self.compiling_text(name, rules.size)

    def compiling_text(self, name: str | None, size: int) -> str:
        """The notice that a player, or the analysis (None), compiles for a board size."""
        is_ours = name is None or name == OURS  # no named player has a KataGo network
        katago = is_ours and self.config.uses_katago_network
        return runtime.compiling_message(size, katago=katago)

    def choose(self, name: str, variations: Variations) -> int | None:
        """The action of a player in the current position; None: it resigns.

        Raises:
          ValueError: the player cannot play on this board, or its evaluation is not finite.
        """
        game = variations.game
        if game.ended or game.wins_by_passing(game.to_play):
            return game.rules.pass_action
        with self._device:  # one search at a time
            searcher = self._searcher(name, variations)
            move = searcher.search(game.state, game.to_play, next(self._numbers))
        if not move.ok:
            raise ValueError("an evaluation was not finite")
        return None if move.resigns else move.action

    def _searcher(self, name: str, variations: Variations) -> Searcher:
        from gozero.apps.gtp.search import make_searcher

        size, rules = variations.size, variations.game.rules
        if (name, rules) not in self._searchers:
            print(f"{self._prog}: {self.compiling_text(name, size)}", file=sys.stderr, flush=True)
            config = self.config.to_play(None if name == OURS else name, size)
            self._searchers[name, rules] = make_searcher(rules, config)
            while len(self._searchers) > 8:
                self._searchers.popitem(last=False)
        self._searchers.move_to_end((name, rules))
        return self._searchers[name, rules]

    def analyse(
        self, variations: Variations, moves: list, turns: list[int], on_answer: OnAnswer
    ) -> str:
        """Request the analysis of positions of a line; they are searched in lockstep.

        Args:
          variations: the game.
          moves: (colour, action) of the line.
          turns: the positions, each by the number of moves before it.
          on_answer: called with each answer.

        Returns:
          The query's id, for `cancel`.
        """
        size, record = variations.size, variations.record
        name = lambda action: coords.to_gtp(size, action)
        self._analysed_sizes.add(size)
        id_ = str(next(self._numbers))
        query = {
            "id": id_,
            "moves": [["BW"[colour], name(action)] for colour, action in moves],
            "initialStones": [["B", name(point)] for point in record.black_stones]
            + [["W", name(point)] for point in record.white_stones],
            "initialPlayer": "BW"[variations.nodes[0].colour],
            "komi": record.komi,
            "rules": {"ko": self.config.ko.upper(), "suicide": self.config.suicide},
            "boardXSize": size,
            "boardYSize": size,
            "analyzeTurns": turns,
            "includeOwnership": True,
            "includePolicy": True,
            "priority": 1 if len(turns) == 1 else 0,
        }
        if len(turns) == 1:
            query["reportDuringSearchEvery"] = 0.4
        with self._lock:
            self._pending[id_] = on_answer, set(turns)
        self._send_query(query)
        return id_

    def cancel(self, id_: str) -> None:
        """Cancel a query: it gets no more answers, and its searches end."""
        if self._pending.pop(id_, None) is not None:
            self._send_query({"id": f"end {id_}", "action": "terminate", "terminateId": id_})

    def _send_query(self, query: dict) -> None:
        with self._lock:
            if self._engine is None:
                self._queries = queue.Queue()  # the reader of an earlier engine keeps its own queue
                self._engine = threading.Thread(target=self._serve, daemon=True)
                self._engine.start()
            self._queries.put(json.dumps(query))

    def _serve(self) -> None:
        """Run the analysis engine, in its own thread, with this object as its input and output."""
        queries = self._queries
        stdin = types.SimpleNamespace(readline=lambda size: queries.get() + "\n")
        try:
            server = Server(self.config.to_analyse(), self, prog=self._prog)
            threading.Thread(target=server.listen, args=(stdin,), daemon=True).start()
            server.serve()
        except Exception as error:  # its thread ends, so all pending queries get an error
            with self._lock:
                pending, self._pending, self._engine = self._pending, {}, None
            for on_answer, _ in pending.values():
                on_answer({"error": f"the analysis ended: {type(error).__name__}: {error}"})

    def write(self, line: str) -> None:
        """Pass an answer of the analysis engine to its query's `on_answer`."""
        answer = json.loads(line)
        on_answer, turns_left = self._pending.get(answer.get("id"), (None, set()))
        if on_answer is None:
            return
        if not answer.get("isDuringSearch", False):
            turns_left.discard(answer.get("turnNumber"))
            if not turns_left or is_of_query(answer):
                self._pending.pop(answer["id"], None)
        on_answer(answer)

    def flush(self) -> None:
        """Does nothing, because nothing is buffered."""
