"""The Connect Four experiment at a tiny size, its solver, and its test positions."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

from experiments.connect_four import measure, readme, run
from experiments.connect_four.config import POSITIONS, ConnectFourConfig
from gozero.nets import network, weights
from gozero.play.player import policy_player
from tests.reference import connect_four_solver as solver
from tests.reference.connect_four import ConnectFour, values_of_moves

SETTINGS = {"simulations": 8, "playouts": 16, "games": 8, "positions": 8, "batch": 4}
TINY = [word for name, value in SETTINGS.items() for word in (f"--{name}", str(value))]


def test_the_solver_is_plain_minimax():
    """On boards that are two thirds full."""
    known = solver.Solver()
    for columns in solver.random_positions(40, 26, 38, seed=1):
        game = ConnectFour()
        for column in columns:
            game.play(column)
        assert known.results_of_moves(columns) == values_of_moves(game, {}), columns


def test_the_solver_by_hand():
    known = solver.Solver()
    # Three in the middle of the bottom row, open on both sides: every reply comes too late.
    assert known.result(*solver.after([2, 2, 3, 3, 4])) == -1
    # Three in a column, and it is that player's turn.
    assert known.result(*solver.after([3, 0, 3, 0, 3, 0])) == 1
    mine, all_ = solver.after([0, 1, 0, 1, 0, 1, 0])
    assert (solver.has_won(mine), solver.has_won(mine ^ all_)) == (False, True)
    with pytest.raises(ValueError, match="columns: 3 is full"):
        solver.after([3] * 7)


def test_positions():
    rows = json.loads(POSITIONS.read_text())
    assert len(rows) == 200
    known = solver.Solver()
    for row in rows:
        results = {int(column): result for column, result in row["results"].items()}
        assert len(row["columns"]) >= 12
        assert len(set(results.values())) > 1
        if len(row["columns"]) >= 22:
            assert known.results_of_moves(row["columns"]) == results
    assert len({tuple(row["columns"]) for row in rows}) == 200


@pytest.fixture
def weights_file(tmp_path):
    config = network.of_game(measure.GAME, blocks=1, channels=4)
    params = network.init(config, jax.random.key(0))
    return weights.save(tmp_path / "net.safetensors", params, config)


@pytest.mark.slow
def test_tiny(tmp_path, weights_file, capsys):
    """Measuring in two sessions gives the same results as in one."""
    argv = [*TINY, "--weights", str(weights_file), "--out", str(tmp_path / "out")]
    assert run.main(argv) == 0
    table = capsys.readouterr().out
    results = tmp_path / "out/results.json"
    whole = json.loads(results.read_text())["parts"]
    assert [part["positions"] for part in whole["positions"]] == [4, 4]
    assert sum(sum(part.values()) for part in whole["games"]) == 8
    cut = json.loads(results.read_text())
    cut["parts"]["games"].pop()
    cut["parts"]["positions"] = []
    results.write_text(json.dumps(cut))
    assert run.main(argv) == 0
    assert capsys.readouterr().out == table
    assert json.loads(results.read_text())["parts"] == whole
    assert run.main(argv) == 0
    assert capsys.readouterr().err == "estimate: a minute on two idle cores\n", (
        "nothing is measured"
    )


def test_results_are_for_the_player_who_begins():
    """The player who begins wins in the first column; below, the other player does."""
    first = policy_player(lambda params, key, turn: np.zeros(_count(turn), np.int32))
    second = policy_player(lambda params, key, turn: np.full(_count(turn), 1, np.int32))
    assert list(measure.games(first, second, 3, 2, seed=0)) == [
        {"won": 2, "drawn": 0, "lost": 0},
        {"won": 1, "drawn": 0, "lost": 0},
    ]

    def late(params, key, turn):
        """Plays in changing columns, until the other player has four."""
        stones = turn.states.own[0] | turn.states.own[1]
        return np.int32(1) + jax.lax.population_count(stones).astype(np.int32) % 3

    lost = list(measure.games(policy_player(late), first, 2, 2, seed=0))
    assert lost == [{"won": 0, "drawn": 0, "lost": 2}]


def _count(turn):
    return jax.tree.leaves(turn.states)[0].shape[0]


def test_a_missing_network(tmp_path, capsys):
    with pytest.raises(SystemExit):
        run.main(["--out", str(tmp_path)])
    assert "train it first with --minutes" in capsys.readouterr().err


def test_results_of_other_settings_are_not_replaced(tmp_path, weights_file, capsys, monkeypatch):
    """But those of the run's own network are, once it has learnt more."""
    monkeypatch.setattr(run, "measure_missing", lambda config, results: None)
    monkeypatch.setattr(run._Results, "table", lambda self: "")
    argv = [*TINY, "--weights", str(weights_file), "--out", str(tmp_path)]
    config = ConnectFourConfig(weights=weights_file, out=tmp_path, **SETTINGS)
    text = json.dumps({"about": run._about(config), "parts": {}})
    (tmp_path / run.RESULTS).write_text(text)
    assert run.main(argv) == 0
    with pytest.raises(SystemExit):
        run.main([*argv, "--seed", "1", "--games", "9"])
    assert "other flags: --games was 8 and is 9; --seed was 0 and is 1" in capsys.readouterr().err
    weights_file.write_bytes(b"another")
    with pytest.raises(SystemExit):
        run.main(argv)
    assert "other flags: --weights was " in capsys.readouterr().err
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "weights.safetensors").write_bytes(b"learnt")
    results = run._Results(ConnectFourConfig(out=tmp_path, **SETTINGS))
    assert results.all["about"]["weights"] != json.loads(text)["about"]["weights"]
    assert (tmp_path / run.RESULTS).read_text() == text
    with pytest.raises(SystemExit):
        run.main(["--seed", str(2**32)])
    assert "--seed 4294967296: expected from 0 to" in capsys.readouterr().err


def test_the_tables_by_hand(tmp_path):
    """Three of four positions right, and one of three games lost, in two parts each."""
    paths = [tmp_path / f"{name}.json" for name in ("first", "results")]
    parts = {
        "opening": [{"column": 3, "holds": True}],
        "positions": [{"positions": 2, "right": 2}, {"positions": 2, "right": 1}],
        "games": [{"won": 1, "drawn": 0, "lost": 0}, {"won": 1, "drawn": 0, "lost": 1}],
    }
    for path in paths:
        path.write_text(json.dumps({"parts": parts}))
    assert readme.measures(paths[0]).splitlines()[2:] == [
        "| opening | column 4 of 7 | the middle column | holds |",
        "| positions | 3 of 4, 75.0% | 95% | does not hold |",
        "| games | **2 won**, 0 drawn, 1 lost of 3 | none lost | does not hold |",
    ]
    assert readme.networks(*paths).splitlines()[2:] == [
        "| first | 75.0% | 1 of 3 |",
        "| now | 75.0% | 1 of 3 |",
    ]
