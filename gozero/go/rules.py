"""The rules of Go for one game: area scoring, three ko rules, suicide forbidden or allowed.

A `Position` holds what a move depends on: stones, chains in atari, ko point, player to move.
A `GameState` adds what the whole game needs: komi and the past boards for superko.
Everything here is for one game; ``jax.vmap`` makes it thousands.

The set of stones in atari (all stones of all chains with exactly one liberty) is part of
the position because with it the legal moves and the captured stones follow from a few
shifts. A move changes it only for the chain it joins, the at most four enemy chains it
touches, and the own chains that a capture frees; `play` floods those and nothing else.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gozero import struct
from gozero.compile import batching
from gozero.go import bitboard as bb
from gozero.go import superko
from gozero.go.coords import KO_RULES, KOMI_EXPECTED, MAX_SIZE, MIN_SIZE, KoRule, is_komi
from gozero.go.placement import place, placeable

BLACK, WHITE = 0, 1
MAX_MOVE_LIMIT = 2**15 - 1
"""Plies are stored as i16."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """Static rules of a game; hashable, so usable as a static argument of ``jax.jit``.

    Attributes:
      size: points on a side, 2 to 25.
      ko: "simple" (a play may not recreate the board two plies back), "positional" (nor any
        earlier board of the game) or "situational" (nor any earlier board with the same player
        to move). Passes are exempt.
      suicide: whether a play that leaves its own chain without liberties is legal and removes
        that chain. Suicide of a single stone is never legal: it would amount to a pass (and many
        points would recreate the board it was played on).
      max_moves: the move limit, passes included; None for 2 * size^2.
      remember: whether a game under simple ko also keeps its past boards, as superko does;
        networks whose input includes past moves need them.

    Raises:
      ValueError: an invalid argument; the message names it, its value and what is allowed.
    """

    size: int = 9
    ko: KoRule = "positional"
    suicide: bool = False
    max_moves: int | None = None
    remember: bool = False

    def __post_init__(self):
        _check_rules(self)

    @property
    def num_points(self) -> int:
        return self.size * self.size

    @property
    def num_actions(self) -> int:
        """The number of actions: every point, row-major from the top left, then the pass."""
        return self.num_points + 1

    @property
    def pass_action(self) -> int:
        return self.num_points

    @property
    def move_limit(self) -> int:
        return 2 * self.num_points if self.max_moves is None else self.max_moves

    @property
    def has_superko(self) -> bool:
        """Whether past boards ban moves."""
        return self.ko in ("positional", "situational")

    @property
    def keeps_past(self) -> bool:
        """Whether a game keeps its past boards."""
        return self.has_superko or self.remember

    @property
    def remembering(self) -> Rules:
        """These rules with past boards kept."""
        return self if self.keeps_past else dataclasses.replace(self, remember=True)

    @property
    def layout(self) -> bb.Layout:
        return bb.layout(self.size)


class Position(struct.PyTreeNode):
    """All that the next move depends on, except superko: 42 bytes at 9x9, 234 at 19x19."""

    black: bb.Board  # W x u32[]
    white: bb.Board  # W x u32[]
    atari: bb.Board  # W x u32[]: stones of either colour whose chain has exactly one liberty
    ko: jax.Array  # i16[]: the point that simple ko bans; negative (NO_POINT or other) if none
    ply: jax.Array  # i16[]: moves played, passes included
    passes: jax.Array  # i8[]: consecutive passes, at most 2
    to_play: jax.Array  # i8[]: BLACK or WHITE


class GameState(struct.PyTreeNode):
    """A game: its position, its komi, and the past boards that its ko rule needs."""

    position: Position
    komi: jax.Array  # f32[]: points for White; may differ between games of a batch
    truncated: jax.Array  # bool[]: ended by the move limit
    past: superko.Past | None  # None under simple ko, unless ``rules.remember``
    size: int = struct.static()  # static: the board size it was made for, to check

    @property
    def to_play(self) -> jax.Array:
        """i32[]: 0 for Black, 1 for White."""
        return self.position.to_play.astype(jnp.int32)

    @property
    def terminated(self) -> jax.Array:
        """bool[]: whether two passes in a row have ended the game."""
        return self.position.passes >= 2

    @property
    def ended(self) -> jax.Array:
        """bool[]: terminated or truncated."""
        return self.terminated | self.truncated


def init(rules: Rules, komi: Any = 7.0) -> GameState:
    """A new game on the empty board, Black to play.

    Args:
      rules: the rules.
      komi: f32[]; a multiple of 0.5 from -1000 to 1000. Whole numbers make draws possible.

    Raises:
      ValueError: an invalid komi (values are checked only when concrete).
    """
    check_komi(komi)
    return GameState(
        size=rules.size,
        position=empty_position(rules),
        komi=jnp.asarray(komi, jnp.float32),
        truncated=jnp.bool_(False),
        past=_new_past(rules),
    )


def _new_past(rules: Rules) -> superko.Past | None:
    if not rules.keeps_past:
        return None
    return superko.start(rules.layout, rules.move_limit + 1, rules.ko == "situational")


def empty_position(rules: Rules) -> Position:
    return Position(
        black=bb.empty(rules.layout),
        white=bb.empty(rules.layout),
        atari=bb.empty(rules.layout),
        ko=jnp.int16(bb.NO_POINT),
        ply=jnp.int16(0),
        passes=jnp.int8(0),
        to_play=jnp.int8(BLACK),
    )


def play(rules: Rules, state: GameState, action: jax.Array | int) -> GameState:
    """Play one action, which must be legal: `legal_actions` says which are.

    Args:
      rules: the rules.
      state: one game.
      action: i32[]; a point, row-major from the top left, or ``rules.pass_action``. An illegal
        action is not detected, and the resulting state is meaningless.

    Returns:
      The game after the move, or the game unchanged if it had already ended.

    Raises:
      ValueError: an action that is not an integer, a batch, or a game made for other rules (by
        shapes and dtypes only: nothing is checked at run time).
    """
    check_state(rules, state)
    _check_action(action)
    ended = state.ended
    moved = play_position(rules, state.position, action)
    position = jax.tree.map(lambda old, new: jnp.where(ended, old, new), state.position, moved)
    past = state.past
    if past is not None:
        # Board `ply` is the present one; if the game had ended, this rewrites the same data.
        past = superko.record(
            rules.layout, past, position.ply, position.black, position.white, position.to_play
        )
    over_limit = (position.ply >= rules.move_limit) & (position.passes < 2)
    return state.replace(position=position, past=past, truncated=over_limit)


def own_and_opponent(position: Position) -> tuple[bb.Board, bb.Board]:
    """(stones of the player to move, stones of the opponent)."""
    return bb.swapped(position.to_play == WHITE, position.black, position.white)


def play_position(rules: Rules, position: Position, action: jax.Array | int) -> Position:
    """Play one legal action in a position that has not ended; ignores the past and move limit."""
    return _play_position(rules)(position, jnp.asarray(action, jnp.int32))


@functools.cache
def _play_position(rules: Rules) -> Callable:
    return batching.in_one_kernel(functools.partial(_played, rules))


def _played(rules: Rules, position: Position, action: jax.Array) -> Position:
    lay = rules.layout
    is_pass = action >= rules.pass_action
    white_moves = position.to_play == WHITE
    own, opponent = own_and_opponent(position)
    placed = place(lay, action, own, opponent, position.atari, suicide=rules.suicide)

    is_ko = placed.lone & (bb.count(placed.captured) == 1)
    ko = jnp.where(is_ko, bb.point_of(lay, placed.captured), bb.NO_POINT)
    black, white = bb.swapped(white_moves, placed.own, placed.opponent)
    return Position(
        black=black,
        white=white,
        atari=placed.atari,
        ko=ko.astype(jnp.int16),
        ply=position.ply + jnp.int16(1),
        passes=jnp.where(is_pass, position.passes + jnp.int8(1), jnp.int8(0)),
        to_play=jnp.int8(WHITE) - position.to_play,
    )


def legal_actions(rules: Rules, state: GameState) -> jax.Array:
    """bool[A]: the legal actions, exact under the ko rule over the whole game.

    Passing is always legal, and once the game has ended it is the only legal action.

    Raises:
      ValueError: a batch of games, or a game made for other rules.
    """
    check_state(rules, state)
    position = state.position
    points = legal_points(rules, position)
    if state.past is not None and rules.has_superko:
        points = bb.difference(points, _banned_in_game(rules, state, state.past))
    return action_mask(rules, bb.keep(~state.ended, points))


def _banned_in_game(rules: Rules, state: GameState, past: superko.Past) -> bb.Board:
    position = state.position
    length = num_past(rules, position.ply.astype(jnp.int32))
    return superko.banned(
        rules.layout,
        past,
        jnp.where(state.ended, 0, length),  # games that have ended must not keep others waiting
        superko.present_board(
            position.black,
            position.white,
            position.to_play,
            position.atari,
            suicide_points(rules, position),
        ),
    )


def num_past(rules: Rules, ply: jax.Array) -> jax.Array:
    """i32[]: the number of past boards that superko must check after `ply` moves.

    No play recreates the present board, and the board before it is covered by the ko point. With
    suicide that board must be checked too: a player who moves twice in a row could otherwise
    recreate it, by replaying what its suicide removed or by removing in suicide what it has just
    played.
    """
    return ply if rules.suicide else ply - 1


def legal_points(rules: Rules, position: Position) -> bb.Board:
    """The points where a play is legal under simple ko: `placement.placeable` less the ko point."""
    return _legal_points(rules)(position)


@functools.cache
def _legal_points(rules: Rules) -> Callable:
    return batching.in_one_kernel(functools.partial(_legal_under_simple_ko, rules))


def _legal_under_simple_ko(rules: Rules, position: Position) -> bb.Board:
    stones = own_and_opponent(position)
    points = placeable(rules.layout, *stones, position.atari, suicide=rules.suicide)
    return bb.difference(points, bb.at(rules.layout, position.ko))


def suicide_points(rules: Rules, position: Position) -> bb.Board | None:
    """The points of `legal_points` where a play is suicide; None if suicide is not allowed."""
    if not rules.suicide:
        return None
    without = dataclasses.replace(rules, suicide=False)
    # The ko point is excluded from both sets, so the difference holds suicides only.
    return bb.difference(legal_points(rules, position), legal_points(without, position))


def action_mask(rules: Rules, points: bb.Board) -> jax.Array:
    """bool[A]: the given points, and the pass."""
    return jnp.concatenate([bb.unpack(rules.layout, points), jnp.ones(1, bool)])


def stones(rules: Rules, state: GameState) -> jax.Array:
    """i8[size, size]: +1 Black, -1 White, 0 empty; row 0 at the top.

    Raises:
      ValueError: as `legal_actions`.
    """
    check_state(rules, state)
    return position_stones(rules, state.position)


def position_stones(rules: Rules, position: Position) -> jax.Array:
    """As `stones`, for a position."""
    black = bb.unpack(rules.layout, position.black).astype(jnp.int8)
    white = bb.unpack(rules.layout, position.white).astype(jnp.int8)
    return (black - white).reshape(rules.size, rules.size)


def with_to_play(state: GameState, colour: int | jax.Array) -> GameState:
    """The same board with `colour` to play, for GTP and handicaps; a no-op if it is its turn.

    Changing the turn is not a pass: it ends no game, and it resets the count of passes. A ko point
    is banned only for the player who lost the stone there, and must still be banned when the turn
    comes back: it is kept as -2 - ko, which is no point and leaves NO_POINT unchanged. Under
    situational superko the present board is recorded with the new player to move, and no longer
    with the earlier one. (Simple ko bans the ko point alone: a player who moves twice in a row may
    remove by suicide what it has just played.)
    """
    turned = turn_to(state.position, colour)
    past = state.past
    if past is not None:
        past = superko.record_turn(past, turned.ply, turned.to_play)
    return state.replace(position=turned, past=past)


def turn_to(position: Position, colour: int | jax.Array) -> Position:
    """As `with_to_play`, for a position alone."""
    unchanged = position.to_play == colour
    return position.replace(
        ko=jnp.where(unchanged, position.ko, jnp.int16(-2) - position.ko),
        passes=jnp.where(unchanged, position.passes, jnp.int8(0)),
        to_play=jnp.asarray(colour, jnp.int8),
    )


# --- Checks on the host before compilation: of static rules, shapes and dtypes, and of numbers
# that are concrete. ----------------------------------------------------------------------------


def _check_rules(rules: Rules) -> None:
    """Raises:
    ValueError: an invalid argument; the message names it, its value and what is allowed.
    """
    if not _is_whole(rules.size):
        raise ValueError(f"size: {rules.size!r} is not a whole number")
    if not MIN_SIZE <= rules.size <= MAX_SIZE:
        raise ValueError(f"size: {rules.size} is not a board size from {MIN_SIZE} to {MAX_SIZE}")
    if rules.ko not in KO_RULES:
        raise ValueError(f"ko: {rules.ko!r} is not a ko rule; use one of {', '.join(KO_RULES)}")
    if not isinstance(rules.suicide, bool):
        raise ValueError(f"suicide: {rules.suicide!r} is not True or False")
    if not isinstance(rules.remember, bool):
        raise ValueError(f"remember: {rules.remember!r} is not True or False")
    limit = rules.max_moves
    if limit is not None and not (_is_whole(limit) and 1 <= limit <= MAX_MOVE_LIMIT):
        raise ValueError(f"max_moves: {limit!r} is not a whole number from 1 to {MAX_MOVE_LIMIT}")


def check_komi(komi: Any) -> None:
    """Raises:
    ValueError: an invalid komi; under ``jit`` only its shape and dtype are known.
    """
    shape, dtype = _shape_and_dtype(komi)
    if not (jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating)):
        raise ValueError(f"komi: {komi!r} is not a number; expected {KOMI_EXPECTED}")
    if shape != ():
        raise ValueError(f"komi: shape {shape}; give a single number, for one game")
    if not isinstance(komi, Tracer) and not is_komi(float(komi)):
        raise ValueError(f"komi: {komi} is not {KOMI_EXPECTED}")


def _check_action(action: Any) -> None:
    """Raises:
    ValueError: not one integer. (Legality is not checked; see `legal_actions`.)
    """
    shape, dtype = _shape_and_dtype(action)
    if not jnp.issubdtype(dtype, jnp.integer):
        raise ValueError(f"action: dtype {dtype} is not an integer type, such as int32")
    if shape != ():
        raise ValueError(f"action: shape {shape} for one game, expected (); {_MAP}")


def check_state(rules: Rules, state: GameState) -> None:
    """Raises:
    ValueError: a batch of games, or a game made for other rules.
    """
    if state.size != rules.size:
        state_size, rules_size = f"{state.size}x{state.size}", f"{rules.size}x{rules.size}"
        raise ValueError(f"state: a game on {state_size}, but the rules are for {rules_size}")
    shape = np.shape(state.position.to_play)
    if shape != ():
        raise ValueError(f"state: games of shape {shape}, expected one game; {_MAP}")
    kept = state.past is not None
    if kept != rules.keeps_past:
        have, keep = ("past boards", "keep none") if kept else ("no past boards", "keep them")
        raise ValueError(
            f"state: a game with {have}, but rules with ko={rules.ko!r}, "
            f"remember={rules.remember} {keep}; make it by `init` of these rules"
        )
    if state.past is not None and state.past.situational != (rules.ko == "situational"):
        state_ko = "situational" if state.past.situational else "positional"
        raise ValueError(f"state: a game under {state_ko} ko, but the rules have ko={rules.ko!r}")
    if state.past is not None and state.past.boards.shape[0] <= rules.move_limit:
        max_moves = state.past.boards.shape[0] - 1
        raise ValueError(
            f"state: a game of up to {max_moves} moves, but the rules allow {rules.move_limit}"
        )


_MAP = "map over games with jax.vmap"


def _is_whole(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _shape_and_dtype(x: Any) -> tuple[tuple[int, ...], Any]:
    array = x if hasattr(x, "dtype") else np.asarray(x)
    return array.shape, array.dtype
