"""Pattern matches: against the plain reference, and each kind by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.playouts import playable
from gozero.playouts.policies.mogo import move_rules, patterns
from tests.playouts.positions import boards, game_of, positions_of
from tests.reference import mogo as reference
from tests.reference.go import BLACK, EMPTY, WHITE, ReferenceGame


@functools.cache
def finder(size: int):
    """A jitted (own, opponent, points i32[B]) -> bool[B, points]: where patterns match beside."""
    lay = bb.layout(size)

    def find(own, opponent, point):
        move = playable.packed_point(lay, point)
        return patterns.board_of_window(
            lay, move_rules.pattern_window(lay, own, opponent, move), move
        )

    return jax.jit(jax.vmap(find))


def found(games: list[ReferenceGame], points) -> np.ndarray:
    positions = positions_of(games)
    own, opponent = go.own_and_opponent(positions)
    size = games[0].size
    return boards(bb.layout(size), finder(size)(own, opponent, jnp.array(points)))


@pytest.mark.parametrize(
    "size",
    [
        2,
        9,
        *(pytest.param(n, marks=pytest.mark.thorough) for n in (3, 7)),
        *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 13, 15, 16, 19, 25)),
    ],
)
def test_patterns_match_where_the_reference_has_them(size):
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


def test_no_pattern_matches_without_a_last_move():
    game = game_of("..... .X... .O... ..... .....")
    assert found([game] * 2, [11, bb.NO_POINT]).any(axis=1).tolist() == [True, False]


# For each kind a board on which it matches at `*` for X to move, beside O's last move `@`; and
# one that is nearly the same, on which nothing matches there.
KINDS = {
    "hane, enclosing": ("..... .X@X. ..*.. ..... .....", "..... .X@X. .X*X. ..X.. ....."),
    "hane, not cutting": ("..... .X@.. ..*.. ..... .....", "..... .X@.. ..*.. ..O.. ....."),
    "hane, magari": ("..... .X@.. .X*.. ..... .....", "..... .X@.. .X*.. .X... ....."),
    "hane, thin": ("..... .X@O. ..*.. ..... .....", "..... .@XX. ..*.. ..... ....."),
    "cut, unprotected": ("..... .X@.. .O*.. ..... .....", "..... .X@.. .O*.. ..O.. ....."),
    "cut, peeped": ("..... .X@.. .O*X. ..O.. .....", "..... .X@.. .O*O. ..O.. ....."),
    "cut through": ("..... ..X.. .@*O. ..... .....", "..... ..X.. .@*O. ..O.. ....."),
    "edge, chase": ("..... ..... ..... .X... .@*..", "..... ..... ..... ..... .@*.."),
    "edge, block a cut": ("..... ..... ..... .X@.. .O*X.", "..... ..... ..... .O@.. .O*X."),
    "edge, block a connection": ("..... ..... ..... ..X.. ..*@.", "..... ..... ..... ..X.. .X*@."),
    "edge, sagari": ("..... ..... ..... ..X@. ..*..", "..... ..... ..... ..O@. ..*.."),
    "edge, cut": ("..... ..... ..... ..@X. .X*O.", "..... ..... ..... ..@O. .O*X."),
}
ALONE = set(KINDS) - {"edge, block a cut", "edge, cut"}  # a peeped cut matches wherever these do


def test_every_kind_by_hand():
    assert list(KINDS) == list(reference.SHAPES)
    diagrams = [diagram for pair in KINDS.values() for diagram in pair]
    games = [game_of(diagram.replace("*", ".").replace("@", "O")) for diagram in diagrams]
    last, points = ([d.replace(" ", "").index(mark) for d in diagrams] for mark in "@*")
    stands = found(games, last)[np.arange(len(games)), points]
    assert stands.tolist() == [True, False] * len(KINDS)
    for i, kind in enumerate(KINDS):
        kinds = reference.kinds(games[2 * i], points[2 * i])
        assert kinds == [kind] or (kind not in ALONE and {kind, "cut, peeped"} <= set(kinds))
        assert reference.kinds(games[2 * i + 1], points[2 * i + 1]) == []


def test_all_kinds_count_once():
    """120 variants, without those that a wider one covers."""
    assert len(patterns.variants()) == 120
