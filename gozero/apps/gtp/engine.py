"""The engine behind GTP: a game and its search, independent of the protocol.

Passing. The engine plays the most visited action of its search, which knows a game's result
exactly where two passes end it: it passes when the search prefers that. One rule takes
precedence: if the opponent has just passed and the board as it stands is won by area, it passes,
which wins. Dead stones count as they stand, so it captures them first if it needs to. In a game
that two passes have ended, it passes; a play by either side resumes that game.

Time. A move takes the seconds of the flags, or what `clock` allows if that is less, but ends as
soon as nothing can change the choice; without either limit, it runs all simulations. Compiling is
not on the clock: if time_settings sets one, the engine compiles before it answers that command,
or a new size; but the first move that must avoid others compiles when it is asked for.
"""

from __future__ import annotations

import functools
import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gozero.apps import pictures, rule_sets, runtime
from gozero.apps.gtp.background import InBackground
from gozero.apps.gtp.clock import GameClock, Increment
from gozero.apps.gtp.config import GtpConfig
from gozero.compile import executables
from gozero.go import coords, handicap
from gozero.go.coords import KOMI_EXPECTED, MAX_KOMI, MAX_SIZE, MIN_SIZE, is_komi

if TYPE_CHECKING:
    import numpy as np

    from gozero.apps.gtp.analyst import Analyst, Reports
    from gozero.apps.gtp.protocol import Talk
    from gozero.apps.gtp.search import Look, SearchedMove, Searcher
    from gozero.apps.host_game import HostGame
    from gozero.apps.sgf import GameRecord
    from gozero.go.coords import KoRule
    from gozero.go.rules import GameState, Rules


Stones = tuple[tuple[int, ...], tuple[int, ...]]
"""The points of Black's stones and of White's."""


class _Start(NamedTuple):
    """How a game began."""

    size: int
    komi: float
    handicap: tuple[int, ...]
    stones: Stones
    first: int

    @classmethod
    def of(cls, record: GameRecord, komi: float) -> _Start:
        """As in a record, with this komi if it has none."""
        komi = record.komi if record.komi_given else komi
        black, white = record.black_stones, record.white_stones
        by_handicap = record.handicap == len(black) and not white
        if by_handicap and record.handicap and record.first_player == 1:
            return cls(record.size, komi, black, ((), ()), 0)
        return cls(record.size, komi, (), (black, white), record.first_player)


class _LastSearch(NamedTuple):
    """The game that was last searched, and for whom."""

    start: _Start
    moves: list[tuple[int, int]]
    colour: int


def _check_komi(komi: float) -> None:
    if not is_komi(komi):
        raise ValueError(f"komi {komi:g} is not {KOMI_EXPECTED}")


class _Searches:
    """What searches and evaluates the positions of one board size, each made once, when needed."""

    def __init__(
        self,
        rules: Rules,
        config: GtpConfig,
        clock: Callable[[], float],
        prepare: Callable[[], object],
    ):
        self._rules, self._config, self._clock = rules, config, clock
        self._prepare = prepare  # called once the search of moves is made, before it is compiled

    @functools.cached_property
    def searcher(self) -> Searcher:
        """The search of moves."""
        from gozero.apps.gtp.search import make_searcher

        searcher = make_searcher(self._rules, self._config, self._clock)
        self._prepare()
        return searcher

    @functools.cached_property
    def avoiding_searcher(self) -> Searcher:
        """One that can avoid moves."""
        from gozero.apps.gtp.search import make_searcher

        return make_searcher(self._rules, self._config, self._clock, True)

    @functools.cached_property
    def analyst(self) -> Analyst:
        from gozero.apps.gtp.analyst import Analyst

        return Analyst(self._rules, self._config, self._clock)

    @functools.cached_property
    def raw_network(self) -> Callable:
        """See `network_forecast.raw_network`.

        Raises:
          ValueError: the player has no weights file.
        """
        from gozero.apps.network_forecast import raw_network

        if self._config.weights is None:
            raise ValueError("the player has no weights file")
        return raw_network(self._rules, self._config.weights)


