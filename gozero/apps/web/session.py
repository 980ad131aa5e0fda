"""The session behind a board in a browser or a notebook: the messages from it and to it.

Messages are JSON objects. From the board, by ``do``: ``new`` (size, komi, black, white, handicap),
``play`` (at), ``undo``, ``goto`` (node), ``resign``, ``move`` (the engine plays), ``pause``,
``analyse`` (on), ``review``, ``load`` (sgf; without a komi, that of the flags), ``save``,
``watch`` (what, player, size, games), ``unwatch``, ``open`` (game: of those watched), ``hello``. To
the board, by ``tell``: ``hello``, ``game`` (all nodes), ``node`` (a new one), ``at`` (the current
position), ``analysis``, ``busy``, ``sgf``, ``games``, ``error``. `Session.take` handles the former,
`Session.tell` sends the latter.
Actions are numbers, row-major from the top left, and size * size is the pass; wins and leads are
Black's.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import queue
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gozero.apps import rule_sets, sgf
from gozero.apps.sgf import GameRecord
from gozero.apps.web.thinking import OURS, Thinking, is_of_query
from gozero.go import coords, handicap
from gozero.go.coords import KOMI_EXPECTED, MAX_SIZE, MIN_SIZE, is_komi
from gozero.play import players

if TYPE_CHECKING:
    from gozero.apps.web.variations import Variations
    from gozero.apps.web.watch import Watched

YOU = "you"
"""The name of a player who moves by hand."""

_CANDIDATES = 10
"""The most moves of a position in the analysis sent to the board."""

_MAX_WAITING = 64  # messages


class BadMessage(ValueError):
    """A message that no board would send."""


class Session:
    """One board: its game, its players, and the messages to it.

    Args:
      thinking: the players and the analysis.
      tell: sends a message to the board; may be called from any thread.
      folder: the folder of games to watch, if any.
    """

    def __init__(
        self,
        thinking: Thinking,
        tell: Callable[[dict], None],
        folder: pathlib.Path | None = None,
    ):
        self._thinking, self.tell, self._folder = thinking, tell, folder
        self._watching: Watched | None = None
        self._watch_interval: float | None = None
        self._inbox: queue.Queue[dict | None] = queue.Queue()
        self._variations: Variations | None = None
        self._players = (YOU, YOU)
        self._is_engines_turn = False  # and it must move now
        self._query: str | None = None  # of the current position
        self._reviews: list[str] = []
        self._is_analysing = False
        self._progress = ""  # of the analysis, as the board shows it
        self._analyses: dict[int, dict] = {}

    def put(self, message: dict | None) -> None:
        """Queue a message for `run`; None ends it."""
        self._inbox.put(message)

    @property
    def is_full(self) -> bool:
        """Whether so many messages wait for `run` that no more should be put."""
        return self._inbox.qsize() >= _MAX_WAITING

    def run(self) -> None:
        """Take messages until the end, and play the engines' moves in between."""
        while True:
            wait = 0.0 if self._is_engines_turn else self._watch_interval
            try:
                message = self._inbox.get(wait != 0, wait)
            except queue.Empty:
                if self._is_engines_turn:
                    self._attempt(self._engine_moves, self._show_position)
                else:
                    self._attempt(self._show_watched, self._stop_watching)
                continue
            if message is None:
                self._cancel()
                return
            self._attempt(functools.partial(self.take, message))

    def settle(self) -> None:
        """Play the engines' moves that are due, for a board that waits for them.

        Raises:
          ValueError: a player cannot play on this board.
        """
        while self._is_engines_turn:
            self._engine_moves()

    def _attempt(
        self, work: Callable[[], None], after_error: Callable[[], None] | None = None
    ) -> None:
        """Do `work`; an error is sent to the board, and the session continues."""
        try:
            work()
        except Exception as error:  # such as a device out of memory: the session must continue
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            self.tell({"tell": "error", "text": f"{kind}{error}"[:500]})
            if after_error is not None:
                self._attempt(after_error)
        if not self._is_engines_turn:
            self._busy("")

    def _hello(self, message: dict) -> None:
        """Send the board the players and sizes, and the game if there is one already."""
        del message
        config = self._thinking.config
        names = list(typing.get_args(players.PlayerName))
        player = config.player if config.is_by_name else OURS
        settings = {"sizes": [MIN_SIZE, MAX_SIZE], "size": config.size, "komi": config.komi}
        names += [OURS] if player == OURS else []
        description = config.text if player == OURS else ""
        settings |= {
            "folder": self._folder and str(self._folder),
            "started": self._variations is not None,
        }
        self.tell(
            {"tell": "hello", "players": names, "player": player, "about": description, **settings}
        )
        if self._variations is not None:
            self._send_game()
            for analysis in list(self._analyses.values()):  # a copy: the analysis may add to it
                self.tell(analysis)
            self._show_position()

    def take(self, message: dict) -> None:
        """Do what a message asks.

        Raises:
          ValueError: the message is invalid, or its request is impossible.
        """
        do = message.get("do")
        if not isinstance(do, str) or do not in _HANDLERS:
            raise BadMessage(f"do: {str(do)[:40]!r} is not one of {', '.join(_HANDLERS)}")
        if do not in _WITHOUT_GAME and self._variations is None:
            raise BadMessage(f"{do}: there is no game yet")
        _HANDLERS[do](self, message)

    @property
    def has_game(self) -> bool:
        """Whether there is a game, from a message `new`, `load` or `open`."""
        return self._variations is not None

    @property
    def tree(self) -> Variations:
        """The game; only valid if `has_game`."""
        assert self._variations is not None  # `take` checks this
        return self._variations

    def _new(self, message: dict) -> None:
        size = _integer(message, "size", MIN_SIZE, MAX_SIZE)
        komi: Any = message.get("komi")
        if type(komi) not in (int, float) or not is_komi(komi):
            raise BadMessage(f"komi: {str(komi)[:40]} is not {KOMI_EXPECTED}")
        names = self._player_of(message, "black"), self._player_of(message, "white")
        stones = ()
        if message.get("handicap", 0):
            stones = tuple(handicap.fixed(size, _integer(message, "handicap", 2, 9)))
        config = self._thinking.config
        record = GameRecord(
            size,
            float(komi),
            (),
            black=names[0],
            white=names[1],
            rules=rule_sets.sgf_name(config.ko, config.suicide),
            black_stones=stones,
            handicap=len(stones),
        )
        self._begin(record, names)
        self._is_engines_turn = names[self.tree.game.to_play] != YOU
        self._show_position()

    def _load(self, message: dict) -> None:
        text = message.get("sgf")
        if not isinstance(text, str):
            raise BadMessage("sgf: expected the text of a file")
        record = sgf.read(text.encode("utf-8", "replace"), "UTF-8")
        if not record.komi_given:
            komi = self._thinking.config.komi
            record = dataclasses.replace(record, komi=komi, komi_given=True)
        self._begin(record, (YOU, YOU))
        self._show_position()

    def _begin(self, record: GameRecord, names: tuple[str, str]) -> None:
        """Begin another game, which replaces the current one once it is set up."""
        from gozero.apps.web.variations import Variations

        config = self._thinking.config
        if self._variations is None:
            self._busy("starting")
        variations = Variations(record, config.ko, config.suicide, config.needs_past_boards)
        self._cancel()
        self._variations, self._players, self._is_engines_turn = variations, names, False
        self._analyses = {}
        self._stop_watching()
        self._send_game()

    def _send_game(self) -> None:
        tree = self.tree
        record = tree.record
        self.tell(
            {
                "tell": "game",
                "size": record.size,
                "komi": record.komi,
                "nodes": [[node.parent, node.colour, node.action] for node in tree.nodes],
                "hands": [name == YOU for name in self._players],
                "black": record.black,
                "white": record.white,
                "last": len(record.moves),  # the node to which the record's result belongs
                "result": record.result,
                "comment": record.comment,
                "comments": ["", *record.move_comments],
            }
        )

    def _player_of(self, message: dict, field: str) -> str:
        name = message.get(field)
        if name not in (YOU, OURS, *typing.get_args(players.PlayerName)):
            raise BadMessage(f"{field}: {str(name)[:40]!r} is not a player")
        return typing.cast(str, name)

    def _play(self, message: dict) -> None:
        if self._is_engines_turn:
            raise BadMessage("it is not your turn")
        self._play_action(_integer(message, "at", 0, self.tree.size**2))
        turn = self._players[self.tree.game.to_play]
        self._is_engines_turn = turn != YOU and self._result() is None
        self._show_position()

    def _play_action(self, action: int) -> None:
        tree, count = self.tree, len(self.tree.nodes)
        before = tree.at
        node = tree.play(action)
        if len(tree.nodes) > count:
            new_node = tree.nodes[node]
            self.tell({"tell": "node", "node": [new_node.parent, new_node.colour, new_node.action]})
        tree.nodes[before].result = None  # if it had been resigned, the game went on

    def _engine_moves(self) -> None:
        """Let the engine move in the current position; if it fails, it is no longer its turn."""
        tree, self._is_engines_turn = self.tree, False
        name = self._players[tree.game.to_play]
        if name == YOU:
            config = self._thinking.config
            name = typing.cast(str, config.player) if config.is_by_name else OURS
        self._busy(self._thinking.waiting_text(name, tree.game.rules) or f"{name} thinks")
        action = self._thinking.choose(name, tree)
        if action is None:
            self._give_up()
        else:
            self._play_action(action)
        turn = self._players[tree.game.to_play]
        self._is_engines_turn = turn != YOU and self._result() is None
        self._show_position()

    def _move(self, message: dict) -> None:
        del message
        self._check_not_over()
        self._is_engines_turn = True

    def _pause(self, message: dict) -> None:
        del message
        self._is_engines_turn = False
        self._show_position()

    def _undo(self, message: dict) -> None:
        """Go back to the last position in which a human was to move, else by one move."""
        del message
        tree, self._is_engines_turn = self.tree, False
        if tree.at == 0:
            raise BadMessage("there is no move to take back")
        line = tree.path(tree.at)[:-1]
        own_turns = [i for i in line if self._players[self._turn_after(i)] == YOU]
        tree.nodes[tree.at].result = None
        tree.take_back(own_turns[-1] if own_turns else line[-1])
        self._show_position()

    def _turn_after(self, node: int) -> int:
        tree = self.tree
        return 1 - tree.nodes[node].colour if node else tree.nodes[0].colour

    def _goto(self, message: dict) -> None:
        self._is_engines_turn = False
        self.tree.go_to(_integer(message, "node", 0, len(self.tree.nodes) - 1))
        self._show_position()

    def _resign(self, message: dict) -> None:
        del message
        self._check_not_over()
        self._give_up()
        self._is_engines_turn = False
        self._show_position()

    def _give_up(self) -> None:
        """The player to move resigns in the current position."""
        self.tree.nodes[self.tree.at].result = "BW"[1 - self.tree.game.to_play] + "+R"

    def _check_not_over(self) -> None:
        if self._result() is not None:
            raise BadMessage("the game is over")

    def _save(self, message: dict) -> None:
        del message
        self.tell({"tell": "sgf", "text": self.tree.to_sgf()})

    def _result(self) -> str | None:
        """The result at the current position; None if the game goes on."""
        tree = self.tree
        node, record = tree.nodes[tree.at], tree.record
        if node.result is None and tree.game.ended:
            is_recorded = tree.at == len(record.moves) and record.result not in ("", "?")
            by_score = coords.result_text(tree.game.score())
            node.result = record.result if is_recorded else by_score
        return node.result

    def _analyse(self, message: dict) -> None:
        self._is_analysing = message.get("on") is True
        self._show_position()

    def _review(self, message: dict) -> None:
        """Analyse every position of the current line."""
        del message
        self._cancel()
        tree = self.tree
        line = tree.line()
        turns = [turn for turn, node in enumerate(line) if not _is_final(self._analyses.get(node))]
        if turns:
            self._reviews.append(self._query_positions(line, turns))

    def _show_position(self) -> None:
        """Send the current position to the board, and request its analysis if that is on."""
        from gozero.apps.web.variations import board_text

        tree, game = self.tree, self.tree.game
        message: dict[str, Any] = {
            "tell": "at",
            "node": tree.at,
            "stones": board_text(game.stones()),
            "turn": game.to_play,
            "ended": self._result() is not None,
            "engine": self._is_engines_turn,
            "retracted": [i for i, node in enumerate(tree.nodes) if node.retracted],
        }
        if message["ended"]:
            message["result"] = self._result()
        self.tell(message)
        if self._query is not None:
            self._cancel_query(self._query)
            self._query = None
        if self._is_analysing and not game.ended and not _is_final(self._analyses.get(tree.at)):
            line = tree.path(tree.at)
            self._query = self._query_positions(line, [len(line) - 1])

    def _query_positions(self, line: list[int], turns: list[int]) -> str:
        """Query positions of a line of nodes; the answers are passed on to the board."""
        tree = self.tree
        progress = self._thinking.waiting_text(None, tree.game.rules) or _progress(0, len(turns))
        self._show_progress(progress)
        on_answer = functools.partial(self._on_answer, tree, line, set(turns), len(turns))
        return self._thinking.analyse(tree, tree.moves(line[-1]), turns, on_answer)

    def _on_answer(
        self, tree: Variations, line: list[int], turns_left: set[int], count: int, answer: dict
    ) -> None:
        """Pass an answer of the analysis engine to the board; called in the engine's thread.
        `turns_left` are the turns without a final answer."""
        analyses = self._analyses  # read first: `_begin` may be running, and sets it after the tree
        if tree is not self._variations:
            return
        if not answer.get("isDuringSearch"):
            turns_left.discard(answer.get("turnNumber", -1))
        progress = _progress(count - len(turns_left), count)
        if not turns_left or is_of_query(answer):
            progress = ""
        self._show_progress(progress)
        if "error" in answer:
            self.tell({"tell": "error", "text": str(answer["error"])})
        elif "rootInfo" in answer:
            node = line[answer["turnNumber"]]
            message = _analysis(tree.size, node, answer)
            analyses[node], tree.nodes[node].win = message, message["win"]
            self.tell(message)

    def _watch(self, message: dict) -> None:
        """Show games played elsewhere, instead of the board's own."""
        from gozero.apps.web import watch

        self._stop_watching()
        self._is_engines_turn, config = False, self._thinking.config
        if message.get("what") == "folder":
            if self._folder is None:
                raise BadMessage("watch: no folder; start with --watch FOLDER")
            self._watching = watch.WatchedFolder(self._folder, config.ko, config.suicide)
            self._watch_interval = 1.0
            return
        if message.get("what") != "selfplay":
            raise BadMessage("watch: expected selfplay or folder")
        name, games = self._player_of(message, "player"), _integer(message, "games", 1, 16)
        size = _integer(message, "size", MIN_SIZE, MAX_SIZE)
        self._busy(self._thinking.compiling_text(name, size))
        player = config.to_play(None if name == OURS else name, size)
        self._watching = watch.WatchedSelfPlay(player, name, games, config.komi)
        self._watch_interval = 0.3

    def _show_watched(self) -> None:
        message = self._watching.look() if self._watching else None
        if message is not None:
            self.tell(message)

    def _unwatch(self, message: dict) -> None:
        del message
        self._stop_watching()
        if self.has_game:  # watching has stopped the engine
            self._show_position()

    def _stop_watching(self) -> None:
        self._watching, self._watch_interval = None, None

    def _open(self, message: dict) -> None:
        """Open one of the watched games, to view or continue it."""
        if self._watching is None:
            raise BadMessage("open: no games are watched")
        number = _integer(message, "game", 0, 15)
        try:
            record = self._watching.record(number)
        except IndexError:
            raise BadMessage(f"open: there is no game {number}") from None
        self._begin(record, (YOU, YOU))
        self.tree.go_to(len(self.tree.nodes) - 1)
        self._show_position()

    def _cancel(self) -> None:
        """Cancel all queries, so that no more answers arrive."""
        for id_ in [self._query, *self._reviews]:
            if id_ is not None:
                self._cancel_query(id_)
        self._query, self._reviews = None, []

    def _cancel_query(self, id_: str) -> None:
        """Cancel a query, of which the board then shows no progress."""
        self._thinking.cancel(id_)
        if self._progress:
            self._show_progress("")

    def _show_progress(self, text: str) -> None:
        """Show how far the analysis is; nothing once it is over."""
        self._progress = text
        self.tell({"tell": "busy", "text": text, "of": "analysis"})

    def _busy(self, text: str) -> None:
        self.tell({"tell": "busy", "text": text})


