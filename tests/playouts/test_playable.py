"""What a playout may play: eyes, suicides, and every allowed first move equally often."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.playouts import playable
from tests.playouts.positions import (
    SETTLED,
    allowed,
    boards,
    compiled,
    game_of,
    positions_of,
    random_games,
)
from tests.reference.go import BLACK, EMPTY, WHITE, ReferenceGame

# --- what may be played ---------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 5, 9, 13, 19])
def test_eyes_match_the_reference(size):
    rng = np.random.default_rng(size)
    games = [ReferenceGame(size) for _ in range(30)]
    for game in games:  # mostly own stones, otherwise there would be no eyes
        points = rng.choice([BLACK, WHITE, EMPTY], size * size, p=[0.75, 0.08, 0.17])
        game.board = points.tolist()
    positions = positions_of(games)
    lay = bb.layout(size)
    find = jax.jit(jax.vmap(functools.partial(playable.eyes, lay)))
    actual = find(positions.black, positions.white)
    expected = [[game.is_eye(p, BLACK) for p in range(size * size)] for game in games]
    np.testing.assert_array_equal(boards(lay, actual), expected)
    assert np.any(expected)


@pytest.mark.parametrize("size", [2, 5, 9])
def test_obvious_suicides_are_suicides(size):
    games = random_games(size, 20, seed=size)
    lay = bb.layout(size)
    positions = positions_of(games)
    find = jax.jit(jax.vmap(functools.partial(playable.obvious_suicides, lay)))
    result = boards(lay, find(positions.black, positions.white))
    for game, points in zip(games, result, strict=True):
        game.to_play = BLACK
        for p in np.flatnonzero(points):
            assert game.board[p] == EMPTY
            assert game.board_after(p) is None
    assert size == 2 or np.any(result)


FIRST_MOVES = {
    "an empty board": game_of("..... ..... ..... ..... ....."),
    "suicide in the corner, an eye, a capture": game_of(
        """
        .O.X.
        OO.XX
        ..X..
        .OX.X
        .O.X.
        """
    ),
    "a ko that may not be taken back": game_of(
        """
        .XO..
        X.XO.
        .XO..
        .....
        .....
        """,
        to_play=WHITE,
        ko=(1, 1),
    ),
    "long chains that decide only after several iterations": game_of(
        """
        .OOOOOOOO
        OOXXXXXXO
        XXXOOOOXO
        .OOOXXOXO
        XXXOX.OXO
        X.XOXOOXO
        XXXOXXXXO
        XOOOOOOOO
        X.XOXO.O.
        """,
        to_play=BLACK,
    ),
    "nothing but eyes": game_of(SETTLED, to_play=WHITE),
}


@pytest.mark.parametrize("name", FIRST_MOVES)
def test_the_first_action_is_uniform_over_allowed_moves(name):
    game, lanes = FIRST_MOVES[name], 6000
    rules = go.Rules(game.size)
    positions = jax.tree.map(lambda x: jnp.repeat(x, lanes, axis=0), positions_of([game]))
    first = compiled(rules)(positions, jax.random.key(1)).first_action
    counts = np.bincount(first, minlength=rules.num_actions)
    actions = allowed(game)
    assert set(np.flatnonzero(counts)) == set(actions)
    assert len(actions) == 1 or stats.chisquare(counts[actions]).pvalue > 1e-3
