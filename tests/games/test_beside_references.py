"""Connect Four and Hex, and random games of them, against plain Python and by hand."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.connect_four import connect_four_game
from gozero.games.go import go_game
from gozero.games.hex import hex_game
from gozero.games.rollouts import rollout_evaluator, rollouts
from gozero.go.rules import Rules
from tests.games import contract, positions
from tests.reference.connect_four import ConnectFour
from tests.reference.connect_four import expectation as connect_four_expectation
from tests.reference.hex import Hex
from tests.reference.hex import expectation as hex_expectation

NUM_GAMES = 64
CONNECT_FOUR_SIZES = [(7, 6), (5, 4), (4, 7), (3, 5), (8, 2)]
HEX_SIZES = [3, 4, 5, 9, 13]


def keys_of(boards):
    """The bytes of each board."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(boards)]
    return [b"".join(x[i].tobytes() for x in leaves) for i in range(len(leaves[0]))]


def compare_random_games(game, references, cells_of, value_of):
    """Play random games side by side to the end; returns positions by their bytes, and results."""
    play, look = contract.stepper(game)
    boards, rng = contract.new_states(game, len(references)), random.Random(game.num_actions)
    seen, outcomes = {}, set()
    while True:
        legal, over, value, planes = (np.asarray(x) for x in look(boards))
        keys = keys_of(boards)
        for i, reference in enumerate(references):
            assert legal[i].tolist() == reference.legal()
            check_planes(planes[i], reference)
            expected = value_of(reference)
            assert over[i] == (expected is not None)
            assert value[i] == (expected or 0.0)
            name = (cells_of(reference), reference.to_play)
            assert seen.setdefault(keys[i], name) == name
            if over[i]:
                outcomes.add(expected * reference.to_play)
        if over.all():
            assert len(set(seen.values())) == len(seen)
            return seen, outcomes
        actions = np.zeros(len(references), np.int32)
        for i, reference in enumerate(references):
            if not over[i]:
                actions[i] = rng.choice(np.flatnonzero(legal[i]).tolist())
                reference.play(int(actions[i]))
        boards = play(boards, actions)


def check_planes(planes, reference):
    """Check the planes: the mover's stones, the opponent's, and whether the mover began."""
    rows = reference.cells[::-1] if isinstance(reference, ConnectFour) else reference.cells
    cells = np.array(rows).reshape(planes.shape[:2]) * reference.to_play
    np.testing.assert_array_equal(planes[:, :, 0], cells == 1)
    np.testing.assert_array_equal(planes[:, :, 1], cells == -1)
    np.testing.assert_array_equal(planes[:, :, 2], reference.to_play == 1)


@pytest.mark.parametrize(("width", "height"), CONNECT_FOUR_SIZES)
def test_connect_four_equals_plain_python(width, height):
    _, outcomes = compare_random_games(
        connect_four_game(width, height),
        [ConnectFour(width, height) for _ in range(NUM_GAMES)],
        cells_of=ConnectFour.code,
        value_of=lambda g: g.result() if g.over else None,
    )
    # With 3 columns only a vertical line makes four.
    assert outcomes >= ({1, -1} if width > 4 else {0, 1})


@pytest.mark.parametrize(
    "size",
    [pytest.param(n, marks=[pytest.mark.thorough] * (n > 11)) for n in HEX_SIZES],
)
def test_hex_equals_plain_python(size):
    _, outcomes = compare_random_games(
        hex_game(size),
        [Hex(size) for _ in range(NUM_GAMES if size < 9 else 8)],
        cells_of=lambda g: tuple(g.cells),
        value_of=lambda g: -1 if g.over() else None,
    )
    assert outcomes == {1, -1}


@pytest.mark.parametrize(
    ("game", "orders"),
    [
        (
            connect_four_game(5, 4),
            # Columns 0 and 1 by the first player, 3 and 4 by the second; then the other stones.
            [[0, 3, 1, 4], [1, 3, 0, 4], [1, 4, 0, 3], [0, 4, 1, 3]],
        ),
        (hex_game(4), [[5, 10, 0, 7], [0, 10, 5, 7], [5, 7, 0, 10], [0, 7, 5, 10]]),
    ],
)
def test_boards_do_not_depend_on_the_order_of_moves(game, orders):
    keys = [keys_of(positions.after(game, [order])) for order in orders]
    assert keys == [keys[0]] * len(orders)
    exchanged = [orders[0][i] for i in (1, 0, 3, 2)]
    assert keys_of(positions.after(game, [exchanged])) != keys[0]


