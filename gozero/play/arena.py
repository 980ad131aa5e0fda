"""Matches of ours against ours, wholly on the device: all games of a match in lockstep.

Games 2i and 2i + 1 are a pair: they start from the same opening, and the players have swapped
colours. So at every ply each player is to move in one game of each pair, and in no other: he
chooses in half the games at once, with no lane idle but for games that have ended. The halves
are two batches of lanes, and the players take turns at them:

    ply     games 0, 2, 4 ...    games 1, 3, 5 ...
    0       first moves          second moves
    1       second moves         first moves

The host only calls the device, two plies ahead of what it knows. A player's turn is a program of
its own: in a sweep of many players against one, that one is compiled once, and so are players
that differ by their parameters alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import scoring
from gozero.go.coords import KOMI_EXPECTED, is_komi
from gozero.go.rules import BLACK, WHITE, GameState, Rules, init, legal_actions, play
from gozero.play.player import NO_ACTION, Choice, Choose, Player, Turn, any_play, policy_player
from gozero.runs import statistics

KOMI = 7.0
NO_ONE = -1
"""Where no colour has resigned."""

_PLIES_AHEAD = 2
"""That the host asks for before it hears of the games: the device never waits for it."""


class MatchResult(NamedTuple):
    """B games of two players, in NumPy; game 2i and 2i + 1 are a pair."""

    first_colour: np.ndarray  # i8[B]: 0 where the first player had Black, 1 White
    score: np.ndarray  # f32[B]: Black's area - White's area - komi
    outcome: np.ndarray  # i8[B]: +1 the first player won, -1 the second, 0 drawn
    plies: np.ndarray  # i32[B]: moves of the game, those before `start` included
    truncated: np.ndarray  # bool[B]: ended by the move limit, and scored as it stood
    resigned: (
        np.ndarray
    )  # i8[B]: the colour that resigned, which lost whatever the score; or NO_ONE
    ok: np.ndarray  # bool[B]: every choice was sound, and every action legal
    actions: np.ndarray  # i16[T, B]: from `start` on, NO_ACTION after the end
    start: GameState  # [B]: what the actions start from
    opening_plies: int  # how many of the actions are the opening, which neither player chose

    @property
    def points(self) -> np.ndarray:
        """f64[B]: of the first player: 1 won, 1/2 drawn, 0 lost."""
        return (self.outcome + 1) / 2

    def summary(self, confidence: float = 0.95) -> statistics.Summary:
        """Score, interval over pairs and Elo from the first player's side."""
        return statistics.summarise(self.points, self.first_colour == BLACK, True, confidence)

    def moves(self, game: int) -> list[tuple[int, int]]:
        """(colour, action) of each move of a game since its `start`, as SGF has them."""
        to_play = int(self.start.position.to_play[game])
        played = self.actions[self.actions[:, game] != NO_ACTION, game]
        return [((to_play + i) % 2, int(action)) for i, action in enumerate(played)]


class Lanes(NamedTuple):
    """One game of each pair. All of them are the same player's turn."""

    states: GameState  # [P]
    recent: jax.Array  # i32[2, P]: the last two actions, the older first
    ok: jax.Array  # bool[P]
    resigned: jax.Array  # i8[P]: a colour, or NO_ONE

    @property
    def over(self) -> jax.Array:
        """bool[P]"""
        return jax.vmap(lambda state: state.ended)(self.states) | (self.resigned != NO_ONE)


def play_match(
    rules: Rules,
    first: Player,
    second: Player,
    key: jax.Array,
    num_games: int | None = None,
    komi: Any = None,
    openings: int | GameState = 2,
    progress: Callable[[int, int], None] | None = None,
) -> MatchResult:
    """Play a match. Its first player is to move first in games 0, 2, 4 ..., after the opening.

    The openings depend on the key and not on the players. What the players draw depends on the
    key, the ply and the half of the games, so a pair's games draw apart, and a match with the
    players swapped is another match of the same openings. Without chance on either side it is the
    same one: its game 2i + 1 is this one's game 2i.

    An action that is not legal is played as a pass, and the game is not `ok`. A game ends at once
    when the player to move resigns.

    Args:
      rules: the rules; games that reach `rules.move_limit` are scored as they stand.
      first, second: the players.
      key: PRNG key. The same key and players play the same games.
      num_games: B, an even number; may be left out where openings are given.
      komi: points for White, one number or [B]; None for 7, or for what given openings have.
      openings: plies drawn at random for each pair: any legal play, all alike. (Players without
        chance, and few plies, repeat games.) Or states [B / 2] of your own, with either player
        to move.
      progress: called at each ply with the plies and the games that have not ended.

    Raises:
      ValueError: naming the argument, what it was and what is allowed.
    """
    num_pairs = _num_pairs(rules, num_games, openings)
    _check_komi(komi, 2 * num_pairs)
    opening_key, play_key = jax.random.split(key)
    if isinstance(openings, GameState):
        start = opened = jax.tree.map(jnp.asarray, openings)
        opening = []
    else:
        start = _new_games(rules, num_pairs)
        opened, opening = _draw_openings(rules, opening_key, start, openings)
    halves = _by_half(opened, komi)
    lanes, record = _play(rules, first, second, play_key, halves, progress)
    record = [*([actions, actions] for actions in opening), *record]
    mover = np.asarray(opened.position.to_play)
    return _result(rules, _by_half(start, komi), mover, lanes, record, len(opening))


