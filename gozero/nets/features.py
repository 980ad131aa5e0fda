"""Feature sets: a position as input planes, from the perspective of the player to move.

A feature set is a table of planes and pure functions of one game. `FEATURES` maps names to sets:

    compact           9 planes without history: the default of self-play and training
    full              22 planes in the layout of KataGo's networks, and a vector of global inputs
    full-no-ladders   the same, but the ladder planes, which cost the most, are zero
    zero              AlphaGo Zero's: the last 8 boards of each colour, and the colour to play

Planes are channel-last, f32[size, size, C], as the network expects;
``jnp.moveaxis(planes, -1, 0)`` gives (C, size, size). "One ply ago" is the position before the
last move. Past boards come from the game and from the ancestors of a search; where they are not
known (before the game began, and under simple ko before the root of a search) their planes
are zero.

The planes of `full` have three limits. Pass-alive areas follow Benson, who forbids suicide: where
the rules allow it, such a chain may still fall. A suicide leaves no stone, so among the last moves
it is neither a move nor a pass. And ladders of earlier boards are read without the ko of that time.

`FeatureSet.extract` returns what a set needs of a position, its game and its ancestors. A self-play
row stores it, and planes are computed from it alone, so the inputs of self-play's network can be
recomputed from its rows.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import batching, mode
from gozero.go import bitboard as bb
from gozero.go import ladders, liberties, pass_alive, stacked, superko
from gozero.go.branch import superko_points
from gozero.go.rules import WHITE, GameState, Position, Rules, own_and_opponent
from gozero.search.game import Ancestors

KOMI_SCALE = 20.0

COMPACT_PLANES = (
    "own stones",
    "opponent's stones",
    "own stones in atari",
    "opponent's stones in atari",
    "the ko point",
    "the board (all ones)",
    "White to play",
    "the opponent has just passed",
    "points that komi gives the player to move, / 20",
)

FULL_PLANES = (
    "the board (all ones)",
    "own stones",
    "opponent's stones",
    "stones whose chain has exactly 1 liberty",
    "stones whose chain has exactly 2 liberties",
    "stones whose chain has exactly 3 liberties",
    "points that ko or superko bans",
    "zero: ko bans of KataGo's encore phase, which area scoring does not have",
    "zero: recaptures of that phase",
    "the last move",
    "the move before it (2 plies ago)",
    "the move 3 plies ago",
    "the move 4 plies ago",
    "the move 5 plies ago",
    "laddered stones",
    "stones that were laddered 1 ply ago",
    "stones that were laddered 2 plies ago",
    "moves that capture the opponent's chains of 2 liberties in a ladder",
    "own pass-alive area: stones and territory",
    "opponent's pass-alive area",
    "zero: own stones at the start of the encore",
    "zero: opponent's stones at the start of the encore",
)
LADDER_PLANES = (14, 15, 16, 17)

NUM_LAST_MOVES = 5
_KO_RULES = ("simple", "positional", "situational")  # each has a global input
FULL_GLOBALS = (
    "points that komi gives the player to move, / 20",
    "White to play",
    "the last move was a pass, so that another ends the game",
    *(f"the move {k} plies ago was a pass" for k in range(2, NUM_LAST_MOVES + 1)),
    *(f"{ko} ko" for ko in _KO_RULES),
    "suicide is allowed",
    "moves played, / (2 size^2)",
)

ZERO_BOARDS = 8
ZERO_PLANES = (
    *(
        f"{whose} stones{f' {k} plies ago' if k else ''}"
        for k in range(ZERO_BOARDS)
        for whose in ("own", "opponent's")
    ),
    "Black to play",
)


class PositionData(NamedTuple):
    """The data of one position from which a feature set computes its planes."""

    position: Position
    komi: jax.Array  # f32[]: points for White
    banned: bb.Board  # W x u32[]: points that ko or superko bans
    past: jax.Array  # u32[H, 2, W]: black and white words 1, 2, ... H plies ago
    known: jax.Array  # i32[]: how many of these boards are known; the others are empty


class Inputs(NamedTuple):
    """The network's inputs, for a set that has global inputs."""

    planes: jax.Array  # f32[size, size, C]
    global_inputs: jax.Array  # f32[G]
    optimism: jax.Array | None = None  # f32[]; see `KataGoConfig.optimism`