# --- by hand --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "lost"),
    [
        ("0011223", True),  # along the bottom
        ("4041424", True),  # a column
        ("01122323363", True),  # up to the right: (0, 0), (1, 1), (2, 2), (3, 3)
        ("65544343303", True),  # up to the left
        ("001122", False),  # three
        ("4041", False),
        ("3333334444445", False),  # two full columns of alternating stones
    ],
)
def test_lines_of_connect_four_by_hand(columns, lost):
    game = connect_four_game()
    state = positions.after(game, [[int(c) for c in columns]])
    _, look = contract.stepper(game)
    seen = look(state)
    assert bool(seen.over[0]) == lost
    assert float(seen.value[0]) == (-1.0 if lost else 0.0)
    full = [columns.count(str(c)) == 6 for c in range(7)]
    assert seen.legal[0].tolist() == [not lost and not x for x in full]


@pytest.mark.parametrize(
    ("actions", "over"),
    [
        ([4, 0, 1, 8, 7], True),  # the middle column of 3x3, from the top
        ([7, 0, 4, 8, 1], True),  # from the bottom
        ([2, 0, 4, 8, 6], True),  # the short diagonal joins top and bottom
        ([0, 2, 4, 6, 8], False),  # the long one does not
        ([1, 3, 0, 4, 8, 5], True),  # the second player's middle row
        ([0, 2, 1, 4, 8, 6], True),  # the short diagonal joins the sides, too
        ([3, 1, 4, 0, 5, 8], False),  # from side to side, but for the wrong player
    ],
)
def test_chains_of_hex_by_hand(actions, over):
    game = positions.hex_game(3)
    seen = contract.stepper(game)[1](positions.after(game, [actions]))
    assert (bool(seen.over[0]), float(seen.value[0])) == (over, -1.0 if over else 0.0)


def test_a_winding_chain_is_followed_to_its_end():
    """A chain that winds over the whole 13x13 board, joined to the top by its last stone."""
    size, snake, beside = 13, [], []
    for row in range(1, size):
        points = [row * size + col for col in range(size)]
        if row % 2:
            snake += points
        else:  # down on alternating sides
            snake.append(points.pop() if row % 4 == 2 else points.pop(0))
            beside += points
    beside = [*beside, *(p for p in range(size) if p != 6)][: len(snake)]
    order = [point for pair in zip(snake, beside, strict=True) for point in pair]
    game = positions.hex_game(size)
    over = contract.stepper(game)[1](positions.after(game, [order, [*order, 6]])).over
    assert over.tolist() == [False, True]


# --- random games ---------------------------------------------------------------------

NUM_ROLLOUTS = 20_000


def mean_of_rollouts(game, actions):
    evaluator = rollout_evaluator(game)
    state = positions.after(game, [actions])
    states = jax.tree.map(lambda x: np.repeat(np.asarray(x), NUM_ROLLOUTS, axis=0), state)
    run = jax.jit(lambda key, states: evaluator.evaluate(None, key, states).value)
    values = np.asarray(run(jax.random.key(3), states))
    return values.mean(), values.std() / NUM_ROLLOUTS**0.5


@pytest.mark.parametrize("columns", ["33024332421", "14020333310", "40320014322"])
def test_rollouts_of_connect_four_are_uniform(columns):
    actions = [int(column) for column in columns]
    reference = ConnectFour(5, 4)
    for action in actions:
        reference.play(action)
    mean, error = mean_of_rollouts(connect_four_game(5, 4), actions)
    expected = connect_four_expectation(reference)
    assert abs(expected) > 0.1
    assert abs(mean - expected) < 4 * error


