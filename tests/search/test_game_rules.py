"""Connect Four and Hex, the games of the tests, beside plain Python."""

from __future__ import annotations

import functools
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.reference.connect_four import ConnectFour
from tests.reference.connect_four import expectation as connect_four_expectation
from tests.reference.hex import Hex
from tests.reference.hex import expectation as hex_expectation
from tests.search import connect_four, hex_game

NUM_GAMES = 64
CONNECT_FOUR_SIZES = [(7, 6), (5, 4), (4, 8), (3, 5)]
HEX_SIZES = [2, 4, 5, 9]


@functools.cache
def stepper(game):
    """jitted (boards [B], actions [B]) -> boards, and what the game says of boards [B]."""

    def look(board):
        return game.legal(board), *game.outcome(board)

    return jax.jit(jax.vmap(game.play)), jax.jit(jax.vmap(look))


def keys_of(boards):
    """The bytes of each board."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(boards)]
    return [b"".join(x[i].tobytes() for x in leaves) for i in range(len(leaves[0]))]


def batch(board, count):
    return jax.tree.map(lambda x: jnp.broadcast_to(x[None], (count, *x.shape)), board)


def compare_random_games(game, start, references, cells_of, value_of):
    """Random games side by side to the end. Positions by their bytes, and how games came out."""
    play, look = stepper(game)
    boards, rng = batch(start, len(references)), random.Random(game.num_actions)
    seen, outcomes = {}, set()
    while True:
        legal, over, value = (np.asarray(x) for x in look(boards))
        keys = keys_of(boards)
        for i, reference in enumerate(references):
            assert legal[i].tolist() == reference.legal()
            wanted = value_of(reference)
            assert over[i] == (wanted is not None)
            assert value[i] == (wanted or 0.0)
            name = (cells_of(reference), reference.to_play)
            assert seen.setdefault(keys[i], name) == name
            if over[i]:
                outcomes.add(wanted * reference.to_play)
        if over.all():
            assert len(set(seen.values())) == len(seen)
            return seen, outcomes
        actions = np.zeros(len(references), np.int32)
        for i, reference in enumerate(references):
            if not over[i]:
                actions[i] = rng.choice(np.flatnonzero(legal[i]).tolist())
                reference.play(int(actions[i]))
        moved = play(boards, actions)
        boards = jax.tree.map(lambda old, new, over=over: keep(over, old, new), boards, moved)


def keep(over, old, new):
    """`old` [B, ...] where a game is over, else `new`."""
    old, new = np.asarray(old), np.asarray(new)
    return np.where(over.reshape(-1, *[1] * (old.ndim - 1)), old, new)


@pytest.mark.parametrize(("width", "height"), CONNECT_FOUR_SIZES)
def test_connect_four_is_that_of_plain_python(width, height):
    game = connect_four.connect_four(width, height)
    references = [ConnectFour(width, height) for _ in range(NUM_GAMES)]
    _, outcomes = compare_random_games(
        game,
        connect_four.empty(width),
        references,
        cells_of=ConnectFour.code,
        value_of=lambda g: g.result() if g.over else None,
    )
    # On 3 columns only a column makes four.
    assert outcomes >= ({1, -1} if width > 4 else {0, 1})


@pytest.mark.parametrize("size", HEX_SIZES)
def test_hex_is_that_of_plain_python(size):
    references = [Hex(size) for _ in range(NUM_GAMES)]
    _, outcomes = compare_random_games(
        hex_game.hex_game(size),
        hex_game.empty(size),
        references,
        cells_of=lambda g: tuple(g.cells),
        value_of=lambda g: -1 if g.over() else None,
    )
    assert outcomes == {1, -1}


def after(game, start, actions):
    play, _ = stepper(game)
    boards = batch(start, 1)
    for action in actions:
        boards = play(boards, np.array([action], np.int32))
    return keys_of(boards)


@pytest.mark.parametrize(
    ("game", "start", "orders"),
    [
        (
            connect_four.connect_four(5, 4),
            connect_four.empty(5),
            # Columns 0 and 1 by the first player, 3 and 4 by the second; then the other stones.
            [[0, 3, 1, 4], [1, 3, 0, 4], [1, 4, 0, 3], [0, 4, 1, 3]],
        ),
        (
            hex_game.hex_game(4),
            hex_game.empty(4),
            [[5, 10, 0, 7], [0, 10, 5, 7], [5, 7, 0, 10], [0, 7, 5, 10]],
        ),
    ],
)
def test_boards_do_not_know_the_order_of_moves(game, start, orders):
    keys = [after(game, start, order) for order in orders]
    assert keys == [keys[0]] * len(orders)
    exchanged = [orders[0][i] for i in (1, 0, 3, 2)]
    assert after(game, start, exchanged) != keys[0]


NUM_PLAYOUTS = 20_000


def mean_of_playouts(evaluate, board):
    run = jax.jit(lambda key, boards: evaluate(None, key, boards).value)
    values = np.asarray(run(jax.random.key(3), batch(board, NUM_PLAYOUTS)))
    return values.mean(), values.std() / NUM_PLAYOUTS**0.5


@pytest.mark.parametrize("columns", ["33024332421", "14020333310", "40320014322"])
def test_connect_four_playouts_are_uniform(columns):
    actions = [int(column) for column in columns]
    game, reference = connect_four.connect_four(5, 4), ConnectFour(5, 4)
    board = connect_four.empty(5)
    for action in actions:
        board = game.play(board, action)
        reference.play(action)
    mean, error = mean_of_playouts(connect_four.playout_evaluate(5, 4), board)
    expected = connect_four_expectation(reference)
    assert abs(expected) > 0.1
    assert abs(mean - expected) < 4 * error


@pytest.mark.parametrize("actions", [[0], [4, 0], [1, 4, 0], [4, 0, 1, 8]])
def test_hex_playouts_are_uniform(actions):
    game, reference = hex_game.hex_game(3), Hex(3)
    board = hex_game.empty(3)
    for action in actions:
        board = game.play(board, action)
        reference.play(action)
    mean, error = mean_of_playouts(hex_game.playout_evaluate, board)
    expected = hex_expectation(reference)
    assert abs(expected) > 0.1
    assert abs(mean - expected) < 4 * error


def test_hex_playouts_say_who_first_played_where():
    size, rng = 4, random.Random(0)
    references, boards = [], []
    for i in range(40):
        reference = Hex(size)
        for point in rng.sample(range(size * size), i % 12):
            reference.play(point)
        references.append(reference)
        boards.append(hex_game.as_board(reference))
    stacked = jax.tree.map(lambda *x: np.stack(x), *boards)
    played = jax.jit(hex_game.playouts)(stacked, jax.random.key(1))
    for i, reference in enumerate(references):
        movers, opponents = np.asarray(played.first_play)[i]
        cells, mover = np.array(reference.cells), reference.to_play
        np.testing.assert_array_equal(movers.astype(int) + opponents, cells == 0)
        assert movers.sum() - opponents.sum() == (cells == 0).sum() % 2
        cells[movers], cells[opponents] = mover, -mover
        reference.cells = cells.tolist()
        assert reference.joined(1) != reference.joined(-1)
        assert played.value[i] == (1.0 if reference.joined(mover) else -1.0)


def test_bad_sizes():
    with pytest.raises(ValueError, match="height: 9"):
        connect_four.connect_four(7, 9)
    with pytest.raises(ValueError, match="size: 17"):
        hex_game.hex_game(17)
