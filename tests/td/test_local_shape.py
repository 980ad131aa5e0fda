"""Local shapes: the features, their weights, and the values of positions and moves."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from gozero.go import rules as go
from gozero.go import symmetry
from gozero.td import local_shape, shapes
from gozero.td.shapes import Shapes
from tests.go.boards import parse, positions_of, random_boards
from tests.reference import local_shape as plain
from tests.reference.go import BLACK, WHITE, ReferenceGame

DIGIT = np.array([shapes.EMPTY, shapes.BLACK, shapes.WHITE])  # by colour 0, +1, -1
SHAPES = Shapes(size=5)


# --- which features, and whose weights ------------------------------------------------


@pytest.mark.parametrize(
    ("size", "largest", "here", "both"),
    [
        # 1x1: a weight each for corner, edge and centre points; location-independent: one more.
        (3, 1, 3, 4),
        # 5x5 has six kinds of point.
        (5, 1, 6, 7),
        # 2x2: up to symmetry a square's corners have 21 colourings in three colours. Five are
        # their own opposites: empty, one of each (adjacent or diagonal) and two of each (adjacent
        # or diagonal). The other 16 are 8 pairs of opposites. And the corner's 1x1.
        (2, 2, 1 + 8, 2 * (1 + 8)),
    ],
)
def test_the_number_of_weights_by_hand(size, largest, here, both):
    assert shapes.sharing(Shapes(size, largest, anywhere=False)).num_weights == here
    assert shapes.sharing(Shapes(size, largest)).num_weights == both


def test_the_sizes_of_9x9():
    assert Shapes(9).num_windows == 81 + 64 + 49
    # Of 81, 64 and 49 places 15, 10 and 10 are distinct up to symmetry.
    assert shapes.windows(Shapes(9)).num_entries == 15 * 3 + 10 * 3**4 + 10 * 3**9


@pytest.mark.parametrize(
    ("size", "largest", "only"), [(3, 2, None), (3, 3, 4000), (4, 2, None), (5, 3, 3000)]
)
def test_windows_share_weights_as_the_plain_features_do(size, largest, only):
    """All contents of all windows, or a few thousand: (number, sign) matches (name, sign)."""
    chosen = Shapes(size, largest)
    places, share = shapes.windows(chosen), shapes.sharing(chosen)
    rng = np.random.default_rng(0)
    number_of, name_of = {}, {}
    contents = [
        (w, points, code)
        for w, points in enumerate(plain.windows(size, largest))
        for code in range(3 ** len(points))
    ]
    if only is not None:
        contents = [contents[i] for i in rng.permutation(len(contents))[:only]]
    for w, points, code in contents:
        board = np.zeros(size * size, int)
        board[points] = np.array([0, 1, -1])[code // 3 ** np.arange(len(points)) % 3]
        entry = places.base[w] + (DIGIT[board][places.points[w]] * places.powers[w]).sum()
        result = plain.both_features(board, size, points)
        for row, (name, sign) in zip(share.weight_index, result, strict=True):
            weight = int(row[entry])
            assert (weight == 0) == (sign == 0)
            if sign:
                assert number_of.setdefault(name, weight * sign) == weight * sign
                assert name_of.setdefault(abs(weight), name) == name
    if only is None:
        assert len(name_of) == share.num_weights
        assert sorted(name_of) == list(range(1, share.num_weights + 1))


# --- values ---------------------------------------------------------------------------


@functools.cache
def weights_of(chosen: Shapes) -> np.ndarray:
    """f32[K + 1]: random weights; weight 0 is zero."""
    share = shapes.sharing(chosen)
    weights = np.random.default_rng(1).normal(size=share.num_weights + 1).astype(np.float32)
    weights[0] = 0
    return weights / 4


class ByName(dict):
    """The same weights by plain names, added as positions are seen."""

    def learn(self, chosen: Shapes, board: list[int]) -> list[tuple]:
        """Returns the active features of a board, after adding their weights."""
        places, share = shapes.windows(chosen), shapes.sharing(chosen)
        digits = DIGIT[np.array(board)]
        active = (digits[places.points] * places.powers).sum(1) + places.base
        for entry, points in zip(active, plain.windows(chosen.size, chosen.largest), strict=True):
            result = plain.both_features(board, chosen.size, points)
            for row, (name, sign) in zip(share.weight_index, result, strict=True):
                number = int(row[entry])
                self[name] = sign * np.sign(number) * float(weights_of(chosen)[abs(number)])
        return plain.features(board, chosen.size, chosen.largest)


@functools.cache
def compiled(rules: go.Rules, chosen: Shapes):
    """(table, positions [B]) -> (values f32[B], logits after each action f32[B, A])."""

    def run(table, positions):
        values = jax.vmap(lambda p: local_shape.value(chosen, table, p))(positions)
        return values, local_shape.action_logits(rules, chosen, table, positions)

    return jax.jit(run)


def after_each(size: int, board: list[int], colour: int, suicide: bool = False) -> dict:
    """{action: the board after it} for the legal actions, ignoring ko, and the pass."""
    game = ReferenceGame(size, suicide=suicide)
    game.board, game.to_play = board, colour
    result = {point: game.board_after(point) for point in range(size * size)}
    return {**{p: b for p, b in result.items() if b is not None}, size * size: board}


def num_captures(board: list[int], after: dict) -> int:
    """The number of moves that capture."""
    stones = np.count_nonzero(board)
    return sum(b != board and np.count_nonzero(b) <= stones for b in after.values())


def with_captures(size: int, count: int, colours: list[int], seed: int) -> list[list[int]]:
    """Boards with the most captures for the player to move, among ten times `count` boards."""
    boards = random_boards(size, 10 * count, seed)
    number = lambda board, colour: num_captures(board, after_each(size, board, colour))
    best = {c: sorted(boards, key=lambda b, c=c: -number(b, c)) for c in set(colours)}
    return [best[colour].pop(0) for colour in colours]


@pytest.mark.parametrize("suicide", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_values_of_positions_and_of_all_moves_are_the_plain_ones(suicide):
    rules, count = go.Rules(size=5, suicide=suicide), 24
    table = local_shape.table(SHAPES, weights_of(SHAPES))
    colours = [BLACK, WHITE] * (count // 2)
    boards = with_captures(5, count, colours, seed=3)
    values, logits = compiled(rules, SHAPES)(table, positions_of(5, boards, colours))
    by_name, captures = ByName(), 0
    for i, (board, colour) in enumerate(zip(boards, colours, strict=True)):
        expected = plain.value(by_name, by_name.learn(SHAPES, board))
        np.testing.assert_allclose(values[i], expected, rtol=1e-5, atol=1e-6)
        assert 0 < values[i] < 1
        after = after_each(5, board, colour, suicide)
        captures += num_captures(board, after)
        expected = [plain.logit(by_name, by_name.learn(SHAPES, b)) for b in after.values()]
        np.testing.assert_allclose(logits[i, list(after)], expected, rtol=1e-4, atol=1e-4)
    assert captures > 2 * count


@pytest.mark.slow
def test_values_on_9x9_are_the_plain_ones():
    rules, chosen, count = go.Rules(size=9), Shapes(9), 24
    table = local_shape.table(chosen, weights_of(chosen))
    boards = random_boards(9, count, seed=4)
    colours = [BLACK, WHITE] * (count // 2)
    _, logits = compiled(rules, chosen)(table, positions_of(9, boards, colours))
    by_name = ByName()
    for i, (board, colour) in enumerate(zip(boards, colours, strict=True)):
        after = after_each(9, board, colour)
        expected = [plain.logit(by_name, by_name.learn(chosen, b)) for b in after.values()]
        np.testing.assert_allclose(logits[i, list(after)], expected, rtol=1e-4, atol=2e-4)


def test_values_are_symmetric_and_change_sign_with_colours():
    rules, count = go.Rules(size=5), 24
    table = local_shape.table(SHAPES, weights_of(SHAPES))
    boards = random_boards(5, count, seed=5)
    colours = [BLACK, WHITE] * (count // 2)
    run = compiled(rules, SHAPES)
    values, logits = run(table, positions_of(5, boards, colours))
    legal = np.zeros(logits.shape, bool)
    for i, (board, colour) in enumerate(zip(boards, colours, strict=True)):
        legal[i, list(after_each(5, board, colour))] = True
    assert np.abs(values - 0.5).max() > 0.1
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=2e-5)
    for table_of_points in symmetry.permutations(5):
        turned = np.array(boards)[:, table_of_points[:-1]].tolist()
        new_values, new_logits = run(table, positions_of(5, turned, colours))
        close(new_values, values)
        moved = np.asarray(logits)[:, table_of_points]
        close(np.where(legal[:, table_of_points], new_logits - moved, 0.0), 0.0)
    swapped = (-np.array(boards)).tolist()
    new_values, new_logits = run(table, positions_of(5, swapped, [-c for c in colours]))
    close(new_values, 1 - values)
    close(np.where(legal, new_logits + logits, 0.0), 0.0)


def test_a_stone_is_worth_its_windows_by_hand():
    """Two opposite corner stones on 3x3, with 1x1 and 2x2 windows, counted by hand."""
    chosen = Shapes(3, largest=2, anywhere=False)
    share = shapes.sharing(chosen)
    weights = np.zeros(share.num_weights + 1, np.float32)
    board = parse("X.. ... ..O")
    by_place = plain.features(board, 3, 2, both=False)
    # The stones have two 1x1 and two 2x2 features, which are each other's opposites.
    assert len(by_place) == 4
    assert sorted(sign for _, sign in by_place) == [-1, -1, 1, 1]
    position = jax.tree.map(lambda x: x[0], positions_of(3, [board], [BLACK]))
    active = local_shape.entries(chosen, position.black, position.white)
    held = np.abs(share.weight_index[0][np.asarray(active)])
    assert np.count_nonzero(held) == 4
    assert len(set(held[held > 0])) == 2
    weights[held[held > 0]] = [1.0, 1.0, 0.5, 0.5]
    assert float(local_shape.value(chosen, local_shape.table(chosen, weights), position)) == 0.5


def test_one_stone_by_hand():
    """Black's corner stone has a 1x1 and a 2x2 window; White's the opposites of the same."""
    chosen = Shapes(3, largest=2, anywhere=False)
    share = shapes.sharing(chosen)
    weights = np.zeros(share.num_weights + 1, np.float32)
    boards = [parse("X.. ... ..."), parse("O.. ... ...")]
    black, white = (
        jax.tree.map(lambda x, i=i: x[i], positions_of(3, boards, [BLACK] * 2)) for i in (0, 1)
    )
    table_of = lambda: local_shape.table(chosen, weights)
    active = np.asarray(local_shape.entries(chosen, black.black, black.white))
    index = share.weight_index[0][active]
    weights[np.abs(index[index != 0])] = np.sign(index[index != 0]) * np.array([1.0, 0.5])
    win = 1 / (1 + np.exp(-1.5))
    assert float(local_shape.value(chosen, table_of(), black)) == pytest.approx(win)
    assert float(local_shape.value(chosen, table_of(), white)) == pytest.approx(1 - win)


def test_windows_larger_than_the_board_are_refused():
    with pytest.raises(ValueError, match="largest: 3 is not from 1 to 2"):
        Shapes(2)
    with pytest.raises(ValueError, match="largest: 4"):
        Shapes(9, largest=4)
