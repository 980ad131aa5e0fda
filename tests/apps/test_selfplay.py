"""``gozero selfplay`` from end to end: files, records, determinism, bad input, interruption."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import chex
import numpy as np
import pytest
from sgfmill import boards, sgf

from gozero.apps import cli
from gozero.apps.selfplay import play as app
from gozero.apps.selfplay import writer as app_writer
from gozero.apps.selfplay.config import SelfPlayFlags
from gozero.go import coords
from gozero.go.rules import Rules
from gozero.play import shards
from gozero.play.player import as_game
from gozero.runs import memory
from gozero.search.move_choice import Temperature
from tests.attack.selfplay_runs import compile_once
from tests.reference.go import ReferenceGame

ROOT = pathlib.Path(__file__).parents[2]
SIZE, GAMES = 5, 6
FLAGS = (
    *("--size", "5", "--games", "6", "--simulations", "8", "--batch", "4"),
    *("--komi", "5.5", "--evaluator", "playout"),
)


def selfplay(out, *more, seed=3):
    """Run ``gozero selfplay``; returns the exit status."""
    try:
        return cli.main(["selfplay", *FLAGS, "--seed", str(seed), "--out", str(out), *more])
    except SystemExit as stop:
        return stop.code


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    with pytest.MonkeyPatch.context() as patch:
        compile_once(patch.setattr)
        yield


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("selfplay") / "run"
    assert selfplay(out) == 0
    return out


def test_every_flag_reaches_the_settings_and_the_rules(monkeypatch):
    asked = []
    monkeypatch.setattr(app, "make_evaluator", lambda *args, **more: asked.append((args, more)))
    monkeypatch.setattr(app.searches, "puct_search", lambda *args: args)
    monkeypatch.setattr(app, "in_symmetries", lambda *args: args)
    monkeypatch.setattr(app, "SelfPlayConfig", dict)
    flags = {
        **{"games": 6, "batch": 4, "seed": 3, "size": 5, "komi": 5.5, "ko": "situational"},
        **{"suicide": True, "max_moves": 30, "features": "zero", "dtype": "bfloat16"},
        **{"symmetries": "all"},
        **{"simulations": 8, "reuse_subtree": True, "temperature_moves": 7},
    }
    config = SelfPlayFlags(**flags)
    rules = app._rules(config)
    assert rules == Rules(5, ko="situational", suicide=True, max_moves=30, remember=True)
    settings, in_mode = app._settings(config, rules)
    game = as_game(rules)
    assert in_mode == (rules, None, "all")
    assert asked == [((rules, "network", None, 3, "zero"), {"dtype": "bfloat16"})]
    assert settings == {
        **{"game": game, "batch": 4, "search": (game, in_mode, 8, True), "komi": 5.5},
        **{
            "num_games": 6,
            "temperature": Temperature(moves=7),
            "reuse_subtree": True,
            "stagger": 0,
        },
    }
    other = dataclasses.replace(config, batch=9, ko="simple", features=None)
    assert app._rules(other) == Rules(5, ko="simple", suicide=True, max_moves=30, remember=False)
    assert app._settings(other, rules)[0]["batch"] == 6  # no more than there are games
    hex_flags = SelfPlayFlags(game="hex", size=4)
    assert app._settings(hex_flags, app._rules(hex_flags))[0]["komi"] == ()


@pytest.mark.thorough
def test_no_game_is_longer_than_the_move_limit(tmp_path):
    assert selfplay(tmp_path / "run", "--max-moves", "6") == 0
    games = [sgf.Sgf_game.from_bytes(x.read_bytes()) for x in (tmp_path / "run/games").iterdir()]
    lengths = [len(game.get_main_sequence()) - 1 for game in games]
    assert len(lengths) == GAMES
    assert max(lengths) == 6


@pytest.mark.thorough
def test_a_full_disk_is_one_line_and_keeps_complete_files(tmp_path, monkeypatch, capsys):
    write, written = app_writer.sgf.write, []

    def full(path, record):
        if len(written) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        written.append(path)
        write(path, record)

    monkeypatch.setattr(app_writer.sgf, "write", full)
    out = tmp_path / "run"
    assert selfplay(out) == 1
    stderr = capsys.readouterr().err
    assert "compiling for 5x5, about 10 s the first time\n" in stderr
    assert "\ncompiled in " in stderr
    assert f"gozero selfplay: out: {out} cannot be written (No space left on device); " in stderr
    assert sorted((out / "games").iterdir()) == sorted(written)


@pytest.mark.parametrize("evaluator", ["network", "playout"])
def test_random_weights_are_announced(evaluator, tmp_path, monkeypatch, capsys):
    def stop(*_):
        raise RuntimeError("no further")

    monkeypatch.setattr(app, "_compile", stop)
    with pytest.raises(RuntimeError, match="no further"):
        selfplay(tmp_path / "run", "--evaluator", evaluator)
    stderr = (
        "no --weights: the network has random weights and knows nothing of Go"
        in capsys.readouterr().err
    )
    assert stderr == (evaluator == "network")


def test_reuse_enlarges_the_capacity():
    flags = SelfPlayFlags(size=5, simulations=8, evaluator="playout", reuse_subtree=True)
    settings, _ = app._settings(flags, app._rules(flags))
    assert settings.reuse_subtree
    assert settings.search.num_nodes == 17


@pytest.fixture(scope="module")
def rows(run_folder):
    rules, rows, _ = shards.read_folder(run_folder)
    assert rules == shards.rules_of(Rules(SIZE))
    return rows


def test_records_of_the_run(run_folder):
    config = json.loads((run_folder / "config.json").read_text())
    assert set(config) == {field.name for field in dataclasses.fields(SelfPlayFlags)}
    assert (config["games"], config["seed"], config["komi"]) == (GAMES, 3, 5.5)
    manifest = json.loads((run_folder / "manifest.json").read_text())
    assert manifest["state"] == "complete"
    assert manifest["games"] == GAMES
    assert manifest["black"] + manifest["white"] + manifest["drawn"] == GAMES
    assert manifest["evaluator"] == "playout"
    assert {"jax", "device", "seed", "command"} <= set(manifest)
    lines = (run_folder / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    assert metrics[-1]["games"] == GAMES
    assert [m["moves"] for m in metrics] == sorted(m["moves"] for m in metrics)
    assert not list(run_folder.rglob("*.part"))


@pytest.mark.parametrize("number", range(GAMES))
def test_games_are_legal_and_record_how_they_ended(run_folder, number):
    game = sgf.Sgf_game.from_bytes((run_folder / "games" / f"{number:06d}.sgf").read_bytes())
    root = game.get_root()
    assert game.get_size() == SIZE
    assert game.get_komi() == 5.5
    assert root.get("RU") == "Chinese"
    plain, mill = ReferenceGame(SIZE), boards.Board(SIZE)
    for node in game.get_main_sequence()[1:]:
        colour, move = node.get_move()
        assert colour == ("b" if plain.to_play == 1 else "w")
        if move is not None:
            mill.play(*move, colour)
        row_col = None if move is None else (SIZE - 1 - move[0], move[1])
        action = SIZE**2 if row_col is None else row_col[0] * SIZE + row_col[1]
        assert plain.is_legal(action), coords.to_gtp(SIZE, action)
        plain.play(action)
    score = plain.area() - 5.5
    assert mill.area_score() == plain.area()
    assert root.get("RE") == f"{'B' if score > 0 else 'W'}+{abs(score):g}"
    assert (plain.passes >= 2) != ("move limit" in root.get("C"))


def test_rows_match_the_games(run_folder, rows):
    for number in range(GAMES):
        of_game = np.flatnonzero(rows.game == number)
        game = sgf.Sgf_game.from_bytes((run_folder / "games" / f"{number:06d}.sgf").read_bytes())
        assert len(of_game) == len(game.get_main_sequence()) - 1
        winner = game.get_winner()
        for i in of_game:
            for_black = {"b": 1, "w": -1}[winner]
            assert rows.outcome[i] == (for_black if rows.position.to_play[i] == 0 else -for_black)
            assert np.sign(rows.score[i]) == rows.outcome[i]
            area = np.unpackbits(rows.area[i].view(np.uint8), axis=1).sum(axis=1).astype(int)
            assert area[0] - area[1] - 5.5 == rows.score[i] * for_black * rows.outcome[i]
    legal = np.unpackbits(rows.legal, axis=1, count=SIZE**2 + 1).astype(bool)
    assert legal.shape == rows.policy_target.shape
    assert legal[:, -1].all()
    assert (rows.policy_target[~legal] == 0).all()
    assert (rows.policy_target.max(axis=1) == 255).all()
    assert (rows.komi == 5.5).all()
    np.testing.assert_array_equal(rows.ownership_weight, rows.value_weight)


def test_same_seed_same_games(run_folder, tmp_path, capsys):
    assert selfplay(tmp_path / "again") == 0
    printed = capsys.readouterr()
    assert f"{GAMES} games" in printed.out
    assert "simulations/s" in printed.out
    assert "MiB" in printed.err
    for path in sorted((run_folder / "games").iterdir()):
        assert path.read_bytes() == (tmp_path / "again" / "games" / path.name).read_bytes()
    first, again = shards.read_folder(run_folder)[1], shards.read_folder(tmp_path / "again")[1]
    chex.assert_trees_all_equal(first, again)


def test_other_seed_other_games(run_folder, tmp_path):
    assert selfplay(tmp_path / "other", seed=4) == 0
    names = [f"{i:06d}.sgf" for i in range(GAMES)]
    same = [
        (run_folder / "games" / n).read_bytes() == (tmp_path / "other" / "games" / n).read_bytes()
        for n in names
    ]
    assert not all(same)


BAD = {
    "an unknown flag": (["--sims", "8"], "--sims"),
    "a size too small": (["--size", "1"], "--size 1"),
    "a size too large": (["--size", "26"], "--size 26"),
    "no lanes": (["--batch", "0"], "--batch 0"),
    "no simulations": (["--simulations", "0"], "--simulations 0"),
    "no games": (["--games", "0"], "--games 0"),
    "no number": (["--games", "many"], "--games"),
    "a komi that is none": (["--komi", "0.3"], "--komi 0.3"),
    "a komi beyond reason": (["--komi", "1e39"], "--komi 1e+39"),
    "a seed below 0": (["--seed", "-1"], "--seed"),
    "a seed too large": (["--seed", "99999999999999999999"], "--seed"),
    "more games than numbers": (["--games", "3000000000"], "--games"),
    "more rows than numbers": (
        ["--games", "99999999", "--batch", "99999999", "--simulations", "999"],
        "batch",
    ),
    "missing weights": (["--evaluator", "network", "--weights", "no.npz"], "no.npz"),
    "weights for playouts": (["--weights", "no.npz"], "weights"),
    "an unknown evaluator": (["--evaluator", "oracle"], "--evaluator"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(case, tmp_path, capsys):
    arguments, says = BAD[case]
    out = tmp_path / "run"
    status = selfplay(out, *arguments)
    printed = capsys.readouterr()
    assert status == 2
    *before, complaint = printed.err.strip().splitlines()
    assert all(
        line.startswith("compiling for ") for line in before
    )  # for errors that only JAX finds
    assert says in complaint
    assert complaint.startswith("gozero selfplay: ")
    assert not out.exists()


def test_trees_that_do_not_fit_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memory, "of_device", lambda num_devices: 1000)
    assert selfplay(tmp_path / "run") == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert re.match(r"gozero selfplay: \d+ trees of .* MiB: lower --batch", complaint)
    assert not (tmp_path / "run").exists()


def test_a_nonempty_folder_is_left_unchanged(run_folder, capsys):
    before = {path: path.stat().st_mtime_ns for path in run_folder.rglob("*")}
    assert selfplay(run_folder) == 2
    assert "not empty" in capsys.readouterr().err
    assert before == {path: path.stat().st_mtime_ns for path in run_folder.rglob("*")}


def test_a_folder_that_cannot_be_made(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert selfplay(tmp_path / "file" / "run") == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.thorough
def test_ctrl_c_keeps_every_finished_game(tmp_path, as_here):
    out = tmp_path / "run"
    flags = [*FLAGS, "--games", "5000", "--out", str(out)]
    command = [sys.executable, "-m", "gozero.apps.cli", "selfplay", *flags]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=as_here,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while len(list(out.glob("games/*.sgf"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    finished = len(list(out.glob("games/*.sgf")))
    assert 5 <= finished < 5000
    assert f"{finished} games of 5000 (stopped" in stdout
    assert str(out / "games") in stdout
    assert len(np.unique(shards.read_folder(out)[1].game)) == finished
    assert json.loads((out / "manifest.json").read_text())["state"] == "stopped"


def selfplay_of(game, out, *more):
    command = ["selfplay", "--game", game, "--games", "3", "--batch", "2", "--simulations", "4"]
    return cli.main([*command, "--evaluator", "playout", "--out", str(out), *more])


def test_compilation_is_announced_before_jax_is_imported(tmp_path):
    """Importing JAX takes seconds when its files are not cached."""
    code = """
