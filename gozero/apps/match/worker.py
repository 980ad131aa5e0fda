"""One game of a match: its programs, its referee, and what it waits for.

Programs are slow, so a game's methods are meant to run in a thread, one at a time; only `abandon`
may be called at the same time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

import jax

from gozero.apps.gtp.client import EngineDied, EngineNotStarted, GtpClient
from gozero.apps.match.config import SIDES, MatchConfig
from gozero.apps.match.gtp_opponent import with_program_path
from gozero.apps.match.referee import COLOURS, Outcome, Referee
from gozero.apps.match.score import GameLine, moves_digest
from gozero.apps.sgf import GameRecord
from gozero.compile import mode
from gozero.go.rules import GameState, Rules

T = TypeVar("T")


class GameWorker:
    """A game being played.

    Attributes:
      number: the game's number.
      waiting_since: when it began to wait for a search of ours; None if it does not.
      begun: whether its programs have been started.
      start_error: why a program could not be started; None if all could be.
      abandoned: whether the match has ended, so that its programs' failures are ignored.
    """

    def __init__(
        self,
        config: MatchConfig,
        rules: Rules,
        number: int,
        opening: Sequence[int],
        names: tuple[str, str],
    ):
        self.config, self.rules, self.number = config, rules, number
        self.opening, self.names = opening, names
        black = config.black(number)
        self._side_of = (black, 1 - black)  # of each colour
        self._clients: list[GtpClient | None] = [None, None]  # of each side
        self._searched_at: list[int | None] = [None, None]  # moves played at each side's search
        with _on_host():
            main_times = self._of_colours([side.main_time for side in config.sides])
            self.referee = Referee(
                rules, config.komi, (None, None), forfeit_failures=True, main_times=main_times
            )
        self.waiting_since: float | None = None
        self.begun = self.abandoned = False
        self.start_error: str | None = None

    @property
    def side_to_move(self) -> int:
        """0 the player, 1 the opponent."""
        return self._side_of[self.referee.game.to_play]

    @property
    def state(self) -> GameState:
        """The position to search."""
        return self.referee.game.state

    @property
    def num_moves(self) -> int:
        """The number of moves so far, those of the opening included."""
        return len(self.referee.game.moves)

    def begin(self) -> None:
        """Start the programs, and play until a search of ours is due or the game is over.

        If a program cannot be started, the game has not begun, and is not counted as failed.
        """
        with self._voided_by_death(), _on_host():
            for i, side in enumerate(self.config.sides):
                if side.command is not None and not self.abandoned:
                    command = with_program_path(side.words(self.number))
                    timeout = self.config.timeout
                    try:
                        self._clients[i] = GtpClient(command, self.names[i], timeout)
                    except EngineNotStarted as error:
                        self.start_error = str(error)
                        return
            self.begun = True
            self.referee.players = self._of_colours(self._clients)
            self.referee.set_up(self.opening)
            self._continue()

    def play(self, action: int | None, seconds: float) -> None:
        """Play the action that our search chose in `seconds` (None: resign), and continue as in
        `begin`."""
        with self._voided_by_death(), _on_host():
            game = self.referee.game
            self._searched_at[self.side_to_move] = len(game.moves)
            self.referee.spend(game.to_play, seconds)
            if action is None:
                self.referee.resign()
            else:
                self.referee.play(action)
            self._continue()

    def since(self, plies: int) -> list[int] | None:
        """The actions since the last search of the side to move; None if not `plies` many."""
        at = self._searched_at[self.side_to_move]
        moves = self.referee.game.moves
        if at is None or len(moves) - at != plies:
            return None
        return [action for _, action in moves[at:]]

    @property
    def over(self) -> bool:
        """Whether the game has ended or is void."""
        return self.referee.outcome is not None

    @property
    def done(self) -> bool:
        """Whether nothing more will be played: it is over or abandoned, or could not be started."""
        return self.over or self.abandoned or self.start_error is not None

    @property
    def failure(self) -> str | None:
        """Why the game is void; None if it is not."""
        outcome = self.referee.outcome
        return outcome.comment if outcome is not None and outcome.end == "void" else None

    def abandon(self) -> None:
        """End the programs, from another thread, because the match has ended."""
        self.abandoned = True
        for client in self._clients:
            if client is not None:
                client.kill()

    def close(self) -> None:
        """Let the programs quit, which may take some seconds."""
        for client in self._clients:
            if client is not None:
                client.close()

    def result(self, failures: Sequence[str] = ()) -> tuple[GameLine, GameRecord]:
        """The finished game's line and SGF record; `failures` are those of earlier attempts."""
        referee = self.referee
        assert referee.outcome is not None
        seconds, turns = self._by_side(referee.seconds), self._by_side(referee.turns)
        actions, black = [action for _, action in referee.game.moves], self._side_of[0]
        line = line_of(self.number, black, referee.outcome, actions, seconds, turns, failures)
        line = line._replace(replies=self._replies())
        black_name, white_name = (self.names[side] for side in self._side_of)
        comment = game_comment(self.rules, self.number, self.opening)
        return line, referee.record(black_name, white_name, comment)

    def _replies(self) -> tuple[tuple[float, ...], ...]:
        """The time of each move of the player and of the opponent; without clocks, none."""
        if not any(side.main_time is not None for side in self.config.sides):
            return ()
        return self._by_side([tuple(round(x, 3) for x in one) for one in self.referee.replies])

    def _by_side(self, of_colours: list) -> tuple:
        return tuple(of_colours[colour] for colour in self._side_of)

    def _of_colours(self, by_side: Sequence[T]) -> tuple[T, T]:
        black, white = self._side_of
        return by_side[black], by_side[white]

    def _continue(self) -> None:
        """Play until a search of ours is due or the game is over."""
        referee = self.referee
        while referee.outcome is None and not self.abandoned:
            if self._clients[self.side_to_move] is not None:
                referee.ask()
            elif referee.game.wins_by_passing(referee.game.to_play):
                referee.play(self.rules.pass_action)
            else:
                self.waiting_since = time.monotonic()
                return

    def crashes(self, failures: Sequence[str]) -> int:
        """The number of attempts, with this one, that ended by the death of the same program."""
        program = (self.failure or "").partition(":")[0]
        return 1 + sum(reason.partition(":")[0] == program for reason in failures)

    def lose(self, crashes: int) -> None:
        """Turn a game that a program's death made void into that program's loss."""
        assert self.failure is not None
        colour = COLOURS.index(self.failure.split()[0])
        self.referee.forfeit(colour, f"died {crashes} times; {self.failure}")

    @contextlib.contextmanager
    def _voided_by_death(self) -> Iterator[None]:
        """A context in which a program's death makes the game void."""
        self.waiting_since = None
        try:
            yield
        except EngineDied as error:
            dead = [client is not None and client.ended for client in self._clients]
            colour = self._side_of.index(dead.index(True))
            self.referee.void(f"{COLOURS[colour]} died: {error}")


