"""One game between two players, refereed: our rules keep the board and count the area.

A player is a program that speaks GTP, or `None`: its moves then come from the caller, by `play`. A
game ends by two passes; at the move limit, scored as it stands; by resignation; or by forfeit, as
``B+F``. A player forfeits by a move that our rules forbid or that is not a move; by a `?` to
genmove, or to a legal move of the opponent; and, with `forfeit_failures`, by hanging, by an answer
that is not GTP, or by refusing the set-up. A program with a clock whose replies take longer than
its main time, and the tolerance, loses on time, as ``B+T``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal, NamedTuple

from gozero.apps import rule_sets
from gozero.apps.gtp.client import EngineConfused, EngineTimeout, GtpClient, GtpError, shortened
from gozero.apps.host_game import HostGame, IllegalMove
from gozero.apps.match.config import CLOCK_TOLERANCE_S
from gozero.apps.sgf import GameRecord
from gozero.go import coords
from gozero.go.coords import result_text
from gozero.go.rules import Rules

LETTERS = "BW"
COLOURS = ("Black", "White")

End = Literal["score", "limit", "resign", "forfeit", "void"]


class Outcome(NamedTuple):
    """How a game has ended: ``B+3.5``, the kind of end, and a remark or ""."""

    result: str
    end: End
    comment: str = ""


class Referee:
    """A game in progress.

    Args:
      rules, komi: those of the game; the referee sends the size and the komi to the programs.
      players: Black's and White's program; None for a player whose moves the caller plays.
        They may be set later, before `set_up`.
      handicap: Black's handicap stones, 2 or more points; White then begins. Programs receive it by
        set_free_handicap.
      forfeit_failures: whether a program forfeits the game if it hangs, sends something that is not
        GTP, or refuses the set-up; if False, the error is raised.
      main_times: seconds of a game for Black's and White's program; None: it has no clock.

    Attributes:
      outcome: how the game has ended; None while it goes on.
      seconds, turns: the time that Black's and White's moves took, and how many they chose; without
        a program, as passed to `spend`. With a clock, a program is also charged for its replies to
        `play` and `time_left`, during which it could think.
      replies: the seconds of each move of Black and White, as `seconds` adds them up; with a clock,
        those of the replies since the last move are included.
    """

    def __init__(
        self,
        rules: Rules,
        komi: float,
        players: tuple[GtpClient | None, GtpClient | None],
        handicap: Sequence[int] = (),
        forfeit_failures: bool = False,
        main_times: tuple[int | None, int | None] = (None, None),
    ):
        self.game, self.komi = HostGame(rules, komi, handicap), komi
        self.players = players
        self.outcome: Outcome | None = None
        self.main_times = main_times
        self.replies: tuple[list[float], list[float]] = [], []
        self._since_move = [0.0, 0.0]  # seconds of replies that are not part of a move yet
        self._forfeits = (EngineTimeout, EngineConfused) if forfeit_failures else ()

    @property
    def seconds(self) -> list[float]:
        return [sum(self.replies[colour]) + self._since_move[colour] for colour in range(2)]

    @property
    def turns(self) -> list[int]:
        return [len(replies) for replies in self.replies]

    def set_up(self, opening: Sequence[int] = ()) -> None:
        """Tell the programs about the game, and play its opening moves, Black's first.

        Raises:
          GtpError: without `forfeit_failures`, a program refuses the size, the komi, the handicap
            or a move of the opening.
          EngineFailed: a program died; without `forfeit_failures`, also if it failed otherwise.
          IllegalMove: the rules forbid a move of the opening.
        """
        size = self.game.rules.size
        setup = [f"boardsize {size}", "clear_board", f"komi {self.komi:g}"]
        if self.game.handicap:
            vertices = (coords.to_gtp(size, action) for action in self.game.handicap)
            setup.append(f"set_free_handicap {' '.join(vertices)}")
        for action in opening:
            colour = self.game.to_play
            self.game.play(colour, action)
            setup.append(self._play_command(colour, action))
        forfeits = (GtpError, *self._forfeits) if self._forfeits else ()
        for colour, player in enumerate(self.players):
            if player is None:
                continue
            main_time = self.main_times[colour]
            clock = [] if main_time is None else [f"time_settings {main_time} 0 0"]
            try:
                for command in setup + clock:
                    player.send(command)
            except forfeits as error:
                return self.forfeit(colour, f"failed to set up the game: {error}")
        return self._check_end()

    def ask(self) -> None:
        """Ask the program whose turn it is for a move, and play it.

        Raises:
          EngineFailed: a program died; without `forfeit_failures`, also if it failed otherwise.
        """
        colour = self.game.to_play
        vertex, failure = "", None
        try:
            self._tell_time_left(colour)
            vertex = self._send(colour, f"genmove {LETTERS[colour].lower()}").strip()
        except (GtpError, *self._forfeits) as error:
            failure = f"gave no move: {error}"
        finally:
            seconds, self._since_move[colour] = self._since_move[colour], 0.0
            self.spend(colour, seconds)
        if self._is_out_of_time(colour):
            return self._lose_on_time(colour)
        if failure is not None:
            return self.forfeit(colour, failure)
        if vertex.lower() == "resign":
            return self.resign()
        try:
            action = coords.from_gtp(self.game.rules.size, vertex)
        except ValueError as error:
            return self.forfeit(colour, f"made no move: {shortened(str(error))}")
        return self.play(action)

    def _tell_time_left(self, colour: int) -> None:
        """Tell a program with a clock how much is left."""
        main_time = self.main_times[colour]
        if main_time is not None:
            left = int(max(main_time - self.seconds[colour], 0.0))  # GTP's are whole seconds
            self._send(colour, f"time_left {LETTERS[colour].lower()} {left} 0")

    def _send(self, colour: int, command: str) -> str:
        """Send a command to a colour's program, and count the time of its reply; with a clock, that
        may be all that is left.

        Raises:
          GtpError, EngineFailed: as from `GtpClient.send`.
        """
        player, main_time = self.players[colour], self.main_times[colour]
        assert player is not None
        longest = main_time and main_time + CLOCK_TOLERANCE_S - self.seconds[colour]
        started = time.monotonic()
        try:
            return player.send(command, longest)
        finally:
            self._since_move[colour] += time.monotonic() - started

    def _is_out_of_time(self, colour: int) -> bool:
        main_time = self.main_times[colour]
        return main_time is not None and self.seconds[colour] >= main_time + CLOCK_TOLERANCE_S

    def _lose_on_time(self, colour: int) -> None:
        text = f"lost on time: {self.seconds[colour]:.1f} s, of {self.main_times[colour]} s"
        self.forfeit(colour, text, "T")

    def play(self, action: int) -> None:
        """Play a move for the player whose turn it is, and tell the opponent if the game goes on.

        Raises:
          EngineFailed: the opponent died; without `forfeit_failures`, also if it failed otherwise.
        """
        colour = self.game.to_play
        try:
            self.game.play(colour, action)
        except IllegalMove as error:
            return self.forfeit(colour, f"made an illegal move: {error}")
        if self.players[1 - colour] is not None and not self.game.ended:
            self._tell_move(1 - colour, self._play_command(colour, action))
        return self._check_end()

    def _tell_move(self, colour: int, command: str) -> None:
        """Tell a colour's program the opponent's move."""
        failure = None
        try:
            self._send(colour, command)
        except (GtpError, *self._forfeits) as error:
            failure = f"refused a legal move: {error}"
        if self.main_times[colour] is None:
            self._since_move[colour] = 0.0  # only its own moves count
        if self._is_out_of_time(colour):
            self._lose_on_time(colour)
        elif failure is not None:
            self.forfeit(colour, failure)

    def resign(self) -> None:
        """Resign for the player whose turn it is."""
        colour = self.game.to_play
        self.outcome = Outcome(f"{LETTERS[1 - colour]}+R", "resign", f"{COLOURS[colour]} resigned")

    def void(self, reason: str) -> None:
        """End the game without a result."""
        self.outcome = Outcome("Void", "void", reason)

    def spend(self, colour: int, seconds: float) -> None:
        """Count a move of a colour, which took `seconds`."""
        self.replies[colour].append(seconds)

    def record(self, black: str, white: str, comment: str = "") -> GameRecord:
        """The game so far, with these names; `comment` goes before the outcome's comment."""
        outcome = self.outcome or Outcome("?", "score")
        return GameRecord(
            size=self.game.rules.size,
            komi=self.komi,
            moves=tuple(self.game.moves),
            result=outcome.result,
            rules=rule_sets.sgf_name(self.game.rules.ko, self.game.rules.suicide),
            black_stones=tuple(sorted(self.game.handicap)),
            handicap=len(self.game.handicap),
            black=black,
            white=white,
            comment="; ".join(x for x in (comment, outcome.comment) if x),
        )

    def _play_command(self, colour: int, action: int) -> str:
        return f"play {LETTERS[colour].lower()} {coords.to_gtp(self.game.rules.size, action)}"

    def forfeit(self, colour: int, reason: str, how: Literal["F", "T"] = "F") -> None:
        """End the game as a loss of `colour`, for this reason; `how` is SGF's letter for it."""
        text = f"{COLOURS[colour]} {reason}"
        self.outcome = Outcome(f"{LETTERS[1 - colour]}+{how}", "forfeit", text)

    def _check_end(self) -> None:
        if not self.game.ended:
            return
        cut = self.game.truncated
        self.outcome = Outcome(
            result_text(self.game.score()), "limit" if cut else "score", "move limit" * cut
        )