@pytest.mark.parametrize("actions", [[0], [4, 0], [1, 4, 0], [4, 0, 1, 8]])
def test_rollouts_of_hex_are_uniform(actions):
    reference = Hex(3)
    for action in actions:
        reference.play(action)
    mean, error = mean_of_rollouts(positions.hex_game(3), actions)
    expected = hex_expectation(reference)
    assert abs(expected) > 0.1
    assert abs(mean - expected) < 4 * error


def test_a_rollout_that_does_not_end_counts_as_it_stands():
    endless = positions.hex_game(3)._replace(
        outcome=lambda state: (jnp.bool_(False), jnp.float32(0.5)),
        legal=lambda state: jnp.ones(9, bool),
    )
    states = jax.tree.map(lambda x: x[None], endless.init(jax.random.key(0)))
    value, _ = jax.jit(lambda s: rollouts(endless, s, jnp.zeros(1, jnp.uint32)))(states)
    assert value.tolist() == [-0.5]  # after nine moves the other player is to move


def test_rollouts_report_first_plays():
    size, rng, references = 4, random.Random(0), []
    while len(references) < 40:
        reference = Hex(size)
        for point in rng.sample(range(size * size), len(references) % 12):
            reference.play(point)
        if not reference.over():
            references.append(reference)
    game, seeds = positions.hex_game(size), np.arange(40, dtype=np.uint32)
    run = jax.jit(lambda states, seeds: rollouts(game, states, seeds, first_plays=True))
    result = map(np.asarray, run(positions.hex_states(references), seeds))
    for value, (movers, opponents), reference in zip(*result, references, strict=True):
        cells, mover = np.array(reference.cells), reference.to_play
        assert not (movers & opponents).any()
        assert not ((movers | opponents) & (cells != 0)).any()
        assert movers.sum() - opponents.sum() in (0, 1)
        cells[movers], cells[opponents] = mover, -mover
        reference.cells = cells.tolist()
        assert reference.joined(1) != reference.joined(-1)  # played to the end, no further
        assert value == (1.0 if reference.joined(mover) else -1.0)


def test_first_plays_of_an_action_that_comes_again():
    """In Connect Four a column is played often: "same" marks all who did, otherwise the first."""
    game = connect_four_game()
    states, seeds = contract.new_states(game, 64), np.arange(64, dtype=np.uint32)
    run = lambda kind: jax.jit(lambda: rollouts(game, states, seeds, first_plays=kind))()
    (value, first), (again, same) = run(True), run("same")
    np.testing.assert_array_equal(value, again)
    first, same = np.asarray(first), np.asarray(same)
    assert not first.all(axis=1).any()
    np.testing.assert_array_equal(first.any(axis=1), same.any(axis=1))
    assert (first <= same).all()
    assert same.all(axis=1).any()


@pytest.mark.slow
@pytest.mark.parametrize("game", ["connect_four_game()", "hex_game(5)"])
def test_rollouts_compile_as_users_have_them(game):
    """LLVM once crashed at this batch size with the vector width that commands use."""
    code = (
        "from gozero.apps import runtime; runtime.prepare(); import gozero, jax, numpy as np\n"
        "from gozero.games.rollouts import rollouts\n"
        f"game = gozero.{game}; keys = jax.random.split(jax.random.key(0), 50)\n"
        "run = lambda x: rollouts(game, x, np.arange(50, dtype=np.uint32))[0]\n"
        "print(jax.jit(run)(jax.vmap(game.init)(keys)).shape)"
    )
    own = {name: x for name, x in os.environ.items() if name not in _CHANGED}
    done = subprocess.run([sys.executable, "-c", code], env=own, capture_output=True, text=True)
    assert done.stdout == "(50,)\n", done.stderr[:500]


_CHANGED = ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR", "JAX_NUMPY_RANK_PROMOTION")
"""Environment variables that the suite sets differently from a user."""


def test_a_game_with_a_history_has_other_playouts():
    with pytest.raises(ValueError, match=r"^game: .*playout_evaluator"):
        rollout_evaluator(go_game(Rules(size=3)))


def test_bad_sizes():
    with pytest.raises(ValueError, match="height: 8"):
        connect_four_game(7, 8)
    with pytest.raises(ValueError, match="width: 9"):
        connect_four_game(9, 6)
    with pytest.raises(ValueError, match="size: 17"):
        hex_game(17)
