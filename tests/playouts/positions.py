"""Positions for the tests of playouts, as reference games and as our batches."""

import functools
import random

import jax
import numpy as np

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.playouts.policies import uniform
from tests.go.boards import pack, unpack
from tests.hlo import AS_USERS_FUSE
from tests.reference.go import BLACK, EMPTY, WHITE, ReferenceGame

SETTLED = "X.XO. .XXOO XXXO. XXXOO XXXO."  # only the eyes of two living chains are empty
COLOURS = {"X": BLACK, "O": WHITE}


def assert_same(ours, theirs):
    """Checks that two pytrees of arrays are equal."""
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def game_of(diagram: str, to_play=BLACK, passes=0, ko=None) -> ReferenceGame:
    """A reference game on a text diagram; `ko` is the (row, col) that may not be played."""
    rows = diagram.split()
    game = ReferenceGame(len(rows), ko="simple")
    game.board = [COLOURS.get(point, EMPTY) for row in rows for point in row]
    game.to_play, game.passes = to_play, passes
    game.history = [tuple(game.board)]
    if ko is not None:
        game.history.insert(0, tuple(game.board_after(ko[0] * game.size + ko[1])))
    return game


def ko_point(game: ReferenceGame) -> int:
    """The empty point where a play would recreate the board two plies back."""
    if len(game.history) < 2:
        return bb.NO_POINT
    for point in range(game.size**2):
        after = game.board_after(point)
        if after is not None and tuple(after) == game.history[-2]:
            return point
    return bb.NO_POINT


def positions_of(games: list[ReferenceGame]) -> go.Position:
    """Positions [B]. `atari` is left empty, as uniform playouts do not use it."""
    lay = bb.layout(games[0].size)
    boards = np.array([game.board for game in games])
    return go.Position(
        black=pack(lay, boards == BLACK),
        white=pack(lay, boards == WHITE),
        atari=pack(lay, np.zeros_like(boards, bool)),
        ko=np.array([ko_point(game) for game in games], np.int16),
        ply=np.zeros(len(games), np.int16),
        passes=np.array([game.passes for game in games], np.int8),
        to_play=np.array([game.to_play == WHITE for game in games], np.int8),
    )


def positions_in_atari(games: list[ReferenceGame]) -> go.Position:
    """Positions [B], with `atari` set."""
    positions, lay = positions_of(games), bb.layout(games[0].size)
    atari = np.array([game.in_atari() for game in games])
    return positions.replace(atari=jax.vmap(functools.partial(bb.pack, lay))(atari))


def last_move(game: ReferenceGame) -> int:
    """The point the opponent has just played, from the boards; `bb.NO_POINT` if none."""
    if len(game.history) < 2:
        return bb.NO_POINT
    before, now = game.history[-2:]
    new = [p for p in range(game.size**2) if now[p] == -game.to_play != before[p]]
    return new[0] if len(new) == 1 else bb.NO_POINT


def random_games(size: int, count: int, seed: int) -> list[ReferenceGame]:
    """Random games stopped anywhere, with passes, filled eyes, kos and either colour to play."""
    rng, games = random.Random(seed), []
    for _ in range(count):
        game = ReferenceGame(size, ko="simple")
        for _ in range(rng.randrange(2 * size * size)):
            empty = [p for p in range(size * size) if game.board[p] == EMPTY]
            legal = filter(game.is_legal, rng.sample(empty, len(empty)))
            game.play(next(legal, size * size) if rng.random() < 0.95 else size * size)
            if game.passes and rng.random() < 0.8:
                game.passes = 0  # most games continue
        games.append(game)
    return games


def empty_boards(rules: go.Rules, count: int) -> go.Position:
    with jax.ensure_compile_time_eval():
        one = jax.tree.map(np.asarray, go.empty_position(rules))
    return jax.tree.map(lambda x: np.broadcast_to(x, (count,)), one)


def boards(lay: bb.Layout, stones: bb.Board) -> np.ndarray:
    """Words [...] -> bool[..., points]."""
    return unpack(lay, stones)


def allowed(game: ReferenceGame) -> list[int]:
    """The actions a uniform playout chooses from."""
    points = range(game.size**2)
    plays = [p for p in points if game.is_legal(p) and not game.is_eye(p, game.to_play)]
    return plays or [game.size**2]


@functools.cache
def compiled(rules: go.Rules, **options):
    """`uniform_playouts` jitted, once for each set of options."""
    run = functools.partial(uniform.uniform_playouts, rules, **options)
    return jax.jit(run, compiler_options=AS_USERS_FUSE)
