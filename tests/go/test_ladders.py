"""The ladder reader against plain recursion and well-known ladders."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import mode
from gozero.go import bitboard as bb
from gozero.go import ladders
from gozero.go import rules as go
from tests.go.boards import marks, packed, parse, random_boards, unpacked
from tests.go.ladder_readers import plain_reader, read_board
from tests.reference.go import BLACK, WHITE, ReferenceGame

# X and O: stones; x and o: laddered stones; *: moves that capture in a ladder, for Black, who is
# to play.
GOLDEN = {
    "a ladder to the edge": """
        .......
        .......
        ..XX...
        .Xo....
        ..*....
        .......
        .......""",
    "a breaker on its way": """
        .......
        .......
        ..XX...
        .XO....
        .......
        .....O.
        .......""",
    "a crawl on the first line": """
        .Xo....
        ..X....
        .......
        .......
        .......
        .......
        .......""",
    "a crawl to a friend": """
        .XO..O.
        ..X....
        .......
        .......
        .......
        .......
        .......""",
    "three liberties are no ladder": """
        .......
        .......
        ...X...
        ..XO...
        .......
        .......
        .......""",
    "capturing a chaser saves": """
        .......
        .OOO...
        .OX....
        .XOX...
        .......
        .......
        .......""",
    "in atari and lost": """
        o.X....
        X......
        .......
        .......
        .......
        .......
        .......""",
}


@functools.cache
def reader(size):
    return jax.jit(jax.vmap(lambda b, w, white: read_board(size, b, w, white)))


def check(size, boards):
    """Check every board, Black and White to play in turn; counts (laddered stones, captures)."""
    white_moves = np.arange(len(boards)) % 2 == 1
    actual = reader(size)(*packed(size, boards), jnp.asarray(white_moves))
    laddered, captures = (unpacked(size, board) for board in actual)
    plain = plain_reader(size)
    for b, board in enumerate(boards):
        expected = plain.read(board, WHITE if white_moves[b] else BLACK)
        assert set(np.flatnonzero(laddered[b])) == expected[0], board
        assert set(np.flatnonzero(captures[b])) == expected[1], board
    return laddered.sum(), captures.sum()


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_boards(name):
    drawn = GOLDEN[name]
    board = parse(drawn.upper())
    result = reader(7)(*packed(7, [board]), jnp.array([False]))
    assert set(np.flatnonzero(unpacked(7, result.laddered)[0])) == marks(drawn, "xo")
    assert set(np.flatnonzero(unpacked(7, result.captures)[0])) == marks(drawn, "*")


@pytest.mark.parametrize(("size", "count"), [(5, 100), pytest.param(9, 40, marks=pytest.mark.slow)])
def test_random_boards(size, count):
    assert min(check(size, random_boards(size, count, seed=size))) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("size", "count"), [(5, 1500), (7, 1000), (9, 500), (13, 60), (19, 24)])
def test_many_boards(size, count):
    assert min(check(size, random_boards(size, count, seed=300 + size))) > 0


@pytest.mark.thorough
@pytest.mark.parametrize("count", [5, 23])
def test_a_few_lanes_read_many_games(monkeypatch, count):
    """In lockstep, in one kernel and in turn give the same; one game has no chain to read, every
    second one lists no captures; KataGo's kos."""
    boards = [" ".join(["....."] * 5), *random_boards(5, count - 1, seed=1)]
    boards = [parse(boards[0]), *boards[1:]]
    white_moves, ko = jnp.arange(count) % 2 == 1, jnp.arange(count, dtype=jnp.int16) - 3

    listed = jnp.arange(count) % 2 == 0

    def found(listed):
        def read(black, white, white_moves, ko, listed):
            return ladders._read(5, ladders.KATAGO, black, white, white_moves, ko, listed)

        ko_points = jnp.maximum(ko, bb.NO_POINT)
        return jax.jit(read)(*packed(5, boards), white_moves, ko_points, listed)

    with monkeypatch.context() as context:
        context.setenv(mode.VARIABLE, "plain")
        in_lockstep = found(listed)
        laddered, captures = found(jnp.ones(count, bool))
    only_listed = tuple(jnp.where(listed, word, 0) for word in captures)
    jax.tree.map(np.testing.assert_array_equal, in_lockstep, (laddered, only_listed))
    jax.tree.map(np.testing.assert_array_equal, found(listed), in_lockstep)
    monkeypatch.setattr(ladders, "_num_lanes", lambda lay: 4)
    jax.tree.map(np.testing.assert_array_equal, found(listed), in_lockstep)
    assert np.any(in_lockstep[0])


def test_a_ko_ban_forces_another_move():
    """White has just taken a ko: the stone there is in atari, and Black may not capture it."""
    rules = go.Rules(size=5)
    drawn = parse(".XO.. XO.O. .XO.. ..... .....")
    game = ReferenceGame(5, "simple")
    state = go.init(rules)
    # Black 1, 5, 11 and 7; White 2, 8, 12 and last 6, which takes the stone at 7.
    for action in (1, 2, 5, 8, 11, 12, 7, 6):
        assert game.is_legal(action)
        game.play(action)
        state = go.play(rules, state, jnp.int32(action))
    assert game.board == drawn
    actual = ladders.ladders(rules, state.position)
    plain = plain_reader(5)
    expected = plain.read(game.board, BLACK, list(game.history[-2]))
    one = lambda board: jax.tree.map(lambda word: word[None], board)
    assert set(np.flatnonzero(unpacked(5, one(actual.laddered))[0])) == expected[0]
    assert set(np.flatnonzero(unpacked(5, one(actual.captures))[0])) == expected[1]