def _play(rules, first, second, key, halves, progress) -> tuple[list[Lanes], list]:
    """(the lanes of both halves at the end, [(i32[P], i32[P]) at each ply])."""
    lanes = [_lanes(states) for states in halves]
    players = (first, second)
    # [half][player]: each keeps what he knows of both halves.
    memories = [
        [player.begin(player.params, half) if player.begin else None for player in players]
        for half in halves
    ]
    limit = rules.move_limit - int(np.min(halves[0].position.ply))
    record, num_open = [], []
    for ply in range(limit + _PLIES_AHEAD):
        if ply >= _PLIES_AHEAD:
            still_open = sum(map(int, num_open[ply - _PLIES_AHEAD]))
            if progress is not None:
                progress(ply - _PLIES_AHEAD + 1, still_open)
            if still_open == 0:
                break
        if ply < limit:
            actions, counts = _one_ply(rules, players, key, ply, lanes, memories)
            record.append(actions)
            num_open.append(counts)
    return lanes, record


def _one_ply(rules, players, key, ply, lanes, memories) -> tuple[list, list]:
    """Both players move; `lanes` and `memories` are changed in place.

    Returns:
      Of each half: (what was played i32[P], games not ended i32[]).
    """
    actions, counts = [], []
    for half in range(2):
        who = (ply + half) % 2
        lanes[half], memories[half][who], action, count = _take_turns(
            rules, players[who], key, np.int32(2 * ply + half), lanes[half], memories[half][who]
        )
        actions.append(action)
        counts.append(count)
    return actions, counts


def _draw_openings(rules, key, start, plies) -> tuple[GameState, list[jax.Array]]:
    """(states [P], [actions i32[P] at each ply])."""
    lanes, actions = _lanes(start), []
    for ply in range(plies):
        lanes, _, action, _ = _take_turns(rules, _OPENER, key, np.int32(ply), lanes, None)
        actions.append(action)
    return lanes.states, actions


_OPENER = policy_player(any_play)


def _take_turns(rules, player, key, number, lanes, memory) -> tuple[Lanes, Any, Any, Any]:
    """(lanes, memory, what was played i32[P], games not ended i32[]): one ply of half the games."""
    turn = Turn(lanes.states, look(rules, lanes.states), lanes.recent)
    choice = think(player.choose, player.params, key, number, turn, memory)
    lanes, played, num_open = advance(rules, lanes, turn.legal, choice._replace(memory=None))
    return lanes, choice.memory, played, num_open


@functools.partial(jax.jit, static_argnames="rules")
def look(rules: Rules, states: GameState) -> jax.Array:
    """bool[P, A]: the legal actions of each game."""
    return jax.vmap(lambda state: legal_actions(rules, state))(states)


@functools.partial(jax.jit, static_argnames="choose", donate_argnames="memory")
def think(
    choose: Choose, params: Any, key: jax.Array, number: Any, turn: Turn, memory: Any
) -> Choice:
    """A player's turn in [P] games; `number`, i32[], picks his random numbers."""
    return choose(params, jax.random.fold_in(key, number), turn, memory)


@functools.partial(jax.jit, static_argnames="rules")
def advance(
    rules: Rules, lanes: Lanes, legal: jax.Array, choice: Choice
) -> tuple[Lanes, jax.Array, jax.Array]:
    """Play what was chosen in [P] games.

    In a game that is over passes are played, so that little is left to search there.

    Returns:
      (lanes, what was played i32[P], NO_ACTION where the game had ended; games not ended i32[]).
    """
    states, chosen = lanes.states, choice.action.astype(jnp.int32)
    was_over, resigned = lanes.over, lanes.resigned
    if choice.resigns is not None:
        mover = states.position.to_play
        resigned = jnp.where(~was_over & choice.resigns, mover, resigned)
    ended = was_over | (resigned != NO_ONE)
    within = jnp.clip(chosen, 0, rules.pass_action)
    is_legal = jnp.take_along_axis(legal, within[:, None], axis=1)[:, 0] & (chosen == within)
    action = jnp.where(is_legal & ~ended, chosen, rules.pass_action)
    after = jax.vmap(lambda state, a: play(rules, state, a))(states, action)
    played = jnp.where(ended, NO_ACTION, action)
    ok = lanes.ok & (was_over | (choice.ok & is_legal))
    lanes = Lanes(after, jnp.stack([lanes.recent[1], played]), ok, resigned)
    return lanes, played, jnp.sum(~lanes.over, dtype=jnp.int32)


