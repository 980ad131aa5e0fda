"""Where patterns stand: beside the plain reference, and each kind by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.montecarlo import around, patterns, policies, replies
from tests.montecarlo.positions import boards, game_of, positions_of
from tests.reference import mogo as reference
from tests.reference.go import BLACK, EMPTY, WHITE, ReferenceGame


@functools.cache
def finder(size: int):
    """A jitted (own, opponent, points i32[B]) -> bool[B, points]: where patterns stand beside."""
    lay = bb.layout(size)

    def find(own, opponent, point):
        spot = policies.point_spot(lay, point)
        return around.inner_board(lay, replies._near(lay, own, opponent, spot), spot)

    return jax.jit(jax.vmap(find))


def found(games: list[ReferenceGame], points) -> np.ndarray:
    positions = positions_of(games)
    own, opponent = go.own_and_opponent(positions)
    size = games[0].size
    return boards(bb.layout(size), finder(size)(own, opponent, jnp.array(points)))


@pytest.mark.parametrize(
    "size",
    [2, 3, 7, 9, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 13, 15, 16, 19, 25))],
)
def test_patterns_stand_where_the_reference_sees_them(size):
    rng = np.random.default_rng(size)
    games, last, seen = [], [], 0
    for _ in range(200):
        game = ReferenceGame(size)
        share = rng.uniform(0.1, 0.45)
        stones = rng.choice([BLACK, WHITE, EMPTY], size * size, p=[share, share, 1 - 2 * share])
        game.board, game.to_play = stones.tolist(), int(rng.choice([BLACK, WHITE]))
        games.append(game)
        last.append(int(rng.integers(size * size)))
    for game, point, points in zip(games, last, found(games, last), strict=True):
        expected = [
            p
            for p in reference.eight_around(game, point)
            if game.board[p] == EMPTY and reference.kinds(game, p)
        ]
        assert np.flatnonzero(points).tolist() == sorted(expected)
        seen += len(expected)
    assert size == 2 or seen > 100


def test_nothing_stands_beside_no_move():
    game = game_of("..... .X... .O... ..... .....")
    assert found([game] * 2, [11, bb.NO_POINT]).any(axis=1).tolist() == [True, False]


# X is to move; `+` is where a pattern of the kind, and no other, stands; the last move is any
# stone beside it. In the second diagram none stands there.
KINDS = {
    "hane, enclosing": ("XOX .+. ... ... ...", "XOX O+. ... ... ..."),
}


def test_all_kinds_count_once():
    """As research has it: 120 variants, those that a wider one covers left out."""
    assert len(patterns.variants()) == 120
    kinds = {kind for kind in reference.SHAPES}
    assert len(kinds) == len(patterns.PATTERNS)
