"""3x3 shapes: codes by hand, and classes beside those of the plain reference."""

import functools

import jax
import numpy as np
import pytest

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.playouts.policies.softmax import neighbourhoods
from tests.playouts.positions import game_of, positions_of, random_games
from tests.reference import softmax_policy as reference
from tests.reference.go import WHITE

slow = pytest.mark.slow


def codes_of(games, size):
    return np.moveaxis(np.asarray(coding(size)(positions_of(games))), -1, 0)


@functools.cache
def coding(size):
    def codes(positions):
        lay = bb.layout(size)
        boards = go.own_and_opponent(positions)
        return neighbourhoods.codes(
            lay, *(neighbourhoods.framed(lay, neighbourhoods.rows(lay, x)) for x in boards)
        )

    return jax.jit(codes)


BOARD = """
    X.O..
    .XX..
    ...O.
    .....
    ....X
"""


@pytest.mark.parametrize(
    ("point", "around", "code"),
    [
        # own stones at bits 0 to 7 in reading order, the opponent's at 8 to 15
        ((1, 2), ".O. X*. ..O", 0b00001000 | 0b10000010 << 8),
        ((0, 1), "### X*O .XX", 0b11001111 | 0b00010111 << 8),
        ((4, 0), "#.. #*. ###", 0b11101001 | 0b11101001 << 8),
        ((4, 3), "... .*X ###", 0b11110000 | 0b11100000 << 8),
    ],
)
def test_codes_by_hand(point, around, code):
    assert codes_of([game_of(BOARD)], 5)[0][point] == code == reference.code_of(around)
    assert reference.shape_of(code) == tuple(around.split())


def test_codes_of_the_other_player_swap_the_colours():
    seen = codes_of([game_of(BOARD, WHITE)], 5)[0]
    assert seen[1, 2] == reference.code_of(".X. O*. ..X")
    swapped = reference.code_of("OX# .*# .O#") ^ 0b01000011 * 257
    assert reference.code_of("XO# .*# .X#") == swapped


@pytest.mark.parametrize("size", [2, 5, pytest.param(9, marks=slow), pytest.param(19, marks=slow)])
def test_classes_match_the_reference(size):
    games = random_games(size, 6, seed=size)
    result = neighbourhoods.classes()[codes_of(games, size)].reshape(len(games), -1)
    for game, classes in zip(games, result, strict=True):
        for p, number in enumerate(classes):
            lines = reference.shape_of(int(neighbourhoods.class_codes()[number]))
            assert reference.canonical(lines) == reference.shape_at(game, p)


def test_the_number_of_classes_by_burnsides_lemma():
    # Fixed by: the identity, two quarter turns, a half turn, four mirrors.
    inside = (3**8 + 2 * 3**2 + 3**4 + 4 * 3**5) // 8
    side, corner = (3**5 + 3**3) // 2, (3**3 + 3**2) // 2
    assert len(neighbourhoods.class_codes()) == inside + side + corner == 1107
    assert np.array_equal(neighbourhoods.classes()[neighbourhoods.class_codes()], np.arange(1107))