class Engine:
    """A game and its search; the clock is in seconds, from any origin."""

    def __init__(self, config: GtpConfig, clock: Callable[[], float] = time.monotonic):
        self.config = config
        self.clock, self.game_clock = clock, GameClock()
        assert config.size is not None  # set when it was made
        self.size, self.komi = config.size, config.komi
        self.ko: KoRule = config.ko
        self.suicide = config.suicide
        self.bonus = "0"  # White's points for a handicap of N stones: 0, N or N-1
        self.handicap: tuple[int, ...] = ()
        self.stones: Stones = ((), ())
        self.first = 0  # who plays first, if there is no handicap
        self._game: HostGame | None = None
        self._by_size: dict[int, _Searches] = {}
        self._announced: set[int] = set()
        self._num_searches = 0
        self._allotted: float | None = None  # seconds for the last search; None: no limit
        self._last_search: _LastSearch | None = None
        self._loading: dict[int, InBackground] = {}
        self._ponders = False  # whether there is a position to ponder

    @property
    def game(self) -> HostGame:
        """The game, made when first needed, because that imports JAX."""
        if self._game is None:
            self._announce_compiling()
            self._game = self._new_game(self.handicap, self.stones, self.first)
        return self._game

    def _new_game(self, handicap: Sequence[int], stones: Stones, first: int = 0) -> HostGame:
        """A new game from a handicap, or from stones (Black's, White's), with `first` to play.

        Raises:
          ValueError: some stones have no liberty.
        """
        from gozero.apps.host_game import HostGame
        from gozero.go import setup

        rules, start = self._rules(), None
        if any(stones) or first:
            start = setup.from_points(rules, *stones, first, self.whole_komi)
        return HostGame(rules, self.whole_komi, handicap, start)

    @property
    def whole_komi(self) -> float:
        """The komi and White's points for handicap stones, at most `MAX_KOMI`."""
        points = rule_sets.RuleSet(bonus=self.bonus).handicap_points(len(self.handicap))
        return min(self.komi + points, MAX_KOMI)

    def _rules(self) -> Rules:
        from gozero.apps.host_game import ample_move_limit
        from gozero.go.rules import Rules

        limit, remember = ample_move_limit(self.size), self.config.on(self.size).needs_past_boards
        return Rules(self.size, self.ko, self.suicide, max_moves=limit, remember=remember)

    def _announce_compiling(self) -> None:
        """Announce, once per size, that the first play and the first search have to compile."""
        if self.size not in self._announced:
            self._announced.add(self.size)
            katago = self.config.on(self.size).uses_katago_network
            message = runtime.compiling_message(self.size, katago=katago)
            print(f"gozero gtp: {message}", file=sys.stderr, flush=True)

    @property
    def searcher(self) -> Searcher:
        """The search for this board size, made once.

        Raises:
          ValueError: files that are missing, damaged or for another size.
        """
        return self.searches.searcher

    @property
    def searches(self) -> _Searches:
        """The searches of this board size."""
        if self.size not in self._by_size:
            config, prepare = self.config.on(self.size), lambda: InBackground(self.game.prepare)
            self._by_size[self.size] = _Searches(self._rules(), config, self.clock, prepare)
        return self._by_size[self.size]

    def set_size(self, size: int) -> None:
        """Start on an empty board of this size; the komi stays.

        Raises:
          ValueError: the rules or the flags do not allow this size.
        """
        self._check_size(size)
        self.size = size
        self.clear()

    def _check_size(self, size: int) -> None:
        if not MIN_SIZE <= size <= MAX_SIZE:
            raise ValueError(f"{size} is not from {MIN_SIZE} to {MAX_SIZE}")
        start_size = self.config.size
        for name in ("weights", "shapes"):
            if name == "weights" and self.config.uses_katago_network:
                continue  # which fits every size
            if name in self.config.own_files and size != start_size:
                raise ValueError(f"the {name} are for {start_size}x{start_size}")
        self.config.on(size).check_size(size)

    def clear(self) -> None:
        """Clear the board: Black to play, with all of the time, and nothing to ponder; the komi
        stays."""
        self.stop()
        self._game, self.handicap, self.stones, self.first = None, (), ((), ()), 0
        self.game_clock.reset()
        self._warm_up()

    def set_time(
        self, main: float, period: float, stones: int, increment: Increment | None = None
    ) -> None:
        """Set the time of each game from now on; see `GameClock.set`."""
        self.game_clock.set(main, period, stones, increment)
        self._warm_up()

    def set_left(self, colour: int, seconds: float, stones: int) -> None:
        """Set the time that a player has left; see `GameClock.set_left`."""
        self.game_clock.set_left(colour, seconds, stones)
        self._warm_up()

    def _warm_up(self) -> None:
        """If a clock will run, compile before it starts, as the time would be charged."""
        if self.game_clock.limited:
            self.searcher.warm_up()

    @property
    def untouched(self) -> bool:
        """Whether nothing has been played or placed since the board was cleared."""
        placed = self.handicap or any(self.stones) or self.first
        return not placed and (self._game is None or not self._game.moves)

    def set_handicap(self, actions: list[int]) -> None:
        """Place Black's handicap stones on an untouched board, White to play; the komi stays.

        Raises:
          ValueError: the points are not a valid free handicap.
        """
        handicap.check_free(self.size, actions)
        self.clear()
        self.handicap = tuple(actions)

    def set_komi(self, komi: float) -> None:
        """Set the points for White from now on.

        Raises:
          ValueError: the komi is not a multiple of 0.5, or is out of range.
        """
        _check_komi(komi)
        self.komi = komi
        if self._game is not None:
            self._game.set_komi(self.whole_komi)

    def set_stones(self, black: Sequence[int], white: Sequence[int]) -> None:
        """Set up a board with these stones and no history, Black to play; the komi stays.

        Raises:
          ValueError: some stones have no liberty; the board is then unchanged.
        """
        stones = tuple(black), tuple(white)
        game = self._new_game((), stones)
        self.clear()
        self._game, self.stones = game, stones

    def set_rules(self, ko: KoRule, suicide: bool, bonus: str = "0") -> None:
        """Use other rules from now on, also for the game so far.

        Args:
          ko, suicide: as of `Rules`.
          bonus: White's points for a handicap of N stones: 0, N or N-1.

        Raises:
          ValueError: they forbid a move of the game so far; the rules are then unchanged.
        """
        previous = self.ko, self.suicide, self.bonus
        if (ko, suicide, bonus) == previous:
            return
        self.ko, self.suicide, self.bonus = ko, suicide, bonus
        try:
            if self._game is not None:
                self._game = self._replayed(self._game.moves)
        except ValueError:
            self.ko, self.suicide, self.bonus = previous
            raise
        if (ko, suicide) != previous[:2]:
            self._by_size.clear()
        self.forget()
        self._warm_up()

    def load(self, record: GameRecord, num_moves: int) -> None:
        """Load the board, the komi and the first moves of a record; without a komi, that of the
        engine stays.

        Raises:
          ValueError: the record has more moves than a game may have, its size, komi or stones
            cannot be played, or a move is illegal; nothing is then changed.
        """
        from gozero.apps.host_game import move_limit_for

        moves = record.moves[:num_moves]
        move_limit_for(record.size, len(moves))
        self._check_size(record.size)
        _check_komi(record.komi)
        before, start = self._start, _Start.of(record, self.komi)
        self._start = start
        try:
            game = self._replayed(moves)
        except ValueError:
            self._start = before
            raise
        self.clear()
        self._start, self._game = start, game

    def _replayed(self, moves: Sequence[tuple[int, int]]) -> HostGame:
        """A new game from the starting position, with these moves.

        Raises:
          ValueError: some stones have no liberty, or a move is illegal.
        """
        game = self._new_game(self.handicap, self.stones, self.first)
        for number, (colour, action) in enumerate(moves, start=1):
            try:
                game.play(colour, action)
            except ValueError as error:
                raise ValueError(f"move {number}: {error}") from error
        return game

    def record(self) -> GameRecord:
        """The game so far, as a record."""
        from gozero.apps.sgf import GameRecord

        moves = () if self._game is None else tuple(self._game.moves)
        black, white = self.stones
        return GameRecord(
            size=self.size,
            komi=self.komi,
            rules=rule_sets.sgf_name(self.ko, self.suicide),
            moves=moves,
            black_stones=tuple(sorted((*self.handicap, *black))),
            white_stones=tuple(sorted(white)),
            handicap=len(self.handicap),
            to_play=self.first or None,
        )

    def forget(self) -> None:
        """Make the next search start afresh."""
        self._last_search = None

    def dead_stones(self) -> np.ndarray:
        """bool[size, size]: the dead stones, those that the opponent owns after most playouts."""
        from gozero.apps import settled

        ownership = settled.by_playouts(self.game.rules, self.game.state)
        return settled.dead_chains(self.game.stones(), ownership)

    def genmove(
        self,
        colour: int,
        talk: Talk | None = None,
        reports: Reports | None = None,
        avoid: np.ndarray | None = None,
    ) -> int | None:
        """Choose an action for a colour, even out of turn, and play it; None: it resigns.

        Args:
          colour: 0 Black, 1 White.
          talk: tells whether the search must stop and play.
          reports: what to report meanwhile, if anything.
          avoid: i32[2, A], see `RestrictedState`: the moves that the search must avoid; None: none.

        Raises:
          ValueError: there are moves to avoid, but the search has no tree.
        """
        start = self.clock()
        action = self.choose(colour, talk, reports, avoid)
        self.game_clock.spend(colour, self.clock() - start, self._allotted)
        if action is not None:
            self.game.play(colour, action)
        self._ponders = self.config.ponder and action is not None
        return action

    def searcher_for(self, colour: int, avoid: np.ndarray | None) -> Searcher | None:
        """The search of a colour's move, made once; None: the colour passes without a search.

        Args:
          colour: 0 Black, 1 White.
          avoid: as in `genmove`.

        Raises:
          ValueError: as `searcher`; or there are moves to avoid, but the search has no tree.
        """
        may_pass = avoid is None or not avoid[colour, self.game.rules.pass_action]
        if self.game.ended or (may_pass and self.game.wins_by_passing(colour)):
            return None
        return self.searcher if avoid is None else self.searches.avoiding_searcher

    def choose(
        self,
        colour: int,
        talk: Talk | None = None,
        reports: Reports | None = None,
        avoid: np.ndarray | None = None,
    ) -> int | None:
        """Choose an action as `genmove` does, but without playing it or charging the clock."""
        game, self._allotted = self.game, None
        searcher = self.searcher_for(colour, avoid)
        if searcher is None:
            return game.rules.pass_action
        self._allotted = seconds = self._seconds(colour)
        look = None if talk is None else self._look(searcher, colour, seconds, talk, reports)
        if avoid is None:
            move = self._search(colour, seconds, look)
        else:  # such a search keeps no tree for later ones
            self._num_searches += 1
            move = searcher.search(
                game.state, colour, self._num_searches, None, seconds, look=look, avoid=avoid
            )
        if not move.ok:
            print("gozero gtp: an evaluation was not finite", file=sys.stderr)
        return None if move.resigns and move.ok else move.action

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
        return self.searches.analyst.look(
            searcher, _state_for(self.game, colour), reports, seconds is not None, talk
        )

    def _search(self, colour: int, seconds: float | None, look: Look | None) -> SearchedMove:
        """Search for a colour; continues the last search if the game went on from there."""
        self._num_searches += 1
        game, actions_since = self.game, self._actions_since_search(colour)
        move = self.searcher.search(
            game.state, colour, self._num_searches, actions_since, seconds, look=look
        )
        self._last_search = _LastSearch(self._start, list(game.moves), colour)
        return move

    def prepare(self) -> InBackground:
        """Import JAX and compile what setting up a game of this size needs, in the background."""

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
        """Search for a colour until input arrives; see `Analyst.analyse`."""
        from gozero.apps.restricted import RestrictedState, to_analyse

        self._num_searches += 1
        while self.game.truncated:  # at the move limit; there is nothing to report
            if talk.is_interrupted(seconds=1.0):
                return
        state = RestrictedState(to_analyse(_state_for(self.game, colour)), avoid)
        self.searches.analyst.analyse(state, self._num_searches, reports, talk)

    def ponder(self, is_interrupted: Callable[[], bool]) -> None:
        """After a move of the engine's own, search for the player to move until input arrives."""
        if self._ponders and not self.game.ended:
            self._search(self.game.to_play, None, lambda running, is_over: is_interrupted())
            self._ponders = is_interrupted()  # if not interrupted, all simulations are done

    def raw_network(
        self, symmetry: int, colour: int | None = None, optimism: float | None = None
    ) -> dict[str, Any]:
        """The network's output for the game: numbers and arrays, by KataGo's names for them.

        Args:
          symmetry: from 0 to 7; applied to the board that the network sees.
          colour: the player to move; if it is not that player's turn, the network is shown no past
            moves, and no ko. None: the player whose turn it is.
          optimism: the weight of a KataGo network's optimistic policy, 0 to 1, if it has one; None:
            that of the root of a search.

        Raises:
          ValueError: the player has no weights file.
        """
        import jax.numpy as jnp
        import numpy as np

        network, state, legal = self.searches.raw_network, self.game.state, self.game.legal()
        if colour not in (None, self.game.to_play):
            state, legal = self._anew(colour)
        weight = jnp.float32(np.nan if optimism is None else optimism)
        output = network(state, jnp.int32(symmetry), weight)
        sign = 1 if int(state.position.to_play) else -1
        logits = np.where(legal, np.asarray(output.policy_logits[0]), -np.inf)
        policy = np.exp(logits - logits.max())
        policy = np.where(policy > 0, policy / policy.sum(), np.nan)
        value, no_result = float(output.value[0]), float(getattr(output, "no_result", [0.0])[0])
        result: dict[str, Any] = {
            "whiteWin": (1 - no_result + sign * value) / 2,
            "whiteLoss": (1 - no_result - sign * value) / 2,
            "noResult": no_result,
        }
        if output.score is not None:
            result["whiteLead"] = sign * float(output.score[0])
        result |= _only_of_katago(output, sign)
        result |= {"policy": policy[:-1].reshape(self.size, -1), "policyPass": float(policy[-1])}
        if output.ownership is not None:
            ownership = sign * np.asarray(output.ownership[0]).reshape(self.size, -1)
            result["whiteOwnership"] = ownership
        return result

    def _anew(self, colour: int) -> tuple[GameState, np.ndarray]:
        """(a game that begins with the stones on the board and `colour` to play, bool[A]: the legal
        actions)."""
        import numpy as np

        from gozero.go import rules as go
        from gozero.go import setup

        rules = self.game.rules
        state = setup.from_stones(rules, self.game.stones(), colour, self.whole_komi)
        return state, np.asarray(go.legal_actions(rules, state))

    def stop(self) -> None:
        """Stop pondering until the engine's next move."""
        self._ponders = False

    def _seconds(self, colour: int) -> float | None:
        """The time limit of the next move; None: no limit."""
        game = self.game
        clock_limit = self.game_clock.for_move(colour, game.rules.num_points, len(game.moves))
        limits = [limit for limit in (self.config.seconds, clock_limit) if limit is not None]
        return min(limits, default=None)

    @property
    def _start(self) -> _Start:
        """The start of the game, on which its values depend."""
        return _Start(self.size, self.komi, self.handicap, self.stones, self.first)

    @_start.setter
    def _start(self, start: _Start) -> None:
        self.size, self.komi, self.handicap, self.stones, self.first = start

    def _actions_since_search(self, colour: int) -> list[int] | None:
        """The actions since the last search; None if the game did not go on from there.

        The colours must have moved in turn, as they do in the search tree.
        """
        last, moves = self._last_search, self.game.moves
        if last is None or last.start != self._start or moves[: len(last.moves)] != last.moves:
            return None
        later_moves = moves[len(last.moves) :]
        colours = [mover for mover, _ in later_moves] + [colour]
        expected = [last.colour ^ (i % 2) for i in range(len(colours))]
        return [action for _, action in later_moves] if colours == expected else None

    def board_text(self) -> str:
        """The board, and a line about the game."""
        game = self.game
        last = game.moves[-1][1] if game.moves else None
        status = "the game is over" if game.ended else f"{('Black', 'White')[game.to_play]} to play"
        summary = f"Moves: {len(game.moves)}  Komi: {self.komi:g}  {status}"
        return f"{pictures.ascii_board(game.stones(), last)}\n{summary}"

    def score_text(self) -> str:
        """The area score of the board without its dead stones."""
        from gozero.apps import settled

        game = self.game
        if not game.stones().any():
            return coords.result_text(-self.whole_komi)
        owners = settled.owners(game.rules, game.stones(), self.dead_stones())
        return coords.result_text(int(owners.sum(dtype=int)) - self.whole_komi)


