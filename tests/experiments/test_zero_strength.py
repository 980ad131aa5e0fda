"""The settings of the trained networks' matches."""

from __future__ import annotations

import json
import pathlib

import pytest

from experiments.matches.config import GNUGO
from experiments.zero_strength import readme
from experiments.zero_strength.config import MATCHES, ZeroStrengthConfig
from train import plots

ROOT = pathlib.Path(__file__).parents[2]


def test_every_match_is_valid(tmp_path):
    config = ZeroStrengthConfig(out=tmp_path)
    for name, match in MATCHES.items():
        match_config = config.match(name)
        assert match_config.paired == (name != "7x7-gnugo-empty")
        fewer = {"13x13-rave": 50, "13x13-gnugo": 100}
        assert match_config.games == fewer.get(name, 400 if match_config.size == 9 else 200)
        assert match_config.player.search == "katago"
        assert match_config.player.simulations == (1600 if name.endswith("-1600") else 200)
        symmetries = "all" if name.endswith("-all") else "random"
        assert match_config.player.symmetries == symmetries
        network = f"{match.size}x{match.size}" + "-first" * (name == "9x9-bf16")
        network += "-resign" * name.startswith("9x9-resign")
        assert match_config.player.weights.name == f"{network}.safetensors"
        assert (ROOT / match_config.player.weights).is_file()
    assert config.match("7x7-rave").opponent.heuristic == "shape"
    assert config.match("7x7-gnugo").opponent.command == GNUGO
    assert config.match("7x7-gnugo").komi == 9.0
    assert config.match("9x9-gnugo").komi == config.match("13x13-gnugo").komi == 7.0
    assert "--level 0 " in config.match("13x13-gnugo-0").opponent.command
    assert config.match("7x7-openings").opponent == config.match("7x7-openings").player
    assert config.match("9x9-rave").opponent == config.match("7x7-rave").opponent
    assert config.match("13x13-rave").opponent.heuristic == "mogo"  # there are no shapes for it


def test_a_given_network_replaces_the_committed_ones():
    own = pathlib.Path("runs/zero-7x7/weights.npz")
    match = ZeroStrengthConfig(weights=own).match("7x7-gnugo")
    assert match.player.weights == own
    assert match.opponent.weights is None
    against_itself = ZeroStrengthConfig(weights=own).match("7x7-openings")
    assert against_itself.player == against_itself.opponent


def test_scores_by_opening_by_hand(tmp_path):
    """White wins both games of the first opening, Black of the second, each one of the third."""
    itself, match = (tmp_path / name / "results.jsonl" for name in ("itself", "7x7"))
    lines = lambda games: "".join(json.dumps(one) + "\n" for one in games)
    for path, points in ((itself, [0, 1, 1, 0, 0, 0]), (match, [0.5, 1, 1, 0, 1, 1])):
        path.parent.mkdir()
        results = ["W+1", "W+R", "B+1", "B+2", "W+1", "B+1"] if path is itself else [""] * 6
        games = [
            {"game": i, "black": ("player", "opponent")[i % 2], "points": x, "result": result}
            for i, (x, result) in enumerate(zip(points, results, strict=True))
        ]
        path.write_text(lines(games[::-1]))  # in the order in which they ended
    head, _, of_itself, row = readme.openings(itself, match).splitlines()
    assert of_itself == "| `itself` | 100.0%, 0.0% | 0.0%, 100.0% | 0.0%, 0.0% | 50.0% of 4 |"
    assert "Black: 1 openings | White: 1 openings | neither: 1 openings" in head
    assert row == "| `7x7` | 100.0%, 0.0% | 50.0%, 100.0% | 100.0%, 100.0% | 100.0% of 4 |"


def test_the_share_of_learning_by_hand(tmp_path):
    """Iterations without learning, at the start, are left out."""
    path = tmp_path / "9x9-training.csv"
    path.write_text("simulations,playing_s,learning_s\n16,9,0\n16,2,1\n16,4,2\n32,9,1\n")
    assert readme.learning(path).splitlines()[2:] == [
        "| 9x9 | 16 | 2 | 3.0 s | 1.5 s | 33% |",
        "| 9x9 | 32 | 1 | 9.0 s | 1.0 s | 10% |",
    ]


def test_elo_by_hours_by_hand(tmp_path):
    """100 Elo for twice the hours, then a run of half an hour that gains 7."""
    first, continued = tmp_path / "first.csv", tmp_path / "continued.csv"
    first.write_text("seconds,elo\n900,500\n1000,\n1800,600\n3600,700\n7200,800\n")
    continued.write_text("seconds,elo\n900,\n1800,7\n")
    first_run, continued_run = readme.curves(first, continued)
    assert first_run.hours.tolist() == [0.25, 0.5, 1, 2]
    assert first_run.elo.tolist() == [-300, -200, -100, 0]
    assert continued_run.hours.tolist() == [2.5]
    assert continued_run.elo.tolist() == [7]
    assert plots.elo_line(*first_run) == pytest.approx((100, -100))
    table = readme.elo_by_hours(first, continued).splitlines()[2:]
    assert table[-4:] == [
        "| 2.00 | +0 | +0 | first |",
        "| 2.50 | +7 | +32 | continued |",
        "| 4.00 |  | +100 | extrapolated |",
        "| 8.00 |  | +200 | extrapolated |",
    ]
