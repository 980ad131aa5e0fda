"""`python -m train evaluate`: pairings, what is written, resuming, and the sequential test."""

from __future__ import annotations

import csv
import dataclasses
import json
import pathlib
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from gozero.go.rules import Rules
from gozero.nets import network, weights
from gozero.nets.network import NetworkConfig
from gozero.runs import files
from gozero.runs import folder as folders
from gozero.search.rules.puct import Puct
from tests.train import tiny
from train import command, evaluate, folder, gtp_opponent, matches
from train.matches import RANDOM, UNIFORM
from train.plan import make_plan
from train.ratings import Rating

ENGINE = pathlib.Path(__file__).parents[1] / "apps" / "scripted.py"
SHAPE = make_plan(tiny.config()).learner.network  # the shape that other tests compile
SMALL = ("--games", "4", "--simulations", "2")
ITERATIONS = (2, 4, 5)


@pytest.fixture
def out(tmp_path):
    """The folder of a run of three networks."""
    path = tmp_path / "run"
    path.mkdir()
    files.write_json(path / "config.json", tiny.config().plain)
    for i in ITERATIONS:
        save(path / "weights" / f"{i:06d}.npz", i)
    return path


def save(path, seed, shape=SHAPE, size=3):
    return weights.save(path, network.init(shape, jax.random.key(seed)), shape, size)


def run(out, *more, status=0):
    assert evaluate.main(["--out", str(out), *more]) == status


def ratings_of(out):
    """{player: its row of ratings.csv}."""
    rows = csv.DictReader((out / evaluate.RATINGS).read_text().splitlines())
    return {row["player"]: row for row in rows}


def games_of_batches(out):
    """The number of games of each batch of a sequential test, in order."""
    return [len(line["points"]) for line in folder.read_lines(out / evaluate.RATED)]


def pairings(out):
    return [(line["player"], line["opponent"]) for line in folder.read_lines(out / evaluate.RATED)]


def refused(capsys, *argv):
    with pytest.raises(SystemExit, match="2"):
        evaluate.main([*map(str, argv)])
    error = capsys.readouterr().err
    assert error.startswith("python -m train evaluate: ")
    assert error.count("\n") == 1
    return error


def test_a_network_that_a_gate_kept_is_rated_once(out, capsys):
    """000002, twice itself, 000004, 000005 and this again."""
    for iteration, seed in ((3, 2), (6, 5)):
        save(out / "weights" / f"{iteration:06d}.npz", seed)
    config = evaluate.EvaluateConfig(out=out)
    rated = evaluate.snapshots(config, evaluate._terms(config))
    assert [one.name for one in rated] == ["000002", "000004", "000005"]
    assert "2 of 5 networks are the same as the one before" in capsys.readouterr().err


@pytest.mark.thorough
def test_all_networks_play_anchors_and_neighbours(out, capsys, monkeypatch):
    run(out, *SMALL)
    table = capsys.readouterr().out
    anchors = [(f"{i:06d}", opponent) for i in ITERATIONS for opponent in (RANDOM, UNIFORM)]
    neighbours = [("000004", "000002"), ("000005", "000004")]
    assert sorted(pairings(out)) == sorted(anchors + neighbours)
    head, _, *rows = table.splitlines()
    assert head == "| player | Elo | 95% | score | games |"
    names = {row.split("|")[1].strip() for row in rows}
    assert names == {RANDOM, UNIFORM, "000002", "000004", "000005"}
    written = ratings_of(out)
    assert written.keys() == names
    for row in written.values():
        assert float(row["low"]) <= float(row["elo"]) <= float(row["high"])
    games = {name: float(row["games"]) for name, row in written.items()}
    assert games == {RANDOM: 12, UNIFORM: 12, "000002": 12, "000004": 16, "000005": 12}

    # Nothing is left to play. If one network changes, or a line is torn, only its matches are.
    monkeypatch.setattr(matches, "play", None)
    run(out, *SMALL)
    assert capsys.readouterr().out == table
    monkeypatch.undo()
    lines = folder.read_lines(out / evaluate.RATED)
    assert {line["search"] for line in lines} == {"gumbel"}
    save(out / "weights" / "000002.safetensors", 77)
    run(out, *SMALL)
    again = pairings(out)[len(anchors + neighbours) :]
    assert again == [("000002", RANDOM), ("000002", UNIFORM), ("000004", "000002")]
    with (out / evaluate.RATED).open("r+") as file:
        file.truncate(len(file.read()) - 3)
    run(out, *SMALL)
    assert pairings(out)[-3:] == again

    # An older version gave the file another name.
    (out / evaluate.RATED).rename(out / "league.jsonl")
    monkeypatch.setattr(matches, "play", None)
    run(out, *SMALL)
    monkeypatch.undo()
    assert pairings(out)[-3:] == again
    # Its lines do not name the search, which was another one, so all matches are played anew.
    (out / evaluate.RATED).write_text(
        "".join(
            json.dumps(one | {"search": None}) + "\n"
            for one in folder.read_lines(out / evaluate.RATED)
        )
    )
    count = len(pairings(out))
    run(out, *SMALL)
    assert len(pairings(out)) == count + len(anchors + neighbours)


