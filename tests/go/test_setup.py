"""Games set up from stones: the atari set, every legal small position, bad boards."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gozero
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import setup
from tests.go.stepping import new_games, stepper
from tests.reference.go import ReferenceGame


@pytest.mark.parametrize(("size", "expected"), [(2, 57), (3, 12_675)])
def test_number_of_legal_positions(size, expected):
    """OEIS A094777, counted by the library's liberties over every way to fill the board."""
    grids = np.meshgrid(*[np.array([0, 1, -1], np.int8)] * size**2, indexing="ij")
    every_board = np.stack(grids, axis=-1).reshape(-1, size, size)
    lay = bb.layout(size)

    def is_legal(board):
        black, white = bb.pack(lay, board > 0), bb.pack(lay, board < 0)
        alive, _ = setup.liberties(lay, black, white)
        return ~bb.any_of(bb.difference(bb.union(black, white), alive))

    assert int(jax.jit(jax.vmap(is_legal))(every_board).sum()) == expected


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.thorough), 7])
def test_a_board_set_up_equals_the_board_played(size):
    """From any board of random games, `from_stones` gives the same stones and atari sets."""
    rules = go.Rules(size=size, ko="situational", suicide=True)
    step, count = stepper(rules), 8
    rng = np.random.RandomState(size)
    states = new_games(rules, count, 0.5)
    copy = jax.jit(
        jax.vmap(
            lambda s: setup.from_stones(rules, go.stones(rules, s), s.position.to_play, s.komi)
        )
    )
    games = [ReferenceGame(size, rules.ko, rules.suicide) for _ in range(count)]
    for _ in range(30):
        actions = [int(rng.choice(np.flatnonzero(game.legal()[:-1] or [1]))) for game in games]
        for game, action in zip(games, actions, strict=True):
            game.play(action)
        states, _ = step(states, jnp.array(actions))
        copies = copy(states)
        for name in ("black", "white", "atari", "to_play"):
            played, placed = getattr(states.position, name), getattr(copies.position, name)
            jax.tree.map(np.testing.assert_array_equal, placed, played)
        if any(not any(game.legal()[:-1]) for game in games):
            break


def test_a_set_up_board_counts_for_superko():
    """The board that was set up may not be repeated, and its player to move is stored."""
    board = [[1, 1], [1, 0]]
    for ko, banned in (("positional", True), ("situational", True), ("simple", False)):
        rules = go.Rules(size=2, ko=ko)
        state = setup.from_stones(rules, np.array(board), go.WHITE)
        for action in (3, 1, 2, 0, 4):  # White takes three, Black takes two back, White passes
            assert bool(go.legal_actions(rules, state)[action])
            state = go.play(rules, state, action)
        assert go.stones(rules, state).tolist() == [[1, 1], [0, 0]]
        assert bool(go.legal_actions(rules, state)[2]) != banned
    # Giving White the turn also changes the first situation on record.
    rules = go.Rules(size=2, ko="situational")
    state = go.with_to_play(setup.from_stones(rules, np.array(board), go.BLACK), go.WHITE)
    turned = setup.from_stones(rules, np.array(board), go.WHITE)
    jax.tree.map(np.testing.assert_array_equal, state, turned)


def test_a_set_up_game_can_be_batched_and_read_back():
    rules = go.Rules(size=3)
    boards = np.zeros((4, 3, 3), np.int8)
    boards[1, 1, 1], boards[2, 0, 0], boards[3, 2, 2] = 1, -1, 1
    round_tripped = lambda b: go.stones(rules, gozero.from_stones(rules, b, komi=0.5))
    again = jax.jit(jax.vmap(round_tripped))(boards)
    np.testing.assert_array_equal(again, boards)


@pytest.mark.parametrize(
    ("stones", "to_play", "says"),
    [
        (np.zeros((3, 4), int), 0, r"stones: shape \(3, 4\), expected \(3, 3\)"),
        (np.zeros((2, 3, 3), int), 0, r"stones: shape \(2, 3, 3\)"),
        (np.zeros((3, 3)), 0, "stones: dtype float64"),
        (np.zeros((3, 3), bool), 0, "stones: dtype bool"),
        ([[0, 0, 0], [0, 2, 0], [0, 0, 0]], 0, "stones: 2 at row 1, column 1"),
        ([[1, 1, -1], [-1, -1, 0], [0, 0, 0]], 0, "Black's chain A3 B3 has no liberty"),
        ([[0, 1, 0], [0, 1, 1], [1, -1, -1]], 0, "White's chain B1 C1 has no liberty"),
        (np.zeros((3, 3), int), 2, "to_play: 2 is not 0, Black, or 1, White"),
        (np.zeros((3, 3), int), np.array(2), "to_play: 2 is not 0, Black, or 1, White"),
        (np.zeros((3, 3), int), "black", "to_play: black is not 0, Black, or 1, White"),
    ],
)
def test_bad_boards(stones, to_play, says):
    with pytest.raises(ValueError, match=says):
        setup.from_stones(go.Rules(size=3), stones, to_play)


def test_bad_handicaps():
    rules = go.Rules(size=3)
    for actions, says in (([4], "1 stones"), ([4, 4], "twice"), ([4, 9], "9 is not a point")):
        with pytest.raises(ValueError, match=says):
            gozero.with_handicap(rules, actions)
    state = gozero.with_handicap(rules, jnp.array([0, 4]))
    assert go.stones(rules, state).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert int(state.to_play) == go.WHITE


@pytest.mark.parametrize(("black", "white"), [([3], [3]), ([1, 1], []), ([-1], []), ([], [25])])
def test_points_off_the_board_or_twice_are_refused(black, white):
    with pytest.raises(ValueError, match=r"^black, white: .* different points from 0 to 24$"):
        setup.from_points(go.Rules(5), black, white)
