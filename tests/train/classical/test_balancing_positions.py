"""Sources of the positions that simulation balancing trains on."""

import jax
import numpy as np
import pytest

from gozero.apps import sgf
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import setup
from train.classical.balancing import BalancingConfig
from train.classical.balancing_descent import _positions

MOVES = ((0, 4), (1, 0), (0, 1), (1, 9), (0, 3))  # the last captures
BOARDS = [  # before each move other than a pass, from the mover's perspective
    [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
    [[0, 0, 0], [0, -1, 0], [0, 0, 0]],
    [[-1, 0, 0], [0, 1, 0], [0, 0, 0]],
    [[-1, 1, 0], [0, 1, 0], [0, 0, 0]],
]


def config_of(tmp_path, **more):
    return BalancingConfig(out=tmp_path / "out.safetensors", **more)


def board_of(rules, position):
    black, white = (bb.unpack(rules.layout, x) for x in (position.black, position.white))
    return (np.asarray(black, int) - np.asarray(white, int)).reshape(3, 3).tolist()


def test_of_games(tmp_path):
    folder = tmp_path / "games"
    folder.mkdir()
    sgf.write(folder / "a.sgf", sgf.GameRecord(size=3, komi=1.5, moves=MOVES))
    sgf.write(folder / "b.sgf", sgf.GameRecord(size=5, komi=1.5, moves=((0, 4), (1, 6))))
    rules, positions, komi = _positions(config_of(tmp_path, sgf=folder, size=3, positions=9))
    assert rules.size == 3
    boards = [board_of(rules, jax.tree.map(lambda x, i=i: x[i], positions)) for i in range(4)]
    assert sorted(boards) == sorted(BOARDS)
    for board, komi_there, position in zip(boards, komi, range(4), strict=True):
        assert komi_there == (-1.5 if BOARDS.index(board) == 1 else 1.5)
        one = jax.tree.map(lambda x, i=position: x[i], positions)
        want = setup.from_stones(go.Rules(3, ko="simple"), np.array(board, np.int8)).position
        jax.tree.map(np.testing.assert_array_equal, one, want)


def test_invalid_flags(tmp_path):
    for flags in ({}, {"data": tmp_path, "sgf": tmp_path}):
        with pytest.raises(ValueError, match="give either --data, a folder of self-play, or --sgf"):
            config_of(tmp_path, **flags)
    with pytest.raises(ValueError, match=r"--sgf .*: there is no \*.sgf file"):
        _positions(config_of(tmp_path, sgf=tmp_path))
