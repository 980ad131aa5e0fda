"""The engine behind GTP: a game and its search. It knows nothing of the protocol.

Passing. The engine plays the most visited action of its search, which knows a game's result
exactly where two passes end it: it passes when the search likes that best. One rule goes
before: if the opponent has just passed and the board as it stands is won by area, it passes,
which wins. Dead stones count as they stand, so it takes them off first if it needs them. In a
game that two passes have ended it passes; a play by either side goes on with that game.

Time. A move takes the seconds of the flags, or what `clock` says if that is less, and no longer
than it takes until nothing can change the choice; without either, all simulations. Compiling is
not on the clock: where time_settings sets one, it is done before that, or a new size, is answered.
"""

from __future__ import annotations

import functools
import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gozero.apps import pictures, runtime
from gozero.apps.gtp.background import InBackground
from gozero.apps.gtp.clock import GameClock
from gozero.apps.gtp.config import GtpConfig
from gozero.compile import executables
from gozero.go import coords, handicap
from gozero.go.coords import KOMI_EXPECTED, MAX_SIZE, MIN_SIZE, is_komi

if TYPE_CHECKING:
    import numpy as np

    from gozero.apps.gtp.analyst import Analyst, Reports
    from gozero.apps.gtp.protocol import Talk
    from gozero.apps.gtp.search import Found, Look, Searcher
    from gozero.apps.host_game import HostGame
    from gozero.apps.sgf import GameRecord
    from gozero.go.coords import KoRule
    from gozero.go.rules import GameState, Rules


Stones = tuple[tuple[int, ...], tuple[int, ...]]
"""Points of Black's and of White's."""


class _Searched(NamedTuple):
    """What the last search was of."""

    start: tuple  # size, komi, handicap, stones
    moves: list[tuple[int, int]]
    colour: int