def _only_of_katago(output: Any, sign: int) -> dict[str, float]:
    """The outputs that only KataGo's networks have; -1 for those that older ones lack."""
    if not hasattr(output, "score_mean"):
        return {}
    mean, stdev = float(output.score_mean[0]), float(output.score_stdev[0])
    errors = output.variance_time, output.value_error, output.score_error
    names = "varTimeLeft", "shorttermWinlossError", "shorttermScoreError"
    return {
        "whiteScoreSelfplay": sign * mean,
        "whiteScoreSelfplaySq": mean**2 + stdev**2,
        **{name: -1.0 if x is None else float(x[0]) for name, x in zip(names, errors, strict=True)},
    }


def _state_for(game: HostGame, colour: int) -> GameState:
    """The game's state with `colour` to play, copied to the host."""
    import jax

    from gozero.go.rules import with_to_play

    return jax.device_get(with_to_play(game.state, colour))


def _import_jax() -> None:
    """Import JAX and start it. Garbage collection is off meanwhile, and all objects are frozen at
    the end: a collection takes a tenth of a second or more, in which no thread runs."""
    gc.disable()
    try:
        import jax

        jax.devices()
        executables.begin()
        from gozero.apps.gtp import analyst  # noqa: F401
    finally:
        gc.freeze()
        gc.enable()
