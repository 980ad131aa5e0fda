"""Matches between two of our players at any game, entirely on the device, with games in lockstep.

Games 2i and 2i + 1 are a pair: they start from the same opening with the players' sides swapped.
The games are played in two batches of lanes, which the players alternate between:

    ply     batch 0          batch 1
    0       first player     second player
    1       second player    first player

So each player chooses in half the games at once. A lane whose game is over takes the next game
begun by the player whose turn it is in that batch; with as many lanes as games, as in `play_match`,
this does not occur.

The host only dispatches to the device, two plies ahead of the results that it has read. Each
player's turn is a separate program: in a sweep of many players against one, that one is compiled
once, and so are players that differ only in their parameters.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.games.hex import HexBoard
from gozero.go.coords import KOMI_EXPECTED, is_komi
from gozero.go.rules import BLACK, GameState, Rules
from gozero.play.openings import draw, is_over
from gozero.play.player import Choice, Choose, Player, Turn, as_game
from gozero.runs import statistics
from gozero.search.game import NO_ACTION, Game, positions_of, where_games

NO_ONE = -1
"""The colour that resigned in a game without a resignation."""

_IDLE = -1
"""The game number of a lane without a game."""

_PLIES_AHEAD = 2
"""Plies that the host dispatches before it reads results, so that the device never waits for it."""


class MatchLanes(NamedTuple):
    """A batch of games in all of which the same player is to move."""

    states: Any  # [P]
    recent: jax.Array  # i32[2, P]: the last two actions, the older first
    ok: jax.Array  # bool[P]
    resigned: jax.Array  # bool[P]: the player to move resigned; or the lane has no game


class FinishedGame(NamedTuple):
    """A finished game."""

    number: int
    actions: tuple[int, ...]  # after the opening
    outcome: int  # for the player who began: +1 won, -1 lost, 0 drawn
    score: float  # in Go: Black's area - White's - komi; in games without points 0
    truncated: bool  # ended by the move limit and scored as it stood
    resigned: bool  # by the player to move after the actions, who lost whatever the score
    ok: bool  # every choice was ok and every action legal
    seconds: tuple[float, float]  # this game's share of each player's time, in order of `players`


class MatchResult(NamedTuple):
    """B games between two players, as NumPy arrays; games 2i and 2i + 1 are a pair.

    Colour 0 moves first in a new game (Black in Go); colour 1 is the other.
    """

    first_colour: np.ndarray  # i8[B]: the first player's colour
    score: np.ndarray  # f32[B]: Black's area - White's area - komi; else +1, 0, -1 for colour 0
    outcome: np.ndarray  # i8[B]: +1 the first player won, -1 the second, 0 drawn
    plies: np.ndarray  # i32[B]: moves of the game, including those before `start`
    truncated: np.ndarray  # bool[B]: ended by the move limit and scored as it stood
    resigned: np.ndarray  # i8[B]: the colour that resigned, and so lost; or NO_ONE
    ok: np.ndarray  # bool[B]: every choice was ok and every action legal
    actions: np.ndarray  # i16[T, B]: from `start` on, NO_ACTION after the end
    start: Any  # states [B]: the states before `actions`
    opening_plies: int  # how many of the actions are the opening, which neither player chose

    @property
    def points(self) -> np.ndarray:
        """f64[B]: the first player's points: 1 won, 1/2 drawn, 0 lost."""
        return (self.outcome + 1) / 2

    def summary(self) -> statistics.Summary:
        """Score, 95% interval over pairs, and Elo, for the first player."""
        return statistics.summarise(self.points, self.first_colour == BLACK)

    def moves(self, game: int) -> list[tuple[int, int]]:
        """(colour, action) of each move of a game since its `start`, as in SGF."""
        to_play = int(_colours(self.start)[game])
        played = self.actions[self.actions[:, game] != NO_ACTION, game]
        return [((to_play + i) % 2, int(action)) for i, action in enumerate(played)]


_NEW_GAMES = 2**31 - 1
"""The number of the key of new games, above those of the plies of any opening."""