class FeatureSet(NamedTuple):
    """A set of input features; its functions are for one game.

    Attributes:
      planes: a one-line description of each plane.
      global_inputs: a one-line description of each global input.
      past_boards: the number of past boards it uses.
      bans: whether it uses the points that superko bans.
      compute: (rules, data) -> f32[size, size, C], or `Inputs` if the set has global inputs.
    """

    planes: tuple[str, ...]
    global_inputs: tuple[str, ...]
    past_boards: int
    bans: bool
    compute: Callable[[Rules, PositionData], jax.Array | Inputs]

    @property
    def num_planes(self) -> int:
        return len(self.planes)

    def extract(
        self, rules: Rules, state: GameState, position: Position, ancestors: Ancestors | None = None
    ) -> PositionData:
        """Extracts what the set needs from a position in a game, or in a search tree of that game.

        The boards before the root of a search are those of ``state.past``. Under simple ko a game
        keeps none: then only the boards of the ancestors are known, and none at the root.

        Args:
          rules: the rules.
          state: the game up to the root of the search.
          position: the position itself: ``state.position`` or one below it.
          ancestors: those of the position in the tree; None for the root.
        """
        banned = bb.at(rules.layout, position.ko)
        if self.bans and rules.has_superko:
            positions, depth = (None, None) if ancestors is None else ancestors
            banned = bb.union(banned, superko_points(rules, state, position, positions, depth))
        past, known = _past_boards(rules, state, ancestors, self.past_boards)
        return PositionData(position, state.komi, banned, past, known)

    def observe(
        self, rules: Rules, state: GameState, position: Position, ancestors: Ancestors | None = None
    ) -> jax.Array | Inputs:
        """The planes of a position in a game, or in a search tree of that game."""
        return self.compute(rules, self.extract(rules, state, position, ancestors))


def _past_boards(
    rules: Rules, state: GameState, ancestors: Ancestors | None, past_boards: int
) -> tuple[jax.Array, jax.Array]:
    """(u32[H, 2, W], i32[]): the last boards, latest first, and how many are known."""
    ago = jnp.arange(1, past_boards + 1)
    past = jnp.zeros((past_boards, 2, rules.layout.num_words), jnp.uint32)
    num_known = jnp.int32(0)
    if not past_boards:
        return past, num_known
    depth = jnp.int32(0) if ancestors is None else ancestors.length
    if state.past is not None:
        ply = state.position.ply.astype(jnp.int32)
        past = superko.boards_at(state.past, jnp.maximum(ply + depth - ago, 0))
        num_known = ply
    if ancestors is not None:
        index = jnp.maximum(depth - ago, 0)
        colours = ancestors.positions.black, ancestors.positions.white
        words = [jnp.stack([word[index] for word in colour], axis=-1) for colour in colours]
        in_tree = (ago <= depth)[:, None, None]
        past = jnp.where(in_tree, jnp.stack(words, axis=1), past)
    num_known = jnp.minimum(num_known + depth, past_boards)
    return jnp.where((ago <= num_known)[:, None, None], past, jnp.uint32(0)), num_known


# --- compact --------------------------------------------------------------------------


def _compact(rules: Rules, data: PositionData) -> jax.Array:
    lay, position = rules.layout, data.position
    scalars = (
        jnp.float32(1),
        position.to_play == WHITE,
        position.passes > 0,
        _komi_of_mover(data),
    )
    if mode.backend() == "gpu" and not mode.plain():
        return _planes_at_once(lay, _compact_boards(lay, position), scalars)
    points = unpack_planes(lay, _stacked_compact_boards(lay)(position))
    constants = jnp.stack([jnp.asarray(x, jnp.float32) for x in scalars])
    everywhere = jnp.broadcast_to(constants, (rules.size, rules.size, len(scalars)))
    return jnp.concatenate([points, everywhere], axis=-1)


def _compact_boards(lay: bb.Layout, position: Position) -> tuple[bb.Board, ...]:
    own, opponent = own_and_opponent(position)
    return (
        own,
        opponent,
        bb.intersection(own, position.atari),
        bb.intersection(opponent, position.atari),
        bb.at(lay, position.ko),
    )


