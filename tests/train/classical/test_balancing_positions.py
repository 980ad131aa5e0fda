"""Sources of the positions that simulation balancing trains on."""

import jax
import numpy as np
import pytest

from gozero.apps import sgf
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import setup
from train.classical import choices
from train.classical.balancing import BalancingConfig
from train.classical.balancing_descent import _draw, _positions, main

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
    sgf.write(folder / "c.sgf", sgf.GameRecord(size=3, komi=0.5, moves=((0, 8), (1, 7))))
    drawn = _positions(config_of(tmp_path, sgf=folder, size=3, positions=9))
    rules, is_first = drawn.rules, np.abs(drawn.komi) == 1.5
    positions, komi = choices.take((drawn.positions, drawn.komi), is_first)
    assert rules.size == 3
    boards = [board_of(rules, jax.tree.map(lambda x, i=i: x[i], positions)) for i in range(4)]
    assert sorted(boards) == sorted(BOARDS)
    for board, komi_there, position in zip(boards, komi, range(4), strict=True):
        assert komi_there == (-1.5 if BOARDS.index(board) == 1 else 1.5)
        one = jax.tree.map(lambda x, i=position: x[i], positions)
        want = setup.from_stones(go.Rules(3, ko="simple"), np.array(board, np.int8)).position
        jax.tree.map(np.testing.assert_array_equal, one, want)


def test_whole_games_are_held_out(tmp_path):
    game = np.repeat(np.arange(8), np.arange(1, 9))
    chosen, is_held_out = _draw(config_of(tmp_path, sgf=tmp_path, positions=30), game)
    assert len(set(chosen)) == 30
    held, others = set(game[chosen][is_held_out]), set(game[chosen][~is_held_out])
    assert (len(held), held & others) == (2, set())
    with pytest.raises(ValueError, match="--positions 2: the positions drawn are of 1 games"):
        _draw(config_of(tmp_path, sgf=tmp_path, positions=2), np.zeros(9, int))


def test_invalid_flags(tmp_path):
    for flags in ({}, {"data": tmp_path, "sgf": tmp_path}):
        with pytest.raises(ValueError, match="give either --data, a folder of self-play, or --sgf"):
            config_of(tmp_path, **flags)
    with pytest.raises(ValueError, match=r"--sgf .*: there is no \*.sgf file"):
        _positions(config_of(tmp_path, sgf=tmp_path))


def test_a_size_beside_the_run_that_tells_it_is_refused(tmp_path, capsys):
    flags = ["--data", str(tmp_path), "--size", "5", "--out", str(tmp_path / "a.safetensors")]
    with pytest.raises(SystemExit, match="2"):
        main(flags)
    assert "--size 5: not with --data; the run tells its board's size" in capsys.readouterr().err