def line_of(
    number: int,
    black: int,
    outcome: Outcome,
    actions: Sequence[int],
    seconds: Sequence[float],
    turns: Sequence[int],
    failures: Sequence[str] = (),
) -> GameLine:
    """The line of a game in which side `black` was Black; seconds and turns are per side, the
    actions are those of both, with the opening."""
    for_black = {"B": 1.0, "W": 0.0}.get(outcome.result[0], 0.5)
    points = for_black if black == 0 else 1.0 - for_black
    return GameLine(
        game=number,
        black=SIDES[black],
        result=outcome.result,
        points=None if outcome.end == "void" else points,
        end=outcome.end,
        why=outcome.comment,
        moves=len(actions),
        attempts=1 + len(failures),
        seconds=(round(seconds[0], 6), round(seconds[1], 6)),
        turns=(turns[0], turns[1]),
        failures=tuple(failures),
        digest=moves_digest(actions),
    )


def game_comment(rules: Rules, number: int, opening: Sequence[int]) -> str:
    """The comment of a game's record."""
    remark = f"; the first {len(opening)} moves were given" if opening else ""
    return f"gozero match, game {number}; {rules.ko} ko, area scoring, no suicide{remark}"


def _on_host() -> contextlib.AbstractContextManager:
    """A context that plays single games on the CPU, even if an accelerator runs the searches;
    unless JAX_PLATFORMS excludes the CPU."""
    if mode.backend() == "cpu":
        return contextlib.nullcontext()
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:  # there is no such backend
        return contextlib.nullcontext()