@functools.cache
def _stacked_compact_boards(lay: bb.Layout) -> Callable:
    """Position -> u32[5, W]."""

    def boards(position: Position) -> jax.Array:
        return jnp.stack([stacked.stack(board) for board in _compact_boards(lay, position)])

    return batching.in_one_kernel(boards)


def _komi_of_mover(data: PositionData) -> jax.Array:
    """f32[]: the points that komi gives the player to move, / 20."""
    return jnp.where(data.position.to_play == WHITE, data.komi, -data.komi) / KOMI_SCALE


# --- full -----------------------------------------------------------------------------


def _full(rules: Rules, data: PositionData, with_ladders: bool) -> Inputs:
    position, white_moves = data.position, data.position.to_play == WHITE
    lay = rules.layout
    stones, areas = _full_boards(lay)(
        position.black, position.white, white_moves, data.banned, data.past, data.known
    )
    ladder_boards = jnp.zeros((len(LADDER_PLANES), lay.num_words), jnp.uint32)
    if with_ladders:
        ladder_boards = _ladders(rules, data)
    boards = jnp.concatenate(
        [stones, ladder_boards, areas, jnp.zeros((2, lay.num_words), jnp.uint32)]
    )
    return Inputs(unpack_planes(rules.layout, boards), _full_globals(rules, data))


@functools.cache
def _full_boards(lay: bb.Layout) -> Callable:
    """One game's planes except ladders, in one stage: u32[14, W] before them, u32[2, W] after."""

    def boards(black, white, white_moves, banned, past, known):
        """Words [B], white_moves bool[B], past u32[H, 2, W, B] -> u32[14, W, B], u32[2, W, B]."""
        current = jnp.stack([stacked.stack(black), stacked.stack(white)])
        none = jnp.zeros_like(current[0])
        # Reorders the first axis from (Black, White) to (own, opponent).
        by_mover = lambda pair: list(jnp.where(white_moves, pair[::-1], pair))
        one, two, three = liberties.counts_stage(lay, current[0], current[1])
        moves = _last_moves(current, past, known)
        alive = by_mover(pass_alive.area_stage(lay, current))
        everywhere = jnp.broadcast_to(stacked.full(lay), none.shape)
        counts = [one, two, three, stacked.stack(banned)]
        stones = [everywhere, *by_mover(current), *counts, none, none, *moves]
        return jnp.stack(stones), jnp.stack(alive)

    return batching.over_games(boards, in_cache=True)


def _last_moves(current: jax.Array, past: jax.Array, known: jax.Array) -> list[jax.Array]:
    """Five u32[W, B]: the stone on each board that was not on the board before it."""
    boards = [current, *past[:NUM_LAST_MOVES]]
    added = [after & ~before for after, before in itertools.pairwise(boards)]
    return [jnp.where(known > k, a[0] | a[1], np.uint32(0)) for k, a in enumerate(added)]


def _ladders(rules: Rules, data: PositionData) -> jax.Array:
    """u32[4, W]: stones laddered now, one ply ago and two plies ago; the capturing moves."""
    position = data.position
    boards = jnp.concatenate([_words(position)[None], data.past[:2]])  # u32[3, 2, W]
    black, white = (stacked.unstack(boards[:, colour].T) for colour in range(2))
    turns = (position.to_play == WHITE) != jnp.array([False, True, False])
    kos = jnp.full(3, bb.NO_POINT, jnp.int16).at[0].set(position.ko)
    laddered, captures = ladders.read_boards(rules.size, black, white, turns, kos)
    return jnp.stack([*stacked.stack(laddered).T, stacked.stack(captures)[:, 0]])


def _full_globals(rules: Rules, data: PositionData) -> jax.Array:
    """f32[G], in the order of `FULL_GLOBALS`."""
    position = data.position
    boards = jnp.concatenate([_words(position)[None], data.past[:NUM_LAST_MOVES]])
    is_unchanged = (boards[1:] == boards[:-1]).all(axis=(1, 2))
    is_pass = is_unchanged & (jnp.arange(NUM_LAST_MOVES) < data.known)
    values = [
        _komi_of_mover(data),
        position.to_play == WHITE,
        position.passes > 0,
        *(is_pass[k] for k in range(1, NUM_LAST_MOVES)),
        *(jnp.float32(rules.ko == ko) for ko in _KO_RULES),
        jnp.float32(rules.suicide),
        position.ply / (2.0 * rules.num_points),
    ]
    return jnp.stack([jnp.asarray(value, jnp.float32) for value in values])


