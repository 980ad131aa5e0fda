"""Players and the analysis engine that all boards of a process share. JAX is imported when used."""

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
"""The name of the player that the command's flags describe, where they say more than a name."""

OnAnswer = Callable[[dict], None]
"""Takes an answer of KataGo's analysis protocol; called in the analysis engine's thread."""


class Thinking:
    """What boards ask: a move of a player, and what an analysis finds.

    Args:
      config: the flags.
      prog: the name of the command, which says on stderr what takes long.
    """

    def __init__(self, config: ThinkingConfig, prog: str):
        self.config, self._prog = config, prog
        self._searchers: collections.OrderedDict[Any, Searcher] = collections.OrderedDict()
        self._lock, self._device = threading.Lock(), threading.Lock()
        self._numbers = itertools.count(1)
        self._queries: queue.Queue[str] = queue.Queue()
        self._asked: dict[str, tuple[OnAnswer, set[int]]] = {}  # and the turns that are left
        self._engine: threading.Thread | None = None
        self._analysed: set[int] = set()

    def waiting_text(self, name: str | None, rules: Rules) -> str | None:
        """What to say before a player, or the analysis (None), is asked under some rules for the
        first time: that it compiles."""
        analysed = rules.size in self._analysed
        known = analysed if name is None else (name, rules) in self._searchers
        return None if known else runtime.compiling(rules.size)

    def choose(self, name: str, variations: Variations) -> int | None:
        """The action of a player where the game stands; None: it resigns.

        Raises:
          ValueError: a player that is not for this board.
        """
        game = variations.game
        if game.ended or game.wins_by_passing(game.to_play):
            return game.rules.pass_action
        with self._device:  # a search waits for the one before
            searcher = self._searcher(name, variations)
            found = searcher.search(game.state, game.to_play, next(self._numbers))
        if not found.ok:
            raise ValueError("the evaluator gave a number that is not finite")
        return None if found.resigns else found.action

    def _searcher(self, name: str, variations: Variations) -> Searcher:
        from gozero.apps.gtp.search import make_searcher

        size, rules = variations.size, variations.game.rules
        if (name, rules) not in self._searchers:
            print(f"{self._prog}: {runtime.compiling(size)}", file=sys.stderr, flush=True)
            config = self.config.to_play(None if name == OURS else name, size)
            self._searchers[name, rules] = make_searcher(rules, config)
            while len(self._searchers) > 8:
                self._searchers.popitem(last=False)
        self._searchers.move_to_end((name, rules))
        return self._searchers[name, rules]

    def analyse(
        self, variations: Variations, moves: list, turns: list[int], on_answer: OnAnswer
    ) -> str:
        """Ask for the analysis of positions of a line; they are searched in lockstep.

        Args:
          variations: the game.
          moves: (colour, action) of the line.
          turns: after how many of its moves.
          on_answer: takes the answers.

        Returns:
          The query's id, for `cancel`.
        """
        size, record = variations.size, variations.record
        name = lambda action: coords.to_gtp(size, action)
        self._analysed.add(size)
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
            self._asked[id_] = on_answer, set(turns)
        self._ask(query)
        return id_

    def cancel(self, id_: str) -> None:
        """No more answers to a query; what is searched of it ends."""
        if self._asked.pop(id_, None) is not None:
            self._ask({"id": f"end {id_}", "action": "terminate", "terminateId": id_})

    def _ask(self, query: dict) -> None:
        with self._lock:
            if self._engine is None:
                self._queries = (
                    queue.Queue()
                )  # the reader of an engine that has ended keeps its own
                self._engine = threading.Thread(target=self._serve, daemon=True)
                self._engine.start()
            self._queries.put(json.dumps(query))

    def _serve(self) -> None:
        """The analysis engine, in a thread of its own: we are its standard input and output."""
        queries = self._queries
        stdin = types.SimpleNamespace(readline=lambda size: queries.get() + "\n")
        try:
            server = Server(self.config.to_analyse(), self)
            threading.Thread(target=server.listen, args=(stdin,), daemon=True).start()
            server.serve()
        except Exception as error:  # its thread ends: whoever waits must hear of it
            with self._lock:
                asked, self._asked, self._engine = self._asked, {}, None
            for on_answer, _ in asked.values():
                on_answer({"error": f"the analysis ended: {type(error).__name__}: {error}"})

    def write(self, line: str) -> None:
        """Hand an answer of the analysis engine to who asked."""
        answer = json.loads(line)
        on_answer, left = self._asked.get(answer.get("id"), (None, set()))
        if on_answer is None:
            return
        if not answer.get("isDuringSearch", False):
            left.discard(answer.get("turnNumber"))
            if not left or "error" in answer:
                self._asked.pop(answer["id"], None)
        on_answer(answer)

    def flush(self) -> None:
        """Nothing is kept back."""
