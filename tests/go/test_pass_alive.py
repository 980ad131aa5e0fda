"""Unconditional life against Benson's algorithm on sets and boards worked by hand."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from gozero.go import bitboard as bb
from gozero.go import pass_alive as life
from tests.go.boards import marks, packed, parse, random_boards, unpacked
from tests.reference import benson
from tests.reference.go import BLACK, WHITE, ReferenceGame

GOLDEN = {
    # X and O are pass-alive, x and o are not; , is Black's territory and ; White's (with stones on
    # it: 1 and 2).
    "two eyes in the corner": (".X.XO XXXXO OOOOO ..... .....", ",X,Xo XXXXo ooooo ..... ....."),
    "one eye is no life": (".XX.. XX... ..... ..... .....", ".xx.. xx... ..... ..... ....."),
    "no eye at all": ("..... ..... ..X.. ...O. .....", "..... ..... ..x.. ...o. ....."),
    "an eye of two points": ("..X.X XXXXX ..... ..... .....", ",,X,X XXXXX ..... ..... ....."),
    "a point out of reach": (
        "...X. .XXXX XX... ..... .....",
        "...x. .xxxx xx... ..... .....",
    ),
    "seki lives but not so": (".OX.O OOXOO XXXXX ..... .....", ".ox.o ooxoo xxxxx ..... ....."),
    "a false eye joins no one": (".XO.. X.X.. OXX.. ..... .....", ".xo.. x.x.. oxx.. ..... ....."),
    "two chains share two eyes": (".X.X. X.X.X .X.X. ..... .....", ".x.x. x.x.x .x.x. ..... ....."),
    "an enemy stone in an eye": (".OX.X XXXXX ..... ..... .....", ",1X,X XXXXX ..... ..... ....."),
    "both colours": (".X.XO XXXXO OOOOO O.O.O OOOOO", ",X,XO XXXXO OOOOO O;O;O OOOOO"),
    "chains in need": (
        "..X.. .XX.. XX.XX ..XX. ..X..",
        "..x.. .xx.. xx.xx ..xx. ..x..",
    ),
}


@functools.cache
def finder(size):
    lay = bb.layout(size)
    return jax.jit(jax.vmap(lambda black, white: life.pass_alive(lay, black, white)))


def find(size, boards):
    """(pass-alive stones, territory), each bool[2, B, points]; the first axis is the colour."""
    result = finder(size)(*packed(size, boards))
    return [np.array([unpacked(size, board) for board in pair]) for pair in result]


def check(size, boards):
    """Check every board; returns the number of pass-alive stones seen."""
    stones, territory = find(size, boards)
    game = ReferenceGame(size)
    for b, board in enumerate(boards):
        game.board = board
        for c, colour in enumerate((BLACK, WHITE)):
            alive, area = benson.pass_alive(game, colour)
            assert set(np.flatnonzero(stones[c, b])) == alive, board
            assert set(np.flatnonzero(territory[c, b])) == area, board
    assert not ((stones[0] | territory[0]) & (stones[1] | territory[1])).any()
    return stones.sum()


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_boards(name):
    drawn, expected = GOLDEN[name]
    stones, territory = find(5, [parse(drawn)])
    for c, (alive, area) in enumerate((("X", ",1"), ("O", ";2"))):
        assert set(np.flatnonzero(stones[c, 0])) == marks(expected, alive)
        assert set(np.flatnonzero(territory[c, 0])) == marks(expected, area)
    check(5, [parse(drawn)])


@pytest.mark.parametrize(
    ("size", "count"),
    [
        (2, 30),
        (5, 300),
        pytest.param(9, 150, marks=pytest.mark.thorough),
        pytest.param(13, 45, marks=pytest.mark.slow),
        pytest.param(19, 10, marks=pytest.mark.slow),
    ],
)
def test_random_boards(size, count):
    assert check(size, random_boards(size, count, seed=size)) > 0 or size == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "count"), [(3, 1000), (5, 3000), (7, 2000), (9, 1000), (13, 300), (16, 150), (19, 300)]
)
def test_thousands_of_boards(size, count):
    assert check(size, random_boards(size, count, seed=200 + size)) > 0


def test_the_area_is_stones_and_territory():
    lay = bb.layout(5)
    black, white = (
        tuple(word[0] for word in x) for x in packed(5, [parse(GOLDEN["both colours"][0])])
    )
    alive = life.pass_alive(lay, black, white)
    areas = map(bb.union, alive.stones, alive.territory)
    assert [int(bb.count(area)) for area in areas] == [8, 17]