import sys, types
from gozero.apps import cli
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "jax":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Blocked())
sys.exit(cli.main(sys.argv[1:]))
"""
    out = ["--out", str(tmp_path / "run")]
    network = ["--player.evaluator", "network", "--opponent.simulations", "2"]
    for command, expected in {
        ("selfplay", *out): [
            "no --weights: the network has random weights and knows nothing of Go"
        ],
        ("selfplay", "--game", "hex", "--evaluator", "playout", *out): [],
        ("match", *network, *out): [
            "player: no --player.weights: the network has random weights and"
        ],
        ("match", "--game", "hex", "--player.leaves", "1", "--opponent.leaves", "2", *out): [],
    }.items():
        run = [sys.executable, "-c", code, *command]
        done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT)
        *lines, compiling, stopped = done.stderr.splitlines()
        assert all(line.startswith(start) for line, start in zip(lines, expected, strict=True))
        assert compiling.startswith("compiling for ")
        assert compiling.endswith(" s the first time")
        assert stopped == "gozero: stopped"


@pytest.mark.thorough
def test_another_game_is_written_as_text_and_rows(tmp_path, capsys):
    out = tmp_path / "run"
    assert selfplay_of("hex", out, "--size", "3") == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("compiling for hex, about 15 s the first time\n")
    assert "the first player won " in captured.out
    assert "Black" not in captured.out
    captured, rows, _ = shards.read_folder(out)
    assert captured == {"game": "hex", "size": 3}
    assert rows.komi is None
    paths = sorted((out / "games").iterdir())
    assert [path.name for path in paths] == ["000000.txt", "000001.txt", "000002.txt"]
    for number, path in enumerate(paths):
        heading, moves, result = path.read_text().splitlines()
        assert heading == f"hex, self-play of gozero rollout 4 sims, game {number}"
        of_game = rows.game == number
        assert len(moves.split()) == of_game.sum()
        last = np.flatnonzero(of_game)[-1]
        assert rows.outcome[last] == 1  # the last to move in Hex wins
        assert result == f"the {'first' if len(moves.split()) % 2 else 'second'} player won"
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["black"] + manifest["white"] == 3


@pytest.mark.parametrize(
    ("game", "more", "says"),
    [
        ("chess", (), "game: 'chess' is not one of go, connect4, hex, pgx:NAME"),
        ("connect4", ("--size", "7"), "size: connect4 comes in one size; leave it out"),
        ("hex", ("--komi", "5"), "--komi"),
    ],
)
def test_another_game_is_refused_in_a_line(tmp_path, capsys, game, more, says):
    with pytest.raises(SystemExit) as stop:
        selfplay_of(game, tmp_path / "run", *more)
    line = capsys.readouterr().err
    assert stop.value.code == 2
    assert says in line
    assert line.count("\n") == 1
    assert not (tmp_path / "run").exists()
