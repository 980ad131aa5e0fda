"""Liberty counts against chains walked one by one."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from gozero.go import bitboard as bb
from gozero.go import liberties
from tests.go.boards import marks, packed, parse, random_boards, unpacked
from tests.reference.go import ReferenceGame

GOLDEN = {
    # Each stone is marked with its chain's liberties: 1, 2, 3, or + for more.
    "one row": ("XX.X. ..... ..... O.... .....", "33.3. ..... ..... 3.... ....."),
    "a shared liberty counts once": (
        "XX... X.... ..O.. .O.O. O.OOO",
        "33... 3.... ..+.. .+.+. 2.+++",
    ),
    "two rows, two columns": (".X... X.X.. .X... ..... .....", ".3... 3.+.. .+... ..... ....."),
    "a ring": ("XXXXX X...X X.O.X X...X XXXXX", "+++++ +...+ +.+.+ +...+ +++++"),
    "an eye each side": (".XO.. XXO.. OOO.. ..... .....", ".1+.. 11+.. +++.. ..... ....."),
    "a square of four": (".OO.. O..O. O..O. .OO.. .....", ".++.. +..+. +..+. .++.. ....."),
}


@functools.cache
def counter(size):
    lay = bb.layout(size)
    return jax.jit(jax.vmap(lambda black, white: liberties.liberty_counts(lay, black, white)))


def check(size, boards):
    """Check every stone of every board; returns how many stones had each count."""
    result = [unpacked(size, board) for board in counter(size)(*packed(size, boards))]
    game, seen = ReferenceGame(size), np.zeros(3, int)
    for b, board in enumerate(boards):
        game.board = board
        count = [len(game.chain(board, p)[1]) if board[p] else 0 for p in range(size * size)]
        for k in range(3):
            np.testing.assert_array_equal(result[k][b], np.array(count) == k + 1)
            seen[k] += result[k][b].sum()
    return seen


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_boards(name):
    drawn, counts = GOLDEN[name]
    result = counter(5)(*packed(5, [parse(drawn)]))
    for k, board in enumerate(result):
        assert set(np.flatnonzero(unpacked(5, board)[0])) == marks(counts, str(k + 1)), k + 1


@pytest.mark.parametrize(
    ("size", "count"),
    [
        (2, 30),
        (5, 300),
        *(pytest.param(*x, marks=pytest.mark.thorough) for x in ((9, 200), (13, 60))),
    ],
)
def test_random_boards(size, count):
    seen = check(size, random_boards(size, count, seed=size))
    assert (seen > 0).all() or size == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "count"), [(3, 1000), (5, 3000), (7, 2000), (9, 2000), (13, 500), (16, 300), (19, 600)]
)
def test_thousands_of_boards(size, count):
    assert (check(size, random_boards(size, count, seed=100 + size)) > 0).all()


def test_one_game_without_vmap():
    lay = bb.layout(5)
    black, white = (tuple(word[0] for word in x) for x in packed(5, [parse(GOLDEN["one row"][0])]))
    counts = liberties.liberty_counts(lay, black, white)
    assert np.flatnonzero(bb.unpack(lay, counts.three)).tolist() == [0, 1, 3, 15]
