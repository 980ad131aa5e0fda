"""Sources of the positions that simulation balancing trains on."""

import jax
import numpy as np
import pytest

from gozero.apps import sgf
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import setup
from gozero.playouts.policies.softmax import strengths
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


@pytest.mark.thorough
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
    with pytest.raises(ValueError, match="usable positions are of 1 game; expected at least 2"):
        _draw(config_of(tmp_path, sgf=tmp_path, positions=2), np.zeros(9, int))
    with pytest.raises(ValueError, match="--positions 2: the positions drawn are all of one game"):
        _draw(config_of(tmp_path, sgf=tmp_path, positions=2), np.array([0] * 99 + [1]))


def test_games_without_komi_are_skipped_or_take_the_given_one(tmp_path, capsys):
    (tmp_path / "a.sgf").write_text(
        "(;SZ[3]KM[1.5];B[aa];W[bb])(;SZ[3];B[aa];W[bb])(;SZ[3]KM[0];B[ba])"
    )
    drawn = _positions(config_of(tmp_path, sgf=tmp_path, size=3))
    assert sorted(np.abs(drawn.komi).tolist()) == [0, 1.5, 1.5]
    assert "skipped: a game without komi; give it with --komi" in capsys.readouterr().err
    drawn = _positions(config_of(tmp_path, sgf=tmp_path, size=3, komi=0.5))
    assert sorted(drawn.komi.tolist()) == [-1.5, -0.5, 0, 0.5, 1.5]
    assert not capsys.readouterr().err


@pytest.mark.thorough
def test_the_command_balances_the_named_features(tmp_path, capsys):
    for number in range(4):
        game = sgf.GameRecord(size=3, komi=0.5, moves=MOVES[: 2 + number % 3])
        sgf.write(tmp_path / f"{number}.sgf", game)
    out = tmp_path / "out.safetensors"
    flags = f"--sgf {tmp_path} --size 3 --simulations 8 --steps 2 --value-playouts 8"
    flags += f" --gradient-playouts 8 --features shape contiguity --start mm_9 --out {out}"
    assert main(flags.split()) == 0
    assert "held out: squared bias" in capsys.readouterr().out
    start, (found, about) = strengths.load("mm_9")[0], strengths.load(out)
    assert about["command"] == ["python -m train.classical.balancing", *flags.split()]
    changed = {
        name for name in found._fields if (getattr(found, name) != getattr(start, name)).any()
    }
    assert changed == {"shape", "contiguity"}
    assert found.self_atari == 1


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
