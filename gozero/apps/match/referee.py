"""One game between two players, refereed: our rules keep the board and count the area.

A player is a program that speaks GTP, or is played from outside (`None`): then `play` takes its
moves. A game ends by two passes; at the move limit, scored as it stands; by resignation; or by
forfeit, as ``B+F``. A player forfeits by a move that our rules forbid or that is no move; by a `?`
to genmove, or to a legal move of the opponent; and, if the referee is told to go on where an engine
hangs, answers what is not GTP or refuses the set-up, by that too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal, NamedTuple

from gozero.apps.gtp.client import EngineConfused, EngineTimeout, GtpClient, GtpError, shortened
from gozero.apps.host_game import HostGame, IllegalMove
from gozero.apps.sgf import GameRecord
from gozero.go import coords
from gozero.go.coords import result_text
from gozero.go.rules import Rules

LETTERS = "BW"
COLOURS = ("Black", "White")

End = Literal["score", "limit", "resign", "forfeit", "void"]


class Outcome(NamedTuple):
    """How a game has ended: ``B+3.5``, by what, and a remark where there is more to say."""

    result: str
    end: End
    comment: str = ""


class Referee:
    """A game in progress.

    Args:
      rules, komi: the game's; the programs are told the size and the komi.
      players: Black's and White's program; None for one that is played from outside. They may be
        set later, before `set_up`.
      handicap: Black's handicap stones, 2 or more points; White begins. Programs are told with
        set_free_handicap.
      hanging_forfeits: a program that hangs or talks nonsense, or that refuses the set-up, forfeits
        the game; False: that is raised.

    Attributes:
      outcome: how the game has ended; None while it goes on.
      seconds, turns: what Black's and White's moves have taken, and how many they chose; of a
        player from outside, what is said with `spend`.
    """

    def __init__(
        self,
        rules: Rules,
        komi: float,
        players: tuple[GtpClient | None, GtpClient | None],
        handicap: Sequence[int] = (),
        hanging_forfeits: bool = False,
    ):
        self.game, self.komi = HostGame(rules, komi, handicap), komi
        self.players = players
        self.outcome: Outcome | None = None
        self.seconds, self.turns = [0.0, 0.0], [0, 0]
        self._forfeits = (EngineTimeout, EngineConfused) if hanging_forfeits else ()

    def set_up(self, opening: Sequence[int] = ()) -> None:
        """Tell the programs of the game, and play its first moves, Black's first.

        Raises:
          GtpError: a program refuses the size, the komi, the handicap, or a move of the opening
            (or, see `hanging_forfeits`).
          EngineFailed: one died (or, see `hanging_forfeits`).
          IllegalMove: an opening that the rules forbid.
        """
        size = self.game.rules.size
        setup = [f"boardsize {size}", "clear_board", f"komi {self.komi:g}"]
        if self.game.handicap:
            vertices = (coords.to_gtp(size, action) for action in self.game.handicap)
            setup.append(f"set_free_handicap {' '.join(vertices)}")
        for action in opening:
            colour = self.game.to_play
            self.game.play(colour, action)
            setup.append(self._told(colour, action))
        forfeits = (GtpError, *self._forfeits) if self._forfeits else ()
        for colour, player in enumerate(self.players):
            if player is None:
                continue
            try:
                for command in setup:
                    player.send(command)
            except forfeits as error:
                return self.forfeit(colour, f"failed to set up the game: {error}")
        return self._look_for_the_end()

    def ask(self) -> None:
        """Let the program whose turn it is move.

        Raises:
          EngineFailed: one died (or, see `hanging_forfeits`).
        """
        colour = self.game.to_play
        player = self.players[colour]
        assert player is not None
        started = time.monotonic()
        try:
            vertex = player.send(f"genmove {LETTERS[colour].lower()}").strip()
        except (GtpError, *self._forfeits) as error:
            return self.forfeit(colour, f"gave no move: {error}")
        finally:
            self.spend(colour, time.monotonic() - started)
        if vertex.lower() == "resign":
            return self.resign()
        try:
            action = coords.from_gtp(self.game.rules.size, vertex)
        except ValueError as error:
            return self.forfeit(colour, f"made no move: {shortened(str(error))}")
        return self.play(action)

    def play(self, action: int) -> None:
        """Play a move for the player whose turn it is, and tell the opponent, if the game goes on.

        Raises:
          EngineFailed: the opponent died (or, see `hanging_forfeits`).
        """
        colour = self.game.to_play
        try:
            self.game.play(colour, action)
        except IllegalMove as error:
            return self.forfeit(colour, f"made an illegal move: {error}")
        opponent = self.players[1 - colour]
        if opponent is not None and not self.game.ended:
            try:
                opponent.send(self._told(colour, action))
            except (GtpError, *self._forfeits) as error:
                return self.forfeit(1 - colour, f"refused a legal move: {error}")
        return self._look_for_the_end()

    def resign(self) -> None:
        """The player whose turn it is gives up."""
        colour = self.game.to_play
        self.outcome = Outcome(f"{LETTERS[1 - colour]}+R", "resign", f"{COLOURS[colour]} resigned")

    def void(self, why: str) -> None:
        """The game ends without a result."""
        self.outcome = Outcome("Void", "void", why)

    def spend(self, colour: int, seconds: float) -> None:
        """A move of a colour has taken so long."""
        self.seconds[colour] += seconds
        self.turns[colour] += 1

    def record(self, black: str, white: str, comment: str = "") -> GameRecord:
        """The game so far, by these names, the comment before that of the outcome."""
        outcome = self.outcome or Outcome("?", "score")
        return GameRecord(
            size=self.game.rules.size,
            komi=self.komi,
            moves=tuple(self.game.moves),
            result=outcome.result,
            black_stones=tuple(sorted(self.game.handicap)),
            handicap=len(self.game.handicap),
            black=black,
            white=white,
            comment="; ".join(x for x in (comment, outcome.comment) if x),
        )

    def _told(self, colour: int, action: int) -> str:
        return f"play {LETTERS[colour].lower()} {coords.to_gtp(self.game.rules.size, action)}"

    def forfeit(self, colour: int, why: str) -> None:
        """A player loses by what it did."""
        text = f"{COLOURS[colour]} {why}"
        self.outcome = Outcome(f"{LETTERS[1 - colour]}+F", "forfeit", text)

    def _look_for_the_end(self) -> None:
        if not self.game.ended:
            return
        cut = self.game.truncated
        self.outcome = Outcome(
            result_text(self.game.score()), "limit" if cut else "score", "move limit" * cut
        )