@pytest.mark.thorough
def test_every_other_network_and_foreign_weights(out, tmp_path, capsys):
    foreign = save(tmp_path / "foreign.npz", 9, NetworkConfig(1, 4), size=5)
    run(out, *SMALL, "--every", "2", "--against", str(foreign))
    networks = ("000002", "000005")
    assert pairings(out) == [
        *[(networks[0], opponent) for opponent in (RANDOM, UNIFORM, str(foreign))],
        *[(networks[1], opponent) for opponent in (RANDOM, UNIFORM, networks[0], str(foreign))],
    ]
    assert f"| {foreign} |" in capsys.readouterr().out


@pytest.mark.thorough
def test_a_program_is_rated_too(out, capsys):
    engine = f"{sys.executable} {ENGINE} {{game}} all:ANY all:ANY all:ANY"
    run(out, *SMALL, "--every", "3", "--command", engine)
    captured = capsys.readouterr()
    assert "| Scripted 1 |" in captured.out
    assert "gozero network gumbel 2 considered 4 against Scripted 1" in captured.err
    (match,) = (out / "programs").iterdir()
    summary = json.loads((match / "summary.json").read_text())
    points = summary["wins"] + summary["draws"] / 2
    assert float(ratings_of(out)["Scripted 1"]["points"]) == 4 - points
    config = json.loads((match / "config.json").read_text())
    assert config["player"]["weights"] == str(out / "weights" / "000005.npz")
    assert (config["komi"], config["openings"], config["games"]) == (8.5, 4, 4)


def test_a_missing_program_is_named_before_any_game(out, capsys, monkeypatch):
    monkeypatch.setattr(matches, "play", None)
    message = refused(capsys, "--out", out, *SMALL, "--command", "no-such-program --mode gtp")
    assert "'no-such-program' is not a program on the PATH" in message


@pytest.mark.parametrize("sprt", [(), ("--sprt",)])
def test_two_processes_cannot_evaluate_one_run(out, capsys, monkeypatch, sprt):
    """They would drop each other's matches."""
    monkeypatch.setattr(matches, "play", None)
    before = sorted(out.iterdir())
    with folders.lock_file(out / evaluate.LOCK, "", ""):
        message = refused(capsys, "--out", out, *SMALL, *sprt)
    assert f"--out {out} is being evaluated by another process" in message
    assert sorted(out.iterdir()) == sorted([*before, out / evaluate.LOCK])


def test_fewer_games_than_before_count_those_that_were_played(tmp_path):
    path = tmp_path / "weights" / "000001.npz"
    of = lambda games: gtp_opponent.match_of(
        tmp_path, "gnugo", matches.Terms(Rules(5), (7.0,), games, 2, seed=3), path
    )
    out = of(40).out
    out.mkdir(parents=True)
    (out / "config.json").write_text(json.dumps({"games": 100}))
    assert [of(games).games for games in (40, 120)] == [100, 120]
    (out / "config.json").write_text("{}")
    assert of(40).games == 40
    scaled = matches.Terms(Rules(5), (7.0,), 4, 2, seed=3, value_scale=0.2)
    with pytest.raises(ValueError, match=r"^--command: .* --value-scale 0.2$"):
        gtp_opponent.match_of(tmp_path, "gnugo", scaled, path)


def test_a_program_plays_at_the_most_frequent_komi(tmp_path):
    terms = matches.Terms(Rules(size=5, ko="simple"), (8.5, 24.5, 24.5), 6, 2, seed=3)
    paths = [tmp_path / "weights" / f"00000{i}.npz" for i in (1, 2)]
    opponents = [gtp_opponent.match_of(tmp_path, "gnugo --mode gtp", terms, path) for path in paths]
    assert (opponents[0].komi, opponents[0].ko, opponents[0].size, opponents[0].seed) == (
        24.5,
        "simple",
        5,
        3,
    )
    assert opponents[0].out != opponents[1].out
    assert opponents[0].player.search == "gumbel"
    other = gtp_opponent.match_of(
        tmp_path,
        "gnugo --mode gtp",
        dataclasses.replace(terms, search="puct", openings=3),
        paths[0],
    )
    assert (other.player.search, other.openings) == ("puct", 3)
    assert other.out not in [one.out for one in opponents]
    few = gtp_opponent.match_of(
        tmp_path, "gnugo --mode gtp", dataclasses.replace(terms, considered=4), paths[0]
    )
    assert [one.player.considered for one in (opponents[0], other, few)] == [16, None, 4]
    assert few.out != opponents[0].out
    constants = dataclasses.replace(terms, search="puct", openings=3, puct=Puct(1.25, 19_652))
    alphazero = gtp_opponent.match_of(tmp_path, "gnugo --mode gtp", constants, paths[0])
    assert [one.player.exploration for one in (opponents[0], other, alphazero)] == [
        None,
        None,
        1.25,
    ]
    assert alphazero.out != other.out


