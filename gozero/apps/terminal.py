"""``gozero play``: a game in the terminal, through a `web.session.Session` shown as text."""

from __future__ import annotations

import dataclasses
import io
import pathlib
import queue
import sys
from collections.abc import Iterable
from typing import Any, Literal

from gozero.apps import flags, runtime
from gozero.apps.web.config import ThinkingConfig
from gozero.apps.web.session import YOU, Session
from gozero.apps.web.thinking import OURS, Thinking
from gozero.go import coords
from gozero.runs.files import write_whole
from gozero.runs.settings import setting

PROG = "gozero play"
COLOURS = ("Black", "White")
HELP = """\
D4, pass       play there (columns skip the letter I) or pass; the engine answers
undo           take back your last move and the engine's answer
move           let the engine play this move for you
hint           show the move that the analysis would play
analysis       show win rates, visits, leads and the expected moves
score          show the score as the board stands, and as expected at the end
board          show the board again
save FILE.sgf  write the game, with the moves taken back as variations; not over
               a file that was loaded
load FILE.sgf  read the main line of a file's first game, with the komi of the flags if
               it has none, and continue at its end; you play both colours, and "move"
               lets the engine play
new            start a new game with the same settings
resign, quit"""


@dataclasses.dataclass(frozen=True)
class PlayConfig(ThinkingConfig):
    """Play Go in the terminal: moves as text, against any player of `gozero players`."""

    colour: Literal["black", "white", "both", "none"] = setting("black", group="your game")
    """The colours that you play; none: the engine plays itself."""

    handicap: int = setting(0, least=0, most=9, unit="stones")
    """Black's handicap stones, two or more; 0: none."""

    EXAMPLES = ("gozero play", "gozero play --player fast --size 13 --colour white")

    def __post_init__(self):
        super().__post_init__()
        if self.handicap == 1:
            raise ValueError("--handicap 1: expected 0, or from 2 to 9")


def run(config: PlayConfig, stdin: Any = None) -> int:
    """Play until `quit` or the end of input; returns the exit status.

    Raises:
      SystemExit: one line; status 1 if standard input is closed or cannot be read, 2 for settings
        that are invalid.
    """
    stdin = stdin or sys.stdin
    if stdin is None:
        flags.fail(PROG, "standard input is closed", status=1)
    if isinstance(stdin, io.TextIOWrapper):
        stdin.reconfigure(errors="backslashreplace")  # then such a line is an unknown command
    if config.is_random:
        print(runtime.random_network_message(), file=sys.stderr)
    board = Terminal(config, Thinking(config, PROG))
    with flags.exit_on_error(PROG):
        board.new()
        board.take(stdin)
    return 0