class Engine:
    """A game and what thinks about it; the clock is in seconds, from any moment on."""

    def __init__(self, config: GtpConfig, clock: Callable[[], float] = time.monotonic):
        self.config = config
        self.clock, self.game_clock = clock, GameClock()
        assert config.size is not None  # since it was made
        self.size, self.komi = config.size, config.komi
        self.ko, self.suicide = config.ko, config.suicide
        self.handicap: tuple[int, ...] = ()
        self.stones: Stones = ((), ())
        self._game: HostGame | None = None
        self._searchers: dict[int, Searcher] = {}
        self._avoiding: dict[int, Searcher] = {}
        self._analysts: dict[int, Analyst] = {}
        self._networks: dict[int, Callable] = {}
        self._announced: set[int] = set()
        self._num_searches = 0
        self._given: float | None = None  # seconds, to the last search; None: no limit
        self._searched: _Searched | None = None
        self._loading: dict[int, InBackground] = {}
        self._ponders = False  # there is something to ponder about

    @property
    def game(self) -> HostGame:
        """The game, made when first needed: that imports JAX."""
        if self._game is None:
            self._say_what_takes_long()
            self._game = self._new_game(self.handicap, self.stones)
        return self._game

    def _new_game(self, handicap: Sequence[int], stones: Stones) -> HostGame:
        """From a handicap, or stones (Black's, White's) and Black to play.

        Raises:
          ValueError: stones that have no liberty.
        """
        from gozero.apps.host_game import HostGame
        from gozero.go import setup

        rules, start = self._rules(), None
        if any(stones):
            start = setup.from_points(rules, *stones, komi=self.komi)
        return HostGame(rules, self.komi, handicap, start)

    def _rules(self) -> Rules:
        from gozero.apps.host_game import roomy_limit
        from gozero.go.rules import Rules

        limit, remember = roomy_limit(self.size), self.config.on(self.size).looks_back
        return Rules(self.size, self.ko, self.suicide, max_moves=limit, remember=remember)

    def _say_what_takes_long(self) -> None:
        """Once for each size: the first play compiles the rules, the first search itself."""
        if self.size not in self._announced:
            self._announced.add(self.size)
            print(f"gozero gtp: {runtime.compiling(self.size)}", file=sys.stderr, flush=True)

    @property
    def searcher(self) -> Searcher:
        """The search for this board size, made once.

        Raises:
          ValueError: files that are missing, damaged or for another size.
        """
        if self.size not in self._searchers:
            from gozero.apps.gtp.search import make_searcher

            made = make_searcher(self._rules(), self.config.on(self.size), self.clock)
            InBackground(self.game.prepare)  # while the search is compiled
            self._searchers[self.size] = made
        return self._searchers[self.size]

    @property
    def analyst(self) -> Analyst:
        """What tells of searches on this board size, made once."""
        if self.size not in self._analysts:
            from gozero.apps.gtp.analyst import Analyst

            config = self.config.on(self.size)
            self._analysts[self.size] = Analyst(self._rules(), config, self.clock)
        return self._analysts[self.size]

    def set_size(self, size: int) -> None:
        """An empty board of this size; the komi stays.

        Raises:
          ValueError: a size that the rules or the flags do not allow.
        """
        if not MIN_SIZE <= size <= MAX_SIZE:
            raise ValueError(f"{size} is not from {MIN_SIZE} to {MAX_SIZE}")
        given = self.config.size
        for name in ("weights", "shapes"):
            if name in self.config.own_files and size != given:
                raise ValueError(f"the {name} are for {given}x{given}")
        self.config.on(size).check_size(size)
        self.size = size
        self.clear()

    def clear(self) -> None:
        """The empty board, Black to play, with all of the time; the komi stays."""
        self._game, self.handicap, self.stones = None, (), ((), ())
        self.game_clock.reset()
        self._warm_up()

    def set_time(self, main: float, period: float, stones: int) -> None:
        """The time of each game from now on; see `GameClock.set`."""
        self.game_clock.set(main, period, stones)
        self._warm_up()

    def set_left(self, colour: int, seconds: float, stones: int) -> None:
        """The time that a player has left; see `GameClock.set_left`."""
        self.game_clock.set_left(colour, seconds, stones)
        self._warm_up()

    def _warm_up(self) -> None:
        """Where a clock will run, compile before it does: a controller charges for it."""
        if self.game_clock.limited:
            self.searcher.warm_up()

    @property
    def untouched(self) -> bool:
        """Nothing has been played or placed since the board was cleared."""
        placed = self.handicap or any(self.stones)
        return not placed and (self._game is None or not self._game.moves)

    def set_handicap(self, actions: list[int]) -> None:
        """Black's handicap stones on an untouched board, White to play; the komi stays.

        Raises:
          ValueError: points that are no free handicap.
        """
        handicap.check_free(self.size, actions)
        self.clear()
        self.handicap = tuple(actions)

    def set_komi(self, komi: float) -> None:
        """Points for White from now on.

        Raises:
          ValueError: not a multiple of 0.5, or absurd.
        """
        if not is_komi(komi):
            raise ValueError(f"komi {komi:g} is not {KOMI_EXPECTED}")
        self.komi = komi
        if self._game is not None:
            self._game.set_komi(komi)

    def set_stones(self, black: Sequence[int], white: Sequence[int]) -> None:
        """A board with these stones and no past, Black to play; the komi stays.

        Raises:
          ValueError: stones that have no liberty; then the board is as it was.
        """
        stones = tuple(black), tuple(white)
        game = self._new_game((), stones)
        self.clear()
        self._game, self.stones = game, stones

    def set_rules(self, ko: KoRule, suicide: bool) -> None:
        """Other rules from now on, and for the game so far.

        Raises:
          ValueError: they forbid a move of the game so far; then they are as they were.
        """
        before = self.ko, self.suicide
        if (ko, suicide) == before:
            return
        self.ko, self.suicide = ko, suicide
        try:
            if self._game is not None:
                self._replay(self._game.moves)
        except ValueError:
            self.ko, self.suicide = before
            raise
        for made in (self._searchers, self._avoiding, self._analysts, self._networks):
            made.clear()
        self.forget()

    def load(self, record: GameRecord, num_moves: int) -> None:
        """The board, the komi and the first moves of a record.

        Raises:
          ValueError: more moves than a game may have, which leave the board as it was; a size or
            komi that cannot be played, or a move that is illegal; then the board is empty.
        """
        from gozero.apps.host_game import roomy_limit

        moves, most = record.moves[:num_moves], roomy_limit(record.size)
        if len(moves) > most:  # passes, most of them: no rule ends those
            raise ValueError(f"{len(moves):,} moves; on {record.size}x{record.size} at most {most}")
        self.set_size(record.size)
        self.set_komi(record.komi)
        if record.handicap == len(record.black_stones) and not record.white_stones:
            self.handicap = record.black_stones
        else:
            self.stones = record.black_stones, record.white_stones
        try:
            self._replay(moves)
        except ValueError:
            self.clear()
            raise

    def _replay(self, moves: Sequence[tuple[int, int]]) -> None:
        """A new game from the board's beginning, in place of that in play once all are played."""
        game = self._new_game(self.handicap, self.stones)
        for number, (colour, action) in enumerate(moves, start=1):
            try:
                game.play(colour, action)
            except ValueError as error:
                raise ValueError(f"move {number}: {error}") from error
        self._game = game

    def record(self) -> GameRecord:
        """The game so far."""
        from gozero.apps.sgf import GameRecord

        moves = () if self._game is None else tuple(self._game.moves)
        black, white = self.stones
        return GameRecord(
            size=self.size,
            komi=self.komi,
            moves=moves,
            black_stones=tuple(sorted((*self.handicap, *black))),
            white_stones=tuple(sorted(white)),
            handicap=len(self.handicap),
        )

    def forget(self) -> None:
        """The next search begins anew."""
        self._searched = None

    def dead_stones(self) -> np.ndarray:
        """bool[size * size]: stones whose chains the opponent owns at the end of most playouts."""
        from gozero.apps.gtp import search

        return search.dead_stones(self.game.rules, self.game.state, self.game.stones())

    def genmove(
        self,
        colour: int,
        talk: Talk | None = None,
        reports: Reports | None = None,
        avoid: np.ndarray | None = None,
    ) -> int | None:
        """Choose an action for a colour, on turn or not, and play it; None: it resigns.

        Args:
          colour: 0 Black, 1 White.
          talk: knows whether the search is to stop, and play.
          reports: what is told meanwhile, if anything.
          avoid: i32[2, A], see `Asked`: what the search is not to look at; None: nothing.

        Raises:
          ValueError: something to avoid, of a search without a tree.
        """
        start = self.clock()
        action = self.choose(colour, talk, reports, avoid)
        self.game_clock.spend(colour, self.clock() - start, self._given)
        if action is not None:
            self.game.play(colour, action)
        self._ponders = self.config.ponder and action is not None
        return action

    def choose(
        self,
        colour: int,
        talk: Talk | None = None,
        reports: Reports | None = None,
        avoid: np.ndarray | None = None,
    ) -> int | None:
        """`genmove` that plays nothing, off the clock."""
        game, self._given = self.game, None
        if game.ended or game.wins_by_passing(colour):
            return game.rules.pass_action
        self._given = seconds = self._seconds(colour)
        searcher = self.searcher if avoid is None else self._searcher_that_avoids
        look = None if talk is None else self._look(searcher, colour, seconds, talk, reports)
        if avoid is None:
            found = self._search(colour, seconds, look)
        else:  # it keeps nothing that another search could go on from
            self._num_searches += 1
            found = searcher.search(
                game.state, colour, self._num_searches, None, seconds, look=look, avoid=avoid
            )
        if not found.ok:
            print("gozero gtp: the evaluator gave a number that is not finite", file=sys.stderr)
        return None if found.resigns and found.ok else found.action

    @property
    def _searcher_that_avoids(self) -> Searcher:
        if self.size not in self._avoiding:
            from gozero.apps.gtp.search import make_searcher

            config = self.config.on(self.size)
            self._avoiding[self.size] = make_searcher(self._rules(), config, self.clock, True)
        return self._avoiding[self.size]

    def _look(
        self,
        searcher: Searcher,
        colour: int,
        seconds: float | None,
        talk: Talk,
        reports: Reports | None,
    ) -> Look:
        if reports is None:
            return lambda running, is_over: talk.is_stopped()
        return self.analyst.look(
            searcher, _state_for(self.game, colour), reports, seconds is not None, talk
        )

    def _search(self, colour: int, seconds: float | None, look: Look | None) -> Found:
        """Search the game for a colour; from what the last one found, if the game went on there."""
        self._num_searches += 1
        game, played = self.game, self._played_since_the_search(colour)
        found = self.searcher.search(
            game.state, colour, self._num_searches, played, seconds, look=look
        )
        self._searched = _Searched(self._start, list(game.moves), colour)
        return found

    def prepare(self) -> InBackground:
        """Import JAX, and compile what it takes to look at a game of this size; some seconds."""

        def load(is_first: bool):
            if is_first:
                _import_jax()
            from gozero.apps.host_game import HostGame

            game = HostGame(self._rules())
            if not game.ended:
                _state_for(game, game.to_play)

        if self.size not in self._loading:
            self._loading[self.size] = InBackground(functools.partial(load, not self._loading))
        return self._loading[self.size]

    def analyse(self, colour: int, avoid: np.ndarray, reports: Reports, talk: Talk) -> None:
        """Search for a colour until something is sent; see `Analyst.analyse`."""
        from gozero.apps.analysis.search import Asked

        self._num_searches += 1
        while self.game.ended:  # there is nothing to tell
            if talk.is_interrupted(seconds=1.0):
                return
        asked = Asked(_state_for(self.game, colour), avoid)
        self.analyst.analyse(asked, self._num_searches, reports, talk)

    def ponder(self, is_interrupted: Callable[[], bool]) -> None:
        """Search on for who is on turn, after a move of its own, until something has come."""
        if self._ponders and not self.game.ended:
            self._search(self.game.to_play, None, lambda running, is_over: is_interrupted())
            self._ponders = is_interrupted()  # else it has done all simulations

    def raw_network(self, symmetry: int) -> dict[str, Any]:
        """What the network says of the game for who is on turn: numbers and arrays, by KataGo's
        names for them.

        Args:
          symmetry: of the board that it is shown, from 0 to 7.

        Raises:
          ValueError: the player has no file of weights.
        """
        import jax.numpy as jnp
        import numpy as np

        from gozero.apps.network_forecast import raw_network

        rules, state = self.game.rules, self.game.state
        path = self.config.on(self.size).weights
        if path is None:
            raise ValueError("the player has no file of weights")
        if self.size not in self._networks:
            self._networks[self.size] = raw_network(rules, path)
        said = self._networks[self.size](state, jnp.int32(symmetry))
        white = 1 if self.game.to_play else -1
        logits = np.where(self.game.legal(), np.asarray(said.policy_logits[0]), -np.inf)
        policy = np.exp(logits - logits.max())
        policy = np.where(policy > 0, policy / policy.sum(), np.nan)
        value, drawn = float(said.value[0]), float(getattr(said, "no_result", [0.0])[0])
        found = {
            "whiteWin": (1 - drawn + white * value) / 2,
            "whiteLoss": (1 - drawn - white * value) / 2,
            "noResult": drawn,
            "policy": policy[:-1].reshape(self.size, -1),
            "policyPass": float(policy[-1]),
        }
        if said.score is not None and said.ownership is not None:
            owned = white * np.asarray(said.ownership[0]).reshape(self.size, -1)
            found |= {"whiteLead": white * float(said.score[0]), "whiteOwnership": owned}
        return found

    def stop(self) -> None:
        """Ponder no more, until the next move of its own."""
        self._ponders = False

    def _seconds(self, colour: int) -> float | None:
        """For the next move; None: no limit."""
        game = self.game
        of_game = self.game_clock.for_move(colour, game.rules.num_points, len(game.moves))
        limits = [limit for limit in (self.config.seconds, of_game) if limit is not None]
        return min(limits, default=None)

    @property
    def _start(self) -> tuple:
        """What a game begins with, and its values depend on."""
        return self.size, self.komi, self.handicap, self.stones

    def _played_since_the_search(self, colour: int) -> list[int] | None:
        """The actions that lead from the last search to this one; None if they do not.

        Both colours have to have moved in turn, for so they do in the search's tree.
        """
        last, moves = self._searched, self.game.moves
        if last is None or last.start != self._start or moves[: len(last.moves)] != last.moves:
            return None
        since = moves[len(last.moves) :]
        colours = [mover for mover, _ in since] + [colour]
        in_turn = [last.colour ^ (i % 2) for i in range(len(colours))]
        return [action for _, action in since] if colours == in_turn else None

    def board_text(self) -> str:
        """The board and a line on the game."""
        game = self.game
        last = game.moves[-1][1] if game.moves else None
        status = "the game is over" if game.ended else f"{('Black', 'White')[game.to_play]} to play"
        about = f"Moves: {len(game.moves)}  Komi: {self.komi:g}  {status}"
        return f"{pictures.ascii_board(game.stones(), last)}\n{about}"

    def score_text(self) -> str:
        """The area score of the board as it stands."""
        return coords.result_text(self.game.score())


def _state_for(game: HostGame, colour: int) -> GameState:
    """The game with a colour on turn, on the host."""
    import jax

    from gozero.go.rules import with_to_play

    return jax.device_get(with_to_play(game.state, colour))


def _import_jax() -> None:
    """And start it. No garbage is collected meanwhile, and what is there then is no more looked at:
    it takes a tenth of a second and more, in which no thread runs."""
    gc.disable()
    try:
        import jax

        jax.devices()
        executables.begin()
        from gozero.apps.gtp import analyst  # noqa: F401
    finally:
        gc.freeze()
        gc.enable()
