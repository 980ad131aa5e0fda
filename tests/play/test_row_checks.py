"""Checks of rows: real games pass, legal moves that differ from the slow rules' do not."""

from __future__ import annotations

import chex
import jax
import numpy as np
import pytest

from gozero.games.connect_four import connect_four_game
from gozero.games.go import go_game
from gozero.go import bitboard as bb
from gozero.go.rules import Position, Rules
from gozero.play import row_checks, shards
from gozero.play.rows import row_shapes
from gozero.play.shards import About, Place
from tests.reference.go import ReferenceGame
from tests.train.worker_runs import packed
from train import replay

COUNT = 40


def rows_of(rules, seed):
    """(rows of a random game, legal moves by the slow rules bool[n, A], the same without ko)."""
    rng, lay = np.random.default_rng(seed), bb.layout(rules.size)
    game, found = ReferenceGame(rules.size, rules.ko, rules.suicide), []
    while game.passes < 2 and game.moves < rules.move_limit and len(found) < COUNT:
        legal, board = np.asarray(game.legal()), np.asarray(game.board)
        could = [game.board_after(p) is not None for p in range(rules.num_points)]
        stones = (tuple(packed(lay, x)) for x in (board == 1, board == -1, game.in_atari()))
        position = Position(*stones, -1, game.moves, game.passes, game.moves % 2)
        found.append((position, legal, np.asarray([*could, True])))
        game.play(int(rng.choice(np.flatnonzero(legal[:-1]) if legal[:-1].any() else [len(board)])))
    positions, legal, could = zip(*found, strict=True)
    shapes = row_shapes(go_game(rules))
    rows = jax.tree.map(lambda x: np.zeros((len(found), *x.shape), x.dtype), shapes)
    put = lambda like, *x: np.asarray(x, like.dtype).reshape(-1, *like.shape)
    rows.policy_target[:, -1] = 255
    position = jax.tree.map(put, shapes.position, *positions)
    return rows.replace(position=position), np.stack(legal), np.stack(could)


@pytest.mark.parametrize(
    ("size", "suicide"),
    [
        (5, False),
        (5, True),
        *(
            pytest.param(n, s, marks=pytest.mark.thorough)
            for n in (2, 9, 19)
            for s in (False, True)
        ),
    ],
)
def test_legal_moves_match_the_slow_rules(size, suicide):
    """Under superko a row may lack a playable move, as it may be banned."""
    rules = Rules(size, "positional", suicide)
    rows, legal, could = rows_of(rules, seed=size)
    with_legal = lambda mask: rows.replace(legal=np.packbits(mask, axis=1))
    simple = Rules(size, "simple", suicide)
    assert complaint(rules, with_legal(legal)) == complaint(simple, with_legal(could)) == ""
    rng = np.random.default_rng(size)
    for row in range(len(legal)):
        for action in rng.permutation(size * size)[:4]:
            changed = could.copy()
            changed[row, action] ^= True
            refused = f"legal of row {row} is not the legal moves of its position"
            assert complaint(simple, with_legal(changed)) == refused
            assert complaint(rules, with_legal(changed)) == ("" if could[row, action] else refused)


def test_past_boards_round_trip_or_are_refused(tmp_path):
    """Boards of both players' stones, as many as precede the row, then empty ones."""
    rules = Rules(5)
    rows, legal, _ = rows_of(rules, seed=3)
    rows = replay.with_past(rows.replace(legal=np.packbits(legal, axis=1)), 4)
    rows = jax.tree.map(np.asarray, rows)
    assert rows.known.tolist() == [min(ply, 4) for ply in range(len(legal))]
    assert complaint(rules, rows) == ""
    path, record = shards.path_of(tmp_path, Place(0, "a")), shards.rules_of(rules)
    path.parent.mkdir()
    shards.write(path, record, About("a", 0, 1, 0, 1, len(legal)), rows, np.full(len(legal), 64))
    result = shards.read(path, record, past_boards=4).rows
    chex.assert_trees_all_equal(result.past, rows.past)
    chex.assert_trees_all_equal(shards.read_folder(tmp_path)[1].known, rows.known)
    for past_boards in (0, 3):
        with pytest.raises(ValueError, match="past"):
            shards.read(path, record, past_boards=past_boards)
    changed = lambda at, value: rows.replace(past=_with(rows.past, at, value))
    wrong = "past of row {} is not boards of both players' stones, empty before the game"
    assert complaint(rules, changed((2, 2, 0, 0), 1)) == wrong.format(2)  # before the game
    assert complaint(rules, changed((9, 1, 0, 0), 2**31)) == wrong.format(9)  # off the board
    both = changed((9, 1, 0), rows.past[9, 1, 1] | 1)
    both.past[9, 1, 1] |= np.uint32(1)
    assert complaint(rules, both) == wrong.format(9)
    assert "known of row 0" in complaint(rules, rows.replace(known=rows.known + 1))


def _with(array, at, value):
    array = array.copy()
    array[at] = value
    return array


def complaint(rules, rows):
    try:
        row_checks.check(rules, rows)
    except ValueError as error:
        return str(error)
    return ""


def test_another_game_checks_its_own_rows():
    game = connect_four_game()
    state = game.init(jax.random.key(0))
    for _ in range(6):
        state = game.play(state, np.int32(3))
    rows = jax.tree.map(lambda x: np.zeros((2, *x.shape), x.dtype), row_shapes(game))
    two = jax.tree.map(lambda x: np.stack([x, x]), jax.device_get(state))
    legal = np.packbits(np.ones((2, 7), bool) & (np.arange(7) != 3), axis=1)
    rows = rows.replace(position=two, legal=legal)
    rows.policy_target[:, 0] = 255
    row_checks.check(game, rows)
    assert "legal of row 1" in complaint(
        game, rows.replace(legal=legal ^ np.array([[0], [16]], np.uint8))
    )
    lost = two._replace(other=tuple(np.array([0, 15], word.dtype) for word in two.other))
    assert "position of row 1" in complaint(game, rows.replace(position=lost))