_HANDLERS: dict[str, Callable[[Session, dict], None]] = {
    "new": Session._new,
    "load": Session._load,
    "play": Session._play,
    "move": Session._move,
    "pause": Session._pause,
    "undo": Session._undo,
    "goto": Session._goto,
    "resign": Session._resign,
    "analyse": Session._analyse,
    "review": Session._review,
    "save": Session._save,
    "watch": Session._watch,
    "unwatch": Session._unwatch,
    "open": Session._open,
    "hello": Session._hello,
}

_WITHOUT_GAME = ("new", "load", "watch", "unwatch", "open", "hello")


def _integer(message: dict, field: str, least: int, most: int) -> int:
    value = message.get(field)
    if type(value) is not int or not least <= value <= most:
        raise BadMessage(f"{field}: {str(value)[:40]} is not a whole number from {least} to {most}")
    return value


def _progress(done: int, count: int) -> str:
    return f"{done} of {count} positions" if count > 1 else "searching"


def _is_final(analysis: dict | None) -> bool:
    return analysis is not None and analysis["whole"]


def _analysis(size: int, node: int, answer: dict) -> dict:
    """An answer as a message to the board: Black's wins from 0 to 1, and lead in points."""
    action = lambda vertex: coords.from_gtp(size, vertex)
    root = answer["rootInfo"]
    moves = [
        {
            "at": action(info["move"]),
            "visits": info["visits"],
            "win": info["winrate"],
            "lead": info["scoreLead"],
            "prior": info["prior"],
            "line": [action(vertex) for vertex in info["pv"]],
        }
        for info in answer["moveInfos"][:_CANDIDATES]
    ]
    finite = lambda values: [round(x, 3) if math.isfinite(x) else 0.0 for x in values]
    return {
        "tell": "analysis",
        "node": node,
        "whole": not answer["isDuringSearch"],
        "win": root["winrate"],
        "lead": root["scoreLead"],
        "visits": root["visits"],
        "moves": moves,
        "ownership": finite(answer.get("ownership", ())),
        "policy": finite(answer.get("policy", ())),
    }