def play_match(
    game: Game | Rules,
    first: Player,
    second: Player,
    key: jax.Array,
    num_games: int | None = None,
    komi: Any = None,
    openings: Any = 2,
    progress: Callable[[int, int], None] | None = None,
) -> MatchResult:
    """Play a match, all games at once. In games 0, 2, 4 ... the first player moves first after the
    opening.

    The openings depend on the key and not on the players. The players' draws depend on the key, the
    ply and the batch, so they differ between the games of a pair, and a match with the players
    swapped is a different match from the same openings. If both players are deterministic it is the
    same match: its game 2i + 1 is this one's game 2i.

    An illegal action is replaced by a pass, or in a game without a pass by the first legal action,
    and the game is not `ok`. A game ends at once when the player to move resigns,
    by a choice that is ok.

    Args:
      game: the game, or rules of Go, which score a game at their move limit as it stands.
      first, second: the players.
      key: PRNG key. The same key and players play the same games.
      num_games: B, an even number; optional if `openings` are states.
      komi: in Go, points for White, one number or [B]; None: 7, or that of the given openings.
      openings: the number of random plies for each pair from a new game of its own, see
        `openings.any_play` (with few plies, deterministic players repeat games). Or your own states
        [B / 2]; in Go and Hex either player may be to move.
      progress: called at each ply with the number of plies and of games that have not ended.

    Raises:
      ValueError: naming the argument, its value and what is allowed; a game that lasts longer than
        its `max_moves`.
    """
    game = as_game(game)
    num_pairs = _num_pairs(game, num_games, openings)
    _check_komi(game, komi, 2 * num_pairs)
    opening_key, play_key = jax.random.split(key)
    if isinstance(openings, int | np.integer):
        start = _new_games(game, num_pairs, jax.random.fold_in(opening_key, _NEW_GAMES))
        after_opening, opening = draw(game, opening_key, start, int(openings))
    else:
        start = after_opening = jax.tree.map(jnp.asarray, openings)
        opening = jnp.zeros((0, num_pairs), jnp.int32)

    def states(numbers: np.ndarray) -> Any:
        return _with_komi(jax.tree.map(lambda x: x[numbers // 2], after_opening), komi, numbers)

    numbers, first_mover = np.arange(2 * num_pairs), lambda number: number % 2
    players = first, second
    games = play_games(
        game, players, play_key, numbers.tolist(), first_mover, num_pairs, states, progress
    )
    finished = sorted(games, key=lambda one: one.number)
    start = jax.tree.map(lambda x: np.asarray(x)[numbers // 2], jax.device_get(start))
    opening = np.repeat(np.asarray(opening), 2, axis=1)
    return _result(game, finished, _with_komi(start, komi, numbers), opening)


def play_games(
    game: Game,
    players: tuple[Player, Player],
    key: jax.Array,
    todo: Sequence[int],
    begins: Callable[[int], int],
    lanes: int,
    start: Callable[[np.ndarray], Any],
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[FinishedGame]:
    """Play games, and yield each as soon as it is known to be over.

    Args:
      game: the game.
      players: the two players.
      key: PRNG key; draws depend on it, on the ply since the start of the match, and on the lane.
      todo: the numbers of the games to play.
      begins: maps a game's number to the player who begins it, 0 or 1.
      lanes: P, the lanes of each of the two batches.
      start: maps game numbers i32[P] to the states [P] from which the players begin.
      progress: called at each ply with the number of plies and of games that are not over.
    """
    if len(todo) == 0:
        return iter(())
    return _Match(game, players, key, todo, begins, lanes, start).play(progress)


class _Batch:
    """P lanes, and the host's records of the games in them."""

    def __init__(self, lanes: MatchLanes, memories: list, numbers: np.ndarray):
        self.lanes, self.memories = lanes, memories
        self.numbers = numbers  # i64[P]: the games' numbers, or _IDLE
        size = len(numbers)
        self.begun = np.zeros(size, np.int64)  # the ply at which the lane's game began
        self.actions: list[list[int]] = [[] for _ in range(size)]
        self.seconds = np.zeros((size, 2))


class _Match:
    """The implementation of `play_games`."""

    def __init__(self, game, players, key, todo, begins, lanes, start):
        self._game, self._players, self._key, self._start = game, players, key, start
        self._todo, self._begins = deque(todo), begins
        self._waiting = deque(), deque()  # games taken from `_todo`, by the player who begins them
        self._any = todo[0]  # the game whose state fills lanes without a game
        self._batches = [self._first_batch(lanes, who) for who in range(2)]
        self._clock = time.monotonic()

    def _first_batch(self, size: int, who: int) -> _Batch:
        numbers = self._take(size, who)
        states = self._states(numbers)
        memories = [one.begin(one.params, states) if one.begin else None for one in self._players]
        return _Batch(_lanes(states, numbers == _IDLE), memories, numbers)

    def _take(self, count: int, who: int) -> np.ndarray:
        """The numbers of the next games that player `who` begins, _IDLE where there are no more."""
        waiting = self._waiting[who]
        while self._todo and len(waiting) < count:
            number = self._todo.popleft()
            self._waiting[self._begins(number)].append(number)
        return np.array([waiting.popleft() if waiting else _IDLE for _ in range(count)])

    def _states(self, numbers: np.ndarray) -> Any:
        """States [P] of the games; lanes without a game get any game's state."""
        filler = max(numbers) if max(numbers) != _IDLE else self._any
        states = self._start(np.where(numbers == _IDLE, filler, numbers))
        return jax.tree.map(jnp.asarray, states)

    def play(self, progress: Callable[[int, int], None] | None) -> Iterator[FinishedGame]:
        in_flight: deque = deque()
        ended = 0  # the ply at which a game was last seen to end
        for ply in itertools.count():
            in_flight.append([self._take_turns(ply, half) for half in range(2)])
            if ply == 0:  # everything is compiled by now
                self._clock = time.monotonic()
            if len(in_flight) > _PLIES_AHEAD:
                settled_ply = ply - _PLIES_AHEAD
                for half, turn in enumerate(in_flight.popleft()):
                    for finished in self._settle(settled_ply, half, turn):
                        ended = settled_ply
                        yield finished
                # A lane's next game begins after its last one has settled, at either turn.
                if settled_ply - ended > self._game.max_moves + 2 * _PLIES_AHEAD + 2:
                    raise ValueError(
                        f"game: one lasts longer than its max_moves, {self._game.max_moves}; its "
                        "`outcome` must say that it is over by then"
                    )
                if progress is not None:
                    progress(settled_ply + 1, self._num_open())
                if not self._num_open():
                    return

    def _num_open(self) -> int:
        """Games that are not known to be over."""
        playing = sum(int((batch.numbers != _IDLE).sum()) for batch in self._batches)
        return playing + len(self._todo) + sum(map(len, self._waiting))

    def _take_turns(self, ply: int, half: int) -> tuple[jax.Array, jax.Array]:
        """Play one ply of a batch: (the actions played i32[P], which games are over bool[P])."""
        batch, who = self._batches[half], (ply + half) % 2
        self._refill(batch, ply, who)
        lanes, player, number = batch.lanes, self._players[who], np.int32(2 * ply + half)
        turn = Turn(lanes.states, legal_actions(self._game, lanes.states), lanes.recent)
        memory = batch.memories[who]
        choice = choose_actions(player.choose, player.params, self._key, number, turn, memory)
        batch.memories[who] = choice.memory
        advanced = advance(self._game, lanes, turn.legal, choice._replace(memory=None))
        batch.lanes, played, over = advanced
        return played, over

    def _refill(self, batch: _Batch, ply: int, who: int) -> None:
        """Begin new games of player `who` in the idle lanes."""
        idle = np.flatnonzero(batch.numbers == _IDLE)
        if not len(idle):
            return
        numbers = np.full_like(batch.numbers, _IDLE)
        numbers[idle] = self._take(len(idle), who)
        fresh = numbers != _IDLE
        if not fresh.any():
            return
        batch.lanes = _restart(batch.lanes, fresh, self._states(numbers))
        batch.numbers[fresh], batch.begun[fresh], batch.seconds[fresh] = numbers[fresh], ply, 0
        for lane in np.flatnonzero(fresh):
            batch.actions[lane] = []

    def _settle(
        self, ply: int, half: int, turn: tuple[jax.Array, jax.Array]
    ) -> Iterator[FinishedGame]:
        """Wait for a turn's results, record them, and yield the games that have ended."""
        batch, who = self._batches[half], (ply + half) % 2
        played, over = jax.device_get(turn)
        in_play = (batch.numbers != _IDLE) & (batch.begun <= ply)
        now = time.monotonic()
        batch.seconds[in_play, who] += (now - self._clock) / max(int(in_play.sum()), 1)
        self._clock = now
        for lane in np.flatnonzero(in_play & (played != NO_ACTION)):
            batch.actions[lane].append(int(played[lane]))
        ended = np.flatnonzero(in_play & over)
        if len(ended):
            ends = jax.device_get(_ends(self._game, batch.lanes))
            for lane in ended.tolist():
                yield _finished_game(batch, lane, ends)
            batch.numbers[ended] = _IDLE


def _finished_game(batch: _Batch, lane: int, ends: _Ends) -> FinishedGame:
    actions, resigned = tuple(batch.actions[lane]), bool(ends.resigned[lane])
    for_mover = -1 if resigned else int(np.sign(ends.value[lane]))
    return FinishedGame(
        number=int(batch.numbers[lane]),
        actions=actions,
        outcome=for_mover if len(actions) % 2 == 0 else -for_mover,
        score=float(ends.score[lane]),
        truncated=bool(ends.truncated[lane]) and not resigned,
        resigned=resigned,
        ok=bool(ends.ok[lane]),
        seconds=(float(batch.seconds[lane, 0]), float(batch.seconds[lane, 1])),
    )


@functools.partial(jax.jit, static_argnames="game")
def legal_actions(game: Game, states: Any) -> jax.Array:
    """bool[P, A]: the legal actions of each game."""
    return jax.vmap(game.legal)(states)


@functools.partial(jax.jit, static_argnames="choose", donate_argnames="memory")
def choose_actions(
    choose: Choose, params: Any, key: jax.Array, number: Any, turn: Turn, memory: Any
) -> Choice:
    """A player's turn in [P] games; `number`, i32[], is folded into the key."""
    return choose(params, jax.random.fold_in(key, number), turn, memory)


@functools.partial(jax.jit, static_argnames="game")
def advance(
    game: Game, lanes: MatchLanes, legal: jax.Array, choice: Choice
) -> tuple[MatchLanes, jax.Array, jax.Array]:
    """Play the chosen actions in [P] games.

    In finished games it plays passes, so that later searches there cost little.

    Returns:
      (lanes; i32[P]: the actions played, NO_ACTION where the game had ended; bool[P]: it is over).
    """
    states, chosen = lanes.states, choice.action.astype(jnp.int32)
    was_over, resigned = _over(game, lanes), lanes.resigned
    if choice.resigns is not None:
        resigned = resigned | (~was_over & choice.ok & choice.resigns)
    ended = was_over | resigned
    clipped = jnp.clip(chosen, 0, game.num_actions - 1)
    is_legal = jnp.take_along_axis(legal, clipped[:, None], axis=1)[:, 0] & (chosen == clipped)
    passes = jnp.full_like(chosen, game.num_actions - 1)
    fallback = jnp.argmax(legal, axis=1).astype(jnp.int32) if game.points is None else passes
    action = jnp.where(is_legal & ~ended, chosen, fallback)
    after = jax.vmap(game.play)(states, action)
    played = jnp.where(ended, NO_ACTION, action)
    ok = lanes.ok & (was_over | (choice.ok & (is_legal | ended)))
    lanes = MatchLanes(after, jnp.stack([lanes.recent[1], played]), ok, resigned)
    return lanes, played, _over(game, lanes)


def _over(game: Game, lanes: MatchLanes) -> jax.Array:
    """bool[P]: which games are over, by the rules or by resignation."""
    return is_over(game, lanes.states) | lanes.resigned


@jax.jit
def _restart(lanes: MatchLanes, fresh: jax.Array, states: Any) -> MatchLanes:
    """Begin new games in the lanes `fresh` bool[P]; their recent actions become NO_ACTION, so that
    players forget the last games."""

    new = _lanes(states, jnp.zeros_like(fresh))
    chosen = where_games(fresh, new._replace(recent=()), lanes._replace(recent=()))
    return chosen._replace(recent=jnp.where(fresh, NO_ACTION, lanes.recent))


def _lanes(states: Any, idle: Any) -> MatchLanes:
    recent = jnp.full((2, len(idle)), NO_ACTION, jnp.int32)
    return MatchLanes(states, recent, jnp.ones(len(idle), bool), jnp.asarray(idle))


class _Ends(NamedTuple):
    """The results of [P] games; meaningful where they are over."""

    value: jax.Array  # f32[P], for the player to move
    score: jax.Array  # f32[P]: in Go, as `FinishedGame.score`; else 0
    truncated: jax.Array  # bool[P]
    resigned: jax.Array  # bool[P]
    ok: jax.Array  # bool[P]


@functools.partial(jax.jit, static_argnames="game")
def _ends(game: Game, lanes: MatchLanes) -> _Ends:
    value = jax.vmap(lambda state: game.outcome(state)[1])(lanes.states)
    score, truncated = jnp.zeros_like(value), jnp.zeros_like(lanes.ok)
    if (points := game.points) is not None:
        score = jax.vmap(lambda state: points.score(state, jnp.bool_(True))[0])(lanes.states)
        truncated = jax.vmap(points.truncated)(lanes.states)
    return _Ends(value, score, truncated, lanes.resigned, lanes.ok)


@functools.partial(jax.jit, static_argnames=("game", "num_games"))
def _new_games(game: Game, num_games: int, key: jax.Array) -> Any:
    return jax.vmap(game.init)(jax.random.split(key, num_games))


def _colours(states: Any) -> np.ndarray:
    """i8[B]: the colour to move, for games that may start with either. Of other states 0: whatever
    they call `to_play` may be coded in another way."""
    if isinstance(states, GameState | HexBoard):
        return np.asarray(states.to_play)
    return np.zeros(len(jax.tree.leaves(states)[0]), np.int8)


def _with_komi(states: Any, komi: Any, numbers: np.ndarray) -> Any:
    """The states of the games, with the match's komi."""
    if komi is None:
        return states
    komi = np.asarray(komi, np.float32)
    of_games = komi[numbers] if komi.ndim else np.broadcast_to(komi, len(numbers))
    return states.replace(komi=of_games)


def _result(
    game: Game, games: Sequence[FinishedGame], start: Any, opening: np.ndarray
) -> MatchResult:
    """The match's result from its games, in order, and their openings i[T, B]."""
    numbers = np.arange(len(games))
    mover = (_colours(start) + np.sum(opening != NO_ACTION, axis=0)) % 2  # after the opening
    first_colour = np.where(numbers % 2 == 0, mover, 1 - mover).astype(np.int8)
    lengths = np.array([len(finished.actions) for finished in games])
    actions = np.full((max(lengths), len(games)), NO_ACTION, np.int16)
    for number, finished in enumerate(games):
        actions[: len(finished.actions), number] = finished.actions
    actions = np.concatenate([opening.astype(np.int16), actions])
    outcome = np.array([finished.outcome for finished in games], np.int8)
    outcome = np.where(numbers % 2 == 0, outcome, -outcome)  # of the first player
    resigned = np.array([finished.resigned for finished in games])
    resigner = np.where(resigned, (mover + lengths) % 2, NO_ONE).astype(np.int8)
    score = np.array([finished.score for finished in games], np.float32)
    plies = np.asarray(np.sum(actions != NO_ACTION, axis=0, dtype=np.int32))
    if game.points is None:
        score = np.where(first_colour == 0, outcome, -outcome).astype(np.float32)
    else:
        plies += np.asarray(jax.vmap(game.points.ply)(positions_of(game, start)))
    return MatchResult(
        first_colour=first_colour,
        score=score,
        outcome=outcome,
        plies=plies,
        truncated=np.array([finished.truncated for finished in games]),
        resigned=resigner,
        ok=np.array([finished.ok for finished in games]),
        actions=actions,
        start=start,
        opening_plies=len(opening),
    )


def _num_pairs(game: Game, num_games: int | None, openings: Any) -> int:
    if not isinstance(openings, int | np.integer):
        shape = np.shape(jax.tree.leaves(openings)[0])
        if len(shape) < 1 or shape[0] < 1:
            raise ValueError(
                f"openings: states of shape {shape}; expected a batch of states, one for each pair"
            )
        if num_games not in (None, 2 * shape[0]):
            raise ValueError(
                f"num_games: {num_games}, but {shape[0]} openings are for {2 * shape[0]} games"
            )
        return shape[0]
    if not 0 <= openings < game.max_moves:
        raise ValueError(f"openings: {openings} plies; expected 0 to {game.max_moves - 1}")
    if num_games is None or num_games < 2 or num_games % 2:
        raise ValueError(
            f"num_games: {num_games}; games are played in pairs, so give an even number"
        )
    return num_games // 2


def _check_komi(game: Game, komi: Any, num_games: int) -> None:
    if komi is None:
        return
    if game.points is None:
        raise ValueError(f"komi: {komi}; this game has no points, so omit komi")
    values = np.asarray(komi, np.float64)
    if values.shape not in ((), (num_games,)):
        raise ValueError(f"komi: shape {values.shape}; expected one number or ({num_games},)")
    for value in values.reshape(-1):
        if not is_komi(float(value)):
            raise ValueError(f"komi: {value} is not {KOMI_EXPECTED}")