@pytest.fixture
def scored(monkeypatch):
    """Fake matches, which score the newest network by cycling through a list of points."""
    calls, drawn = [], set()

    def play_as(points):
        def play(terms, first, second, numbers, lines, progress):
            progress(3, terms.games // 2)
            assert 2 * len(lines) == terms.games
            drawn.update(map(bytes, lines))
            calls.append((terms.games, numbers))
            assert 2 * len(drawn) == sum(games for games, _ in calls)
            return SimpleNamespace(points=np.resize(np.float64(points), terms.games))

        monkeypatch.setattr(matches, "play", play)
        return calls

    return play_as


def test_a_sequential_test_stops_early(out, capsys, scored):
    """64 pairs that are all won give 64 log(0.5288 / 0.5) = 3.6 for H1, and 32 pairs half of that:
    the bound of 2.94 lies between."""
    calls = scored([1.0])
    run(out, "--sprt")
    stdout = capsys.readouterr().out
    assert calls == [(64, (5, 1000)), (64, (5, 1001))]
    assert stdout.startswith(
        "000005 against 000004: +128 =0 -0 of 128, log-likelihood ratio +3.58 "
    )
    assert stdout.endswith(": stronger, by +20 Elo rather than +0\n")
    run(out, "--sprt")
    assert capsys.readouterr().out == stdout
    assert len(calls) == 2  # no match is played again
    assert games_of_batches(out) == [64, 64]


def test_a_sequential_test_of_equals_ends_with_h0(out, tmp_path, capsys, scored):
    other = save(tmp_path / "older.npz", 1)
    scored([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0])
    run(out, "--sprt", "--openings", "6", "--against", str(other))
    stdout = capsys.readouterr().out
    assert stdout.startswith(f"000005 against {other}: ")
    assert stdout.endswith(": not stronger, +0 Elo rather than +20\n")


def test_a_sequential_test_may_stay_undecided(out, capsys, scored):
    calls = scored([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    run(out, "--sprt", "--games", "100")
    assert [games for games, _ in calls] == [64, 36]
    assert capsys.readouterr().out.endswith(": undecided; give a larger --games\n")


def test_a_sequential_test_ends_when_its_openings_are_used_up(out, capsys, scored):
    calls = scored([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    run(out, "--sprt", "--openings", "2")
    assert [games for games, _ in calls] == [64, 64, 16]
    stdout = capsys.readouterr().out
    assert stdout.endswith(
        ": undecided, and all 72 openings have been played; give a larger --openings\n"
    )


@pytest.mark.thorough
def test_two_networks_play_a_sequential_test(out, capsys):
    run(out, "--sprt", *SMALL)
    assert "000005 against 000004: +" in capsys.readouterr().out


@pytest.mark.parametrize(("features", "keeps_past"), [("compact", False), ("zero", True)])
def test_a_network_of_past_boards_plays_under_simple_ko(features, keeps_past, out, tmp_path):
    """Its games keep past boards; those of the run's compact networks alone do not."""
    other = dataclasses.replace(SHAPE, features=features)
    path = save(tmp_path / f"{features}.safetensors", 9, other)
    terms = evaluate._terms(evaluate.EvaluateConfig(out, against=(path,)))
    assert terms.rules.ko == "simple"
    assert terms.rules.keeps_past == keeps_past
    assert evaluate._contender(terms, path, 0, any_size=True).name == str(path)


def test_the_table_in_markdown():
    rated = {
        "b": Rating(120.4, 60.0, 190.6, 30.0, 24, 32),
        RANDOM: Rating(0.0, 0.0, 0.0, 0.0, 8, 32),
    }
    assert evaluate.table(rated) == (
        "| player | Elo | 95% | score | games |\n"
        "|---|--:|--:|--:|--:|\n"
        "| random | +0 |  | 25.0% | 32 |\n"
        "| b | +120 | +60 to +191 | 75.0% | 32 |"
    )


def test_refusals(out, tmp_path, capsys):
    assert "there is no training run there" in refused(capsys, "--out", tmp_path)
    assert "--games 3: expected an even" in refused(capsys, "--out", out, "--games", 3)
    assert "--every 0: expected" in refused(capsys, "--out", out, "--every", 0)
    assert "--openings 0: expected at least 1" in refused(capsys, "--out", out, "--openings", 0)
    assert "--openings 18: expected at most 17" in refused(capsys, "--out", out, "--openings", 18)
    both = ("--sprt", "--command", "gnugo")
    assert "--command gnugo: not with --sprt" in refused(capsys, "--out", out, *both)
    missing = tmp_path / "missing.npz"
    assert "missing.npz" in refused(capsys, "--out", out, "--against", missing)
    for path in (out / "weights").glob("00000[24]*"):
        path.unlink()
    assert "has only one network; give another" in refused(capsys, "--out", out, "--sprt")
    for path in (out / "weights").iterdir():
        path.unlink()
    assert "there are no networks in its folder weights" in refused(capsys, "--out", out)


def test_the_subcommand_is_dispatched(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["train", "evaluate", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert capsys.readouterr().err.startswith("python -m train evaluate: --out ")