def _lanes(states: GameState) -> Lanes:
    shape = states.position.ply.shape
    recent = jnp.full((2, *shape), NO_ACTION, jnp.int32)
    no_one = jnp.full_like(states.position.to_play, NO_ONE)
    return Lanes(states, recent, jnp.ones(shape, bool), no_one)


@functools.partial(jax.jit, static_argnames=("rules", "num_games"))
def _new_games(rules: Rules, num_games: int) -> GameState:
    return jax.vmap(lambda _: init(rules, KOMI))(jnp.arange(num_games))


def _by_half(states: GameState, komi: Any) -> list[GameState]:
    """The states [P] of both games of each pair, with the komi of the match."""
    if komi is None:
        return [states, states]
    komi = jnp.broadcast_to(jnp.asarray(komi, jnp.float32), (2 * states.komi.shape[0],))
    return [states.replace(komi=komi[half::2]) for half in range(2)]


@functools.partial(jax.jit, static_argnames="rules")
def _scores(rules: Rules, states: GameState) -> jax.Array:
    return jax.vmap(lambda state: scoring.area_score(rules, state))(states)


def _result(rules, start, mover, lanes, record, opening_plies) -> MatchResult:
    """Both halves as one match; `mover` i8[P] had the turn after the opening."""

    def both(halves):
        """Two trees of [P, ...] -> one of [2 P, ...], in turn."""
        weave = lambda x, y: np.stack([x, y], axis=1).reshape(2 * len(x), *np.shape(x)[1:])
        return jax.tree.map(weave, *jax.device_get(halves))

    end = both([half.states for half in lanes])
    first_colour = both([mover, np.int8(WHITE) - mover])
    score = both([_scores(rules, half.states) for half in lanes])
    actions = [both(actions).astype(np.int16) for actions in jax.device_get(record)]
    last = max((i for i, x in enumerate(actions) if (x != NO_ACTION).any()), default=-1)
    none = np.zeros((0, len(score)), np.int16)
    actions = np.stack(actions[: last + 1]) if last >= 0 else none
    resigned = both([half.resigned for half in lanes])
    for_first = np.where(first_colour == BLACK, score, -score)
    for_first = np.where(resigned == NO_ONE, for_first, np.where(resigned == first_colour, -1, 1))
    start = both(start)
    return MatchResult(
        first_colour=first_colour,
        score=score,
        outcome=np.sign(for_first).astype(np.int8),
        plies=start.position.ply + np.sum(actions != NO_ACTION, axis=0, dtype=np.int32),
        truncated=end.truncated & (resigned == NO_ONE),
        resigned=resigned,
        ok=both([half.ok for half in lanes]),
        actions=actions,
        start=start,
        opening_plies=opening_plies,
    )


def _num_pairs(rules: Rules, num_games: int | None, openings: int | GameState) -> int:
    if isinstance(openings, GameState):
        shape = np.shape(openings.position.to_play)
        if len(shape) != 1 or shape[0] < 1:
            raise ValueError(f"openings: states of shape {shape}; expected a batch, one a pair")
        if num_games not in (None, 2 * shape[0]):
            raise ValueError(
                f"num_games: {num_games}, and {shape[0]} openings are for {2 * shape[0]} games"
            )
        return shape[0]
    if not 0 <= openings < rules.move_limit:
        raise ValueError(f"openings: {openings} plies; expected 0 to {rules.move_limit - 1}")
    if num_games is None or num_games < 2 or num_games % 2:
        raise ValueError(f"num_games: {num_games}; games come in pairs, give an even number")
    return num_games // 2


def _check_komi(komi: Any, num_games: int) -> None:
    if komi is None:
        return
    values = np.asarray(komi, np.float64)
    if values.shape not in ((), (num_games,)):
        raise ValueError(f"komi: shape {values.shape}; expected one number or ({num_games},)")
    for value in values.reshape(-1):
        if not is_komi(float(value)):
            raise ValueError(f"komi: {value} is not {KOMI_EXPECTED}")
