"""Sweeps: pieces, resuming after a kill, refusals, and what is written."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import pathlib
import sys
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.sweeps import anchors, plot, results, run, speed
from experiments.sweeps.config import SweepConfig
from experiments.sweeps.folder import Piece, SweepFolder
from experiments.sweeps.points import Change, Contestant, Point, Sweep
from gozero.go import scoring
from gozero.go.rules import Rules
from gozero.play.player import random_player
from gozero.play.player_config import PlayerConfig
from gozero.playouts.policies.softmax import strengths
from gozero.runs import memory, statistics
from gozero.search.game import Evaluation

ROOT = pathlib.Path(__file__).parents[2]
FLAGS = PlayerConfig(search="uct", simulations=8)


def evaluate_by_area(rules, setup):
    """Evaluate by the area score of the board, which compiles faster than playouts."""

    def observe(state, position, ancestors):
        ahead = scoring.area_difference(rules, position) - state.komi
        return jnp.where(position.to_play == 0, ahead, -ahead)

    def evaluate(params, key, ahead):
        return Evaluation(jnp.zeros((ahead.shape[0], rules.num_actions)), jnp.tanh(ahead / 5))

    return setup._replace(evaluator=setup.evaluator._replace(observe=observe, evaluate=evaluate))


SCRIPTED = " ".join([sys.executable, "-S", str(ROOT / "tests/apps/scripted.py"), "{game}"])
"""An engine that always passes."""

BY_AREA = Contestant(FLAGS, change=Change("area", evaluate_by_area))


def sweep_of(*labels, flags=FLAGS):
    player = Contestant(flags)
    points = [
        Point("curve", float(x), label, player, player, x == 0) for x, label in enumerate(labels)
    ]
    return Sweep("test", tuple(points), "title", "x")


def config_of(path, **more):
    return SweepConfig(**{"games": 8, "parallel": 4, "size": 5, "out": path} | more)


@pytest.fixture
def random_play(monkeypatch):
    """Have every contestant play at random; returns a list of the pieces played."""
    played = []
    play_piece = run.play_piece

    def count(rules, config, players, point, number, progress):
        played.append((point.label, number))
        return play_piece(rules, config, players, point, number, progress)

    monkeypatch.setattr(Contestant, "player", lambda self, rules: random_player(rules))
    monkeypatch.setattr(run, "play_piece", count)
    monkeypatch.setattr(plot, "draw", lambda *arguments: None)
    return played


def lines(path):
    return [json.loads(line) for line in (path / "pieces.jsonl").read_text().splitlines()]


def without_seconds(pieces):
    return [{k: v for k, v in piece.items() if k != "seconds"} for piece in pieces]


def test_pieces_are_played_once_and_resume_after_a_kill(tmp_path, random_play, capsys):
    sweep, whole, broken = sweep_of("a", "b"), tmp_path / "whole", tmp_path / "broken"
    assert run.run(sweep, config_of(whole)) == 0
    every = [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert random_play == every
    assert run.run(sweep, config_of(whole)) == 0
    assert random_play == every

    assert run.run(sweep, config_of(broken, games=4)) == 0
    text = (broken / "pieces.jsonl").read_text()
    (broken / "pieces.jsonl").write_text(text + text[: len(text) // 3])  # a torn line
    del random_play[:]
    assert run.run(sweep, config_of(broken)) == 0
    assert random_play == every[2:]
    assert "resuming after 8 games" in capsys.readouterr().err
    assert without_seconds(lines(broken)) == without_seconds(lines(whole))
    sessions = [
        json.loads((path / "manifest.json").read_text())["sessions"] for path in (whole, broken)
    ]
    assert [[one["done"] for one in of] for of in sessions] == [[0], [0, 2]]


def test_points_share_openings_and_other_seeds_differ(tmp_path, random_play):
    for seed in (0, 1):
        assert run.run(sweep_of("a", "b"), config_of(tmp_path / f"{seed}", seed=seed)) == 0
    a, b, more_a, _ = lines(tmp_path / "0")
    assert (a["points"], a["plies"]) == (
        b["points"],
        b["plies"],
    )  # the same players play the same games
    assert a["plies"] != more_a["plies"]
    assert lines(tmp_path / "1")[0]["plies"] != a["plies"]


def test_a_stop_keeps_finished_pieces(tmp_path, random_play, monkeypatch):
    config, sweep = config_of(tmp_path), sweep_of("a", "b")
    counted = run.play_piece

    def stop_at_the_third(*arguments):
        if len(random_play) == 2:
            raise KeyboardInterrupt
        return counted(*arguments)

    monkeypatch.setattr(run, "play_piece", stop_at_the_third)
    assert run.run(sweep, config) == 130
    assert [row.games for row in results.read(tmp_path / "results.csv")] == [4, 4]


def test_a_refused_command_does_not_change_the_folder(tmp_path):
    config, sweep = config_of(tmp_path), sweep_of("a", "b")
    with SweepFolder(sweep, config):
        written = (tmp_path / "config.json").read_bytes()
        with pytest.raises(ValueError, match="is being played by another process"):
            SweepFolder(sweep_of("c"), dataclasses.replace(config, games=12))
        assert (tmp_path / "config.json").read_bytes() == written
    stronger = sweep_of("c", flags=dataclasses.replace(FLAGS, simulations=9))
    with SweepFolder(stronger, config):
        pass  # no point has that name yet


def test_a_config_written_before_the_lock_is_checked(tmp_path, monkeypatch):
    config, lock = config_of(tmp_path / "run"), SweepFolder._lock

    def write_config_first(self):
        monkeypatch.setattr(SweepFolder, "_lock", lock)
        with SweepFolder(sweep_of("a"), config):
            pass
        lock(self)

    monkeypatch.setattr(SweepFolder, "_lock", write_config_first)
    with SweepFolder(sweep_of("b"), config):
        pass
    points = json.loads((config.out / "config.json").read_text())["points"]
    assert points.keys() == {"curve, a", "curve, b"}


def test_trees_that_do_not_fit_are_refused(tmp_path, random_play, monkeypatch):
    monkeypatch.setattr(memory, "of_device", lambda num_devices: 1000)
    config = config_of(tmp_path / "out", games=2, parallel=2)
    with pytest.raises(memory.DoesNotFit, match=r"^trees: at most .* MiB: lower --parallel"):
        run.run(sweep_of("a"), config)
    assert not config.out.exists()


def test_another_config_in_the_same_folder_is_refused(tmp_path):
    config, sweep = config_of(tmp_path), sweep_of("a", "b")
    with (
        SweepFolder(sweep, config),
        pytest.raises(ValueError, match=r"out: .* is being played by another process"),
    ):
        SweepFolder(sweep, config)
    for changed, message in (
        ({"komi": 6.5}, r"--komi was 7.0 and is 6.5"),
        ({"parallel": 8}, r"--parallel was 4 and is 8; give --parallel 4 to resume"),
        ({"seed": 3}, r"--seed was 0 and is 3"),
    ):
        with pytest.raises(ValueError, match=message):
            SweepFolder(sweep, dataclasses.replace(config, **changed))
    stronger = sweep_of("a", flags=dataclasses.replace(FLAGS, simulations=9))
    with pytest.raises(ValueError, match=r"of 'curve, a' opponent.simulations was 8 and is 9"):
        SweepFolder(stronger, config)
    with pytest.raises(ValueError, match=r"the experiment was test and is other"):
        SweepFolder(dataclasses.replace(sweep, name="other"), config)
    with SweepFolder(sweep_of("c"), dataclasses.replace(config, games=12)):
        pass  # other points or more games do not make another sweep
    assert json.loads((tmp_path / "config.json").read_text())["points"].keys() == {
        "curve, a",
        "curve, b",
        "curve, c",
    }
    (tmp_path / "pieces.jsonl").write_text('{"point": 1}\n')
    with pytest.raises(ValueError, match=r"pieces.jsonl, line 1 is damaged"):
        SweepFolder(sweep, config)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"config.json does not belong to a sweep"):
        SweepFolder(sweep, config)


def test_other_strengths_need_another_folder(tmp_path):
    path = tmp_path / "fitted.safetensors"
    strengths.save(path, strengths.uniform())
    flags = dataclasses.replace(FLAGS, playouts="mm", strengths=path)
    config = config_of(tmp_path / "out")
    with SweepFolder(sweep_of("a", flags=flags), config):
        pass
    fitted = strengths.uniform()._replace(contiguity=np.full(2, 3.0, np.float32))
    strengths.save(path, fitted)
    with pytest.raises(ValueError, match=r"of 'curve, a' player.strengths_sha256 was \w+ and is"):
        SweepFolder(sweep_of("a", flags=flags), config)


def test_a_whole_number_from_the_command_line_is_that_of_the_defaults(tmp_path):
    config = config_of(tmp_path)
    for k in (10, 10.0):
        flags = PlayerConfig(search="rave", simulations=8, rave_k=k)
        with SweepFolder(sweep_of("a", flags=flags), config):
            pass


def test_anchors_are_within_the_axes(tmp_path, monkeypatch):
    """Their points are shifted beside x by a transform, which does not by itself scale the axes."""
    figure = pytest.importorskip("matplotlib.figure")
    drawn = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, *_, **__: drawn.append(self))
    sweep = sweep_of("a", "b")
    total, interval = statistics.Tally(6, 0, 4), (0.3, 0.8)
    row = results.make_row(
        sweep, sweep.points[0], "ours", total, interval, plies=9, truncated=0, seconds=1
    )
    other = dataclasses.replace(row, anchor=True, score=0.1, low=0.02, high=0.3)
    plot.draw(sweep, [row, other], tmp_path / "results.svg")
    low, high = drawn[0].axes[0].get_ylim()
    assert low < 2
    assert high > 80


def test_a_row_has_the_score_of_its_pieces(tmp_path):
    sweep = sweep_of("a")
    pieces = [
        Piece("curve, a", 0, (1.0, 0.5, 1.0, 1.0), 100, 1, 2.0),
        Piece("curve, a", 1, (0.0, 1.0, 1.0, 0.0), 60, 0, 1.5),
    ]
    row = results.row_of(sweep, sweep.points[0], pieces)
    assert (row.games, row.won, row.drawn, row.lost) == (8, 5, 1, 2)
    assert row.score == 5.5 / 8
    assert (row.low, row.high) == statistics.pair_interval([0.75, 1.0, 0.5, 0.5])
    assert row.elo == statistics.elo(5.5 / 8)
    assert (row.plies, row.truncated, row.seconds) == (20.0, 1, 3.5)
    level = dataclasses.replace(row, x=None, score=1.0, elo=math.inf, elo_high=math.inf)
    results.write([row, level], tmp_path / "results.csv")
    with (tmp_path / "results.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["score"] == "0.6875"
    again = results.read(tmp_path / "results.csv")
    assert again[0].games == 8
    assert again[0].x == 0.0
    assert again[1].x is None
    assert again[1].elo == math.inf
    assert again[1].opponent == "uniform playouts uct 8"
    assert "| curve | a | uniform playouts uct 8 | 8 | 5, 1, 2 | 68.8% [" in results.table(
        sweep, [row]
    )


def test_a_chain_adds_up_elo_and_squares_of_errors():
    sweep = sweep_of("a")
    row = results.row_of(sweep, sweep.points[0], [Piece("curve, a", 0, (1.0, 0.0) * 8, 1, 0, 1.0)])
    rows = [
        dataclasses.replace(row, series=series, elo=elo, elo_low=elo - 3, elo_high=elo + 4)
        for series, elo in (("a", 100.0), ("b", 7.0), ("a", 50.0))
    ]
    first, other, last = results.chained(rows)
    assert first == (100.0, 97.0, 104.0)
    assert other == (7.0, 4.0, 11.0)
    assert last == pytest.approx((150.0, 150 - 3 * 2**0.5, 150 + 4 * 2**0.5))


def test_a_match_won_outright_ends_its_chain_and_no_other():
    sweep = sweep_of("a")
    row = results.row_of(sweep, sweep.points[0], [Piece("curve, a", 0, (1.0, 0.0) * 8, 1, 0, 1.0)])
    rows = [
        dataclasses.replace(row, series=series, elo=elo, elo_low=elo - 3, elo_high=elo + 4)
        for series, elo in (("a", 100.0), ("a", math.inf), ("a", 50.0), ("b", 7.0))
    ]
    result = results.chained(rows)
    assert result[0] == (100.0, 97.0, 104.0)
    assert all(map(math.isnan, (*result[1], *result[2])))
    assert result[3] == (7.0, 4.0, 11.0)
    chain = dataclasses.replace(sweep, chained=True)
    table = results.table(chain, rows).splitlines()
    assert "+inf [+inf, +inf] | unknown: a match was won or lost outright |" in table[3]


@pytest.mark.thorough
def test_a_search_from_end_to_end(tmp_path):
    pytest.importorskip("matplotlib")
    points = (
        Point("curve", 8.0, "by area", BY_AREA, BY_AREA),
        Point("level", None, "the same", BY_AREA, BY_AREA),
    )
    sweep = Sweep("test", points, "title", "x", x_scale="log")
    assert run.run(sweep, config_of(tmp_path, games=4)) == 0
    curve, level = results.read(tmp_path / "results.csv")
    assert level.won == curve.won
    assert level.player == "uniform playouts uct 8, area"
    assert (tmp_path / "results.svg").read_text().startswith("<?xml")
    assert {"config.json", "manifest.json"} <= {path.name for path in tmp_path.iterdir()}


def test_anchors_play_a_program(tmp_path, random_play):
    sweep = sweep_of("a", "b")
    missing = config_of(tmp_path / "missing", anchor_command="no-such-program --gtp")
    with pytest.raises(ValueError, match=r"opponent.command: 'no-such-program' is not a program"):
        run.run(sweep, missing)
    assert random_play == []
    config = config_of(tmp_path / "out", anchor_command=sys.executable)
    with pytest.raises(ValueError, match="'area', which no flag can express"):
        anchors.matches(
            Sweep("test", (Point("s", 0.0, "a", BY_AREA, BY_AREA, True),), "title", "x"), config
        )
    with pytest.raises(
        ValueError, match=r"^--anchor-command: no point is an anchor, to .* choose some of: b"
    ):
        anchors.matches(Sweep("test", sweep.points[1:], "title", "x"), config)
    (found,) = anchors.matches(sweep, config_of(tmp_path / "x", anchor_command=SCRIPTED)).values()
    assert found.timeout == 1800
    folder = anchors.folder(sweep.points[0], config)
    assert folder == tmp_path / "out" / "anchors" / "curve_a"
    folder.mkdir(parents=True)
    (folder / "results.jsonl").write_text('{"seconds": [1.5, 2.0]}\n{"seconds": [1.')  # torn
    summary = {"wins": 1, "draws": 0, "losses": 1, "interval": [0.1, 0.9], "games": 2}
    summary |= {"opponent": "GNU Go 3.8", "mean_moves": 70.5, "move_limit": 0}
    for state, count in (("stopped", 0), ("complete", 1)):
        (folder / "summary.json").write_text(json.dumps(summary | {"state": state}))
        assert len(list(anchors.rows(sweep, config))) == count
    (row,) = anchors.rows(sweep, config)
    assert (row.anchor, row.opponent, row.games, row.score) == (True, "GNU Go 3.8", 2, 0.5)
    assert (row.low, row.high, row.seconds, row.plies) == (0.1, 0.9, 3.5, 70.5)


@pytest.mark.slow
def test_a_sweep_and_its_anchor(tmp_path, random_play, capsys):
    config = config_of(
        tmp_path / "out", games=2, parallel=2, anchor_command=SCRIPTED, anchor_games=2, komi=0.5
    )
    assert run.run(sweep_of("a", "b"), config) == 0
    rows = (config.out / "results.csv").read_text().splitlines()
    assert sum("Scripted" in row for row in rows) == 1
    assert "Scripted" in capsys.readouterr().out
    assert json.loads((config.out / "anchors" / "curve_a" / "summary.json").read_text())["wins"] > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"games": 7}, "--games 7: expected an even number from 2"),
        ({"parallel": 0}, "--parallel 0: expected an even number from 2"),
        ({"komi": 0.3}, "--komi 0.3: expected a multiple of 0.5"),
        ({"size": 26}, "--size 26: expected from 2 to 25"),
    ],
)
def test_invalid_flags(flags, message):
    with pytest.raises(ValueError, match=message):
        SweepConfig(**flags)


def test_pieces_are_whole():
    assert (
        SweepConfig(games=200, parallel=64).piece,
        SweepConfig(games=200, parallel=64).num_pieces,
    ) == (64, 4)
    assert (SweepConfig(games=6).piece, SweepConfig(games=6).num_pieces) == (6, 1)


def test_points_have_unique_names():
    with pytest.raises(ValueError, match="two have the name 'curve, a'"):
        sweep_of("a", "a")
    with pytest.raises(ValueError, match="the sweep has none"):
        sweep_of()


def test_speed_counts_whole_searches(monkeypatch):
    result = SimpleNamespace(action=jnp.zeros(2), evaluations=jnp.array([3, 5]))
    monkeypatch.setattr(speed, "search", lambda *arguments: result)
    (found,) = speed.measure(Rules(5), [BY_AREA], num_trees=2, komi=7.0, seed=0, repeats=1)
    assert found.simulations_per_s > 0
    assert found.evaluated == 8 / (2 * 8)
    assert found.mb == pytest.approx(found.bytes_a_node * 2 * 9 / 1e6)


def test_the_speed_with_reuse_is_that_of_the_larger_tree(monkeypatch):
    searched = []

    def search(game, evaluator, key, states, config):
        searched.append(config.num_nodes)
        return SimpleNamespace(action=jnp.zeros(2), evaluations=None)

    monkeypatch.setattr(speed, "search", search)
    one = dataclasses.replace(BY_AREA, reuse=True)
    (found,) = speed.measure(Rules(5), [one], num_trees=2, komi=7.0, seed=0, repeats=1)
    assert searched == [17]
    assert found.mb == pytest.approx(3 * found.bytes_a_node * 2 * 17 / 1e6)


def test_a_player_without_a_tree_is_timed():
    one, rules = Contestant(PlayerConfig(search="annealing", simulations=3)), Rules(3)
    assert not one.has_tree
    assert one.record(rules) == {"search": "annealing", "simulations": "3", "reuse": "False"}
    (found,) = speed.measure(rules, [one], 2, 0.5, seed=0, repeats=1)
    assert found.simulations_per_s > 0
    assert (found.evaluated, found.mb) == (1.0, 0.0)
    assert BY_AREA.has_tree
