"""What rows may be: those of real games are, and by the slow rules no other legal moves are."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from gozero.games.connect_four import connect_four_game
from gozero.games.go import go_game
from gozero.go import bitboard as bb
from gozero.go.rules import Position, Rules
from gozero.play import row_checks
from gozero.play.rows import row_shapes
from tests.reference.go import ReferenceGame
from tests.train.worker_runs import packed

COUNT = 40


def rows_of(rules, seed):
    """(rows of a random game, what the slow rules allow bool[n, A], and if there were no ko)."""
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
    rows.policy_target[:, -1] = 1
    position = jax.tree.map(put, shapes.position, *positions)
    return rows.replace(position=position), np.stack(legal), np.stack(could)


@pytest.mark.parametrize("suicide", [False, True])
@pytest.mark.parametrize("size", [2, 5, 9, 19])
def test_legal_moves_are_those_of_the_slow_rules(size, suicide):
    """Under superko a row may lack what could be played, for it may be banned."""
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


def complaint(rules, rows):
    try:
        row_checks.check(rules, rows)
    except ValueError as error:
        return str(error)
    return ""


def test_another_game_is_asked_itself():
    game = connect_four_game()
    state = game.init(jax.random.key(0))
    for _ in range(6):
        state = game.play(state, np.int32(3))
    rows = jax.tree.map(lambda x: np.zeros((2, *x.shape), x.dtype), row_shapes(game))
    two = jax.tree.map(lambda x: np.stack([x, x]), jax.device_get(state))
    legal = np.packbits(np.ones((2, 7), bool) & (np.arange(7) != 3), axis=1)
    rows = rows.replace(position=two, legal=legal)
    rows.policy_target[:, 0] = 1
    row_checks.check(game, rows)
    assert "legal of row 1" in complaint(
        game, rows.replace(legal=legal ^ np.array([[0], [16]], np.uint8))
    )
    lost = two._replace(other=tuple(np.array([0, 15], word.dtype) for word in two.other))
    assert "position of row 1" in complaint(game, rows.replace(position=lost))