class Terminal:
    """Shows a session as text and runs typed commands.

    Args:
      config: the flags.
      thinking: the players and the analysis.
    """

    def __init__(self, config: PlayConfig, thinking: Thinking):
        self._config, self._messages = config, queue.Queue()
        self._session = Session(thinking, self._messages.put)
        self._at: dict[str, Any] = {}
        self._loaded: set[pathlib.Path] = set()
        self._analyses: dict[int, dict[str, Any]] = {}  # final ones, by node

    def new(self) -> None:
        """Start a new game with the settings of the flags.

        Raises:
          ValueError: the settings are invalid.
        """
        config = self._config
        engine = config.player if config.is_by_name else OURS
        hands = {"black": (0,), "white": (1,), "both": (0, 1), "none": ()}[config.colour]
        black, white = (YOU if colour in hands else engine for colour in (0, 1))
        game = {"size": config.size, "komi": config.komi, "handicap": config.handicap}
        self._do("new", black=black, white=white, **game)
        self._show()

    def take(self, lines: Iterable[str]) -> None:
        """Run each line as a command until `quit`."""
        lines, prompts = iter(lines), lines is sys.stdin and sys.stdin.isatty()
        while True:
            if prompts:
                print(f"{COLOURS[self._at['turn']]}> ", end="", flush=True)
            line = next(lines, None)
            if line is None or line.split()[:1] in (["quit"], ["exit"], ["q"]):
                return
            try:
                self._run_command(line.strip())
            except (ValueError, OSError) as error:
                runtime.print_result(f"? {error}")
            except RuntimeError as error:  # JAX's errors are among these
                if not runtime.is_out_of_memory(error):
                    raise
                runtime.print_result("? out of memory; the game is kept")

    def _run_command(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        messages = {"undo": "undo", "move": "move", "resign": "resign"}
        actions = {
            "help": lambda: runtime.print_result(HELP),
            "board": self._show,
            "hint": self._hint,
            "analysis": self._print_analysis,
            "score": self._score,
            "new": self.new,
        }
        file_actions = {"save": self._save, "load": self._load}
        if not word or word.startswith("#"):
            return
        if word.lower() in messages:
            self._do(messages[word.lower()])
            self._show()
        elif word.lower() in actions:
            actions[word.lower()]()
        elif word.lower() in file_actions:
            if not rest.strip():
                raise ValueError(f"{word}: expected a file: {word} FILE.sgf")
            file_actions[word.lower()](pathlib.Path(rest.strip()))
        else:
            self._play(line)

    def _play(self, vertex: str) -> None:
        try:
            action = coords.from_gtp(self._session.tree.size, vertex[:20])
        except ValueError as error:
            raise ValueError(f"{error}, or a command (see help)") from error
        if self._at["ended"]:
            undo = "undo, " if len(self._session.tree.path(self._session.tree.at)) > 1 else ""
            raise ValueError(f"the game is over; type {undo}new or quit")
        self._do("play", at=action)
        self._show()

    def _do(self, do: str, **fields: Any) -> None:
        """Send a message to the session, and handle all its replies."""
        self._session.take({"do": do, **fields})
        self._session.settle()
        while not self._messages.empty():
            self._handle(self._messages.get())

    def _handle(self, message: dict) -> None:
        if message["tell"] == "at":
            self._at = message
        elif message["tell"] == "game":
            self._analyses = {}
        elif message["tell"] == "analysis" and message["whole"]:
            self._analyses[message["node"]] = message
        elif message["tell"] == "sgf":
            self._sgf = message["text"]
        elif message["tell"] == "error":
            raise ValueError(message["text"])

    def _show(self) -> None:
        from gozero.apps.pictures import ascii_board

        tree = self._session.tree
        number, last = len(tree.path(tree.at)) - 1, tree.nodes[tree.at]
        vertex = coords.to_gtp(tree.size, last.action) if number else ""
        lines = [ascii_board(tree.game.stones(), last.action if number else None)]
        lines += [f"move {number}: {COLOURS[last.colour]} {vertex}"] if number else []
        result = self._at.get("result")
        lines += [result if result else f"{COLOURS[self._at['turn']]} to play"]
        runtime.print_result("\n".join(lines))

    def _current_analysis(self) -> dict[str, Any]:
        """The analysis of the current position.

        Raises:
          ValueError: the game is over.
        """
        if self._at["ended"]:
            raise ValueError("the game is over")
        node = self._session.tree.at
        if node not in self._analyses:
            self._session.take({"do": "analyse", "on": True})
            try:
                while node not in self._analyses:
                    self._handle(self._messages.get())
            finally:
                self._session.take({"do": "analyse", "on": False})
        return self._analyses[node]

    def _hint(self) -> None:
        moves = self._current_analysis()["moves"]
        size = self._session.tree.size
        runtime.print_result(coords.to_gtp(size, moves[0]["at"]) if moves else "pass")

    def _print_analysis(self) -> None:
        analysis, white_to_play = self._current_analysis(), self._at["turn"]
        name = lambda action: coords.to_gtp(self._session.tree.size, action)
        wins = lambda share: f"{100 * (1 - share if white_to_play else share):.1f}%"
        heading = (
            f"{COLOURS[white_to_play]} wins {wins(analysis['win'])}, {_lead(analysis['lead'])}"
        )
        lines = [f"{heading}, {analysis['visits']} visits", "move   wins  visits  lead    expected"]
        for info in analysis["moves"]:
            line = " ".join(map(name, info["line"]))
            numbers = f"{wins(info['win']):>6}  {info['visits']:>6}  {_lead(info['lead']):<6}"
            lines.append(f"{name(info['at']):<4} {numbers}  {line}")
        runtime.print_result("\n".join(lines))

    def _score(self) -> None:
        current = coords.result_text(self._session.tree.game.score())
        expected = (
            "" if self._at["ended"] else f"; expected {_lead(self._current_analysis()['lead'])}"
        )
        runtime.print_result(f"as it stands {current}{expected}")

    def _save(self, path: pathlib.Path) -> None:
        if path.resolve() in self._loaded:
            raise ValueError(
                f"save: {path} was loaded, and may contain more than its main line, which would be "
                "lost; give another name"
            )
        self._do("save")
        write_whole(path, self._sgf.encode())
        runtime.print_result(f"written: {path}")

    def _load(self, path: pathlib.Path) -> None:
        from gozero.apps import sgf

        text = sgf.to_sgf(sgf.read(path))  # checked, in UTF-8
        self._do("load", sgf=text)
        self._loaded.add(path.resolve())
        self._do("goto", node=len(self._session.tree.nodes) - 1)
        self._show()


def _lead(points: float) -> str:
    """Black's lead as text: B+1.5, or W+1.5 if it is negative."""
    return f"{'B' if points >= 0 else 'W'}+{abs(points):.1f}"
