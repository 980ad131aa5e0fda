"""MoGo's good and bad moves against the plain reference."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.playouts.policies.mogo import handcrafted
from gozero.playouts.policies.mogo.move_rules import MogoConfig
from tests.playouts.positions import game_of, last_move, positions_in_atari, random_games
from tests.reference import mogo as reference
from tests.reference.go import BLACK, WHITE, ReferenceGame


@functools.cache
def valued(size: int, nakade: bool = False):
    """A jitted (positions, last) -> f32[B, A]."""
    value = handcrafted.heuristic(go.Rules(size), MogoConfig(nakade=nakade))
    return jax.jit(lambda positions, last: value(None, jax.random.key(0), (positions, last)))


def expected(game: ReferenceGame, last: int, nakade: bool = False) -> np.ndarray:
    known = None if last in (bb.NO_POINT, game.size**2) else last
    rule, moves = reference.choices(game, known, nakade)
    worth = np.zeros(game.size**2 + 1)
    worth[-1] = -1
    worth[[p for p in range(game.size**2) if game.is_eye(p, game.to_play)]] = -1
    if rule != reference.ANY:
        worth[list(moves)] = 1
    return worth


def check(games: list[ReferenceGame], nakade: bool = False) -> list[int]:
    """Check every value of every unfinished position; returns the rules that occurred."""
    for game in games:
        game.passes = min(game.passes, 1)
    last = [last_move(game) for game in games]
    actual = valued(games[0].size, nakade)(positions_in_atari(games), jnp.array(last))
    for i, game in enumerate(games):
        np.testing.assert_array_equal(actual[i], expected(game, last[i], nakade), err_msg=str(i))
    known = [None if p == bb.NO_POINT else p for p in last]
    return [reference.choices(g, p, nakade)[0] for g, p in zip(games, known, strict=True)]


def test_good_and_bad_moves_match_the_reference():
    rules = check(random_games(5, 120, seed=1))
    assert set(rules) == {reference.SAVE, reference.PATTERN, reference.CAPTURE, reference.ANY}


@pytest.mark.slow
@pytest.mark.parametrize(("size", "nakade"), [(7, False), (9, True), (13, False)])
def test_good_and_bad_moves_on_larger_boards(size, nakade):
    assert len(set(check(random_games(size, 300, seed=size), nakade))) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("size", [13, 19])
def test_good_and_bad_moves_of_few_games_whose_boards_are_arrays(size):
    games = random_games(size, 128, seed=size)
    rules = [rule for i in range(0, 128, 32) for rule in check(games[i:][:32], nakade=True)]
    assert len(set(rules)) >= 4


def test_of_two_extensions_the_one_that_saves_is_good():
    """White plays between two black stones: one can run out into the open, one along the edge."""
    game = game_of("O..O. OX.XO .O... ..... .....", to_play=WHITE)
    game.play(7)
    check([game])
    values = valued(5)(positions_in_atari([game]), jnp.array([7]))[0]
    assert np.flatnonzero(values == 1).tolist() == [13]
    assert np.flatnonzero(values == -1).tolist() == [25]  # the pass


def test_a_saving_capture_is_good_and_filling_an_eye_is_bad():
    """Black's stone at the edge runs nowhere, but a white one beside it can be taken."""
    game = game_of(".XO.. ..X.. ..... ...XX ...X.", to_play=WHITE)
    game.play(6)
    values = valued(5)(positions_in_atari([game]), jnp.array([6]))[0]
    check([game])
    assert np.flatnonzero(values == 1).tolist() == [3]
    assert np.flatnonzero(values == -1).tolist() == [24, 25]


def test_moves_that_no_playout_plays():
    game = game_of(".XO.. ..X.. ..... ...XX ...X.", to_play=BLACK)
    never = handcrafted.never_played(go.Rules(5), positions_in_atari([game]))
    assert np.flatnonzero(never[0]).tolist() == [24, 25]