# --- zero -----------------------------------------------------------------------------


def _zero(rules: Rules, data: PositionData) -> jax.Array:
    """Silver et al. (2017): X_t, Y_t, X_t-1, Y_t-1, ..., C."""
    white_moves = data.position.to_play == WHITE
    boards = jnp.concatenate([_words(data.position)[None], data.past])  # [8, 2, W]
    boards = jnp.where(white_moves, boards[:, ::-1], boards)
    lay = rules.layout
    colour = jnp.where(white_moves, jnp.uint32(0), np.array(lay.full, np.uint32))
    rows = boards.reshape(2 * ZERO_BOARDS, lay.num_words)
    return unpack_planes(lay, jnp.concatenate([rows, colour[None]]))


# --- shared ---------------------------------------------------------------------------


def _words(position: Position) -> jax.Array:
    """u32[2, W]: the words of Black and of White."""
    return jnp.stack([jnp.stack(position.black), jnp.stack(position.white)])


def _planes_at_once(lay: bb.Layout, boards: Sequence[bb.Board], scalars: Sequence) -> jax.Array:
    """f32[size, size, C]: planes of boards, then constant planes of scalars.

    For a GPU, where stacking separate planes would take more kernels: here each entry looks up the
    word that it is computed from.
    """
    as_words = [lax.bitcast_convert_type(jnp.asarray(x, jnp.float32), jnp.uint32) for x in scalars]
    words = jnp.stack([word for board in boards for word in board] + as_words)
    row, column, plane = np.indices((lay.size, lay.size, len(boards) + len(scalars)))
    word = plane * lay.num_words + row // lay.rows_per_word
    number = len(boards) * (lay.num_words - 1) + plane
    place = np.where(plane < len(boards), word, number)
    entry_words = words.at[place].get(mode="promise_in_bounds")
    shift = (row % lay.rows_per_word) * lay.stride + column
    bit = (entry_words >> shift.astype(np.uint32)) & np.uint32(1)
    number = lax.bitcast_convert_type(entry_words, jnp.float32)
    is_board = lax.broadcasted_iota(jnp.int32, entry_words.shape, 2) < len(boards)
    return jnp.where(is_board, bit.astype(jnp.float32), number)


def unpack_planes(lay: bb.Layout, boards: jax.Array) -> jax.Array:
    """u32[C, W] -> f32[size, size, C]: each row of the board is a few bits of one word."""
    shifts = [np.uint32((row % lay.rows_per_word) * lay.stride) for row in range(lay.size)]
    rows = [boards[:, row // lay.rows_per_word] >> shift for row, shift in enumerate(shifts)]
    columns = np.arange(lay.size, dtype=np.uint32)[None, :, None]
    bits = (jnp.stack(rows)[:, None, :] >> columns) & np.uint32(1)
    return bits.astype(jnp.float32)


def _full_set(with_ladders: bool) -> FeatureSet:
    compute = functools.partial(_full, with_ladders=with_ladders)
    return FeatureSet(
        FULL_PLANES, FULL_GLOBALS, past_boards=NUM_LAST_MOVES, bans=True, compute=compute
    )


FEATURES = {
    "compact": FeatureSet(COMPACT_PLANES, (), past_boards=0, bans=False, compute=_compact),
    "full": _full_set(with_ladders=True),
    "full-no-ladders": _full_set(with_ladders=False),
    "zero": FeatureSet(ZERO_PLANES, (), past_boards=ZERO_BOARDS - 1, bans=False, compute=_zero),
}


def feature_set(name: str) -> FeatureSet:
    """The feature set with this name.

    Raises:
      ValueError: there is no set with this name.
    """
    if name not in FEATURES:
        raise ValueError(f"features: {name!r} is not one of {', '.join(FEATURES)}")
    return FEATURES[name]
