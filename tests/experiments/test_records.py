"""Results claimed in READMEs are in committed records, and their tables are made from those."""

from __future__ import annotations

import json
import pathlib

import pytest

from experiments import records

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [
    path
    for path in sorted(ROOT.rglob("*.md"))
    if not any(
        part.startswith(".") or part == "node_modules" for part in path.parts[len(ROOT.parts) :]
    )
]


def test_tables_are_made_from_the_records():
    num_tables = 0
    for path in records.pages():
        text = path.read_text()
        assert text == records.regenerated(path), f"{path}: run python -m experiments.records"
        num_tables += text.count("<!-- end -->")
        if path.name == "README.md":  # every comment belongs to a generated table
            made = len(records._BLOCK.findall(text)) + len(records._SAID.findall(text))
            assert text.count("<!--") == 2 * made, path
    assert num_tables > 20


def test_claims_with_an_interval_are_in_a_record():
    num_claims = 0
    for path in PAGES:
        known = records.recorded_for(path)
        for line, words, claim in records.claims(path.read_text()):
            assert claim in known, f"{path.relative_to(ROOT)}:{line}: no record says {words}"
            num_claims += 1
    assert num_claims > 100


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("**80.0%** [72.0, 86.1] of 100", (80.0, 72.0, 86.1)),
        ("81.2% [74.0%,\n86.1%]", (81.2, 74.0, 86.1)),
        ("Elo +1,024 [-12, +3]", (1024.0, -12.0, 3.0)),
    ],
)
def test_a_claim_is_read(text, claim):
    assert [numbers for _, _, numbers in records.claims(text)] == [claim]


NO_SCORES = "accelerators", "throughput"
"""Experiments whose percentages are of time and memory."""


def test_percentages_are_scores_or_bounds_of_a_record():
    num_percentages = 0
    for path in PAGES:
        if path.parent.name in NO_SCORES:
            continue
        known = records.percentages_for(path)
        for line, percentage in records.percentages(path.read_text()):
            place = f"{path.relative_to(ROOT)}:{line}"
            assert percentage in known, f"{place}: no record says {percentage}%"
            num_percentages += 1
    assert num_percentages > 100


def test_percentages_of_generated_tables_are_left_out():
    text = "66.2%\n<!-- points results/a.csv -->\n\n12.5%\n<!-- end -->\nand 65.0%, 1,012.5%, 3%"
    assert list(records.percentages(text)) == [(1, 66.2), (6, 65.0)]


def test_unrecorded_claims_are_found():
    assert (80.0, 71.7, 86.3) in records.recorded()
    assert (80.0, 72.0, 86.1) not in records.recorded()


def test_scores_of_stopped_matches_are_no_results(tmp_path):
    folder = tmp_path / "results" / "x"
    folder.mkdir(parents=True)
    for state, expected in (("stopped", set()), ("complete", {(75.0, 30.0, 95.0)})):
        summary = {"state": state, "score": 0.75, "interval": [0.3, 0.95]}
        (folder / "summary.json").write_text(json.dumps(summary))
        csv = f"score,low,high,stopped\n0.75,0.3,0.95,{state == 'stopped'}\n"
        (folder.parent / "results.csv").write_text(csv)
        assert {one for one in records.recorded(tmp_path) if one[0] == 75.0} == expected


def test_an_experiment_claims_only_its_own_records():
    known = records.recorded_for(records.FOLDER / "zero_strength" / "README.md")
    assert (93.0, 90.1, 95.1) in known
    assert (93.0, 90.1, 95.1) not in records.recorded_for(records.FOLDER / "scaling" / "README.md")


def test_points_by_hand(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(
        "experiment,series,x,label,player,opponent,anchor,games,won,drawn,lost,score,low,high,"
        "elo,elo_low,elo_high,plies,truncated,seconds\n"
        "e,MC-RAVE,1,k = 1000,a,b,False,4,2,1,1,0.625,0.3,0.8,88.7,-147.2,240.8,50,0,1\n"
        "e,UCT,,none,a,GNU Go 3.8,True,4,0,0,4,0,0,0.49,-inf,-inf,-7,50,0,1\n"
    )
    assert records.points(path).splitlines()[2:] == [
        "| MC-RAVE, k = 1,000 | 4 | 2, 1, 1 | 62.5% [30.0%, 80.0%] | +89 [-147, +241] |",
        "| UCT, none, against GNU Go 3.8 | 4 | 0, 0, 4 | 0.0% [0.0%, 49.0%] |  |",
    ]


def test_numbers_in_a_sentence_are_generated(tmp_path):
    """They may be broken into lines anywhere; others than the record's are replaced."""
    (tmp_path / "results").mkdir()
    summary = {"as_black": {"score": 0.675}, "as_white": {"score": 0.445}}
    (tmp_path / "results" / "summary.json").write_text(json.dumps(summary))
    page, say = tmp_path / "README.md", "It <!-- say by_colour results/summary.json -->"
    right = f"{say}67.5% as Black and\n44.5% as White<!-- end -->.\n"
    page.write_text(right)
    assert records.regenerated(page) == right
    page.write_text(right.replace("67.5", "67.6"))
    assert records.regenerated(page) == right.replace("\n44", " 44")


def test_draws_as_whites_wins_by_hand(tmp_path):
    path = tmp_path / "results.jsonl"
    games = [("player", 1.0), ("player", 0.5), ("opponent", 0.5), ("opponent", 0.0)]
    lines = [json.dumps({"black": black, "points": points}) for black, points in games]
    path.write_text("\n".join(lines) + "\n")
    assert records.with_draws_as_whites_wins(path) == "50.0%"
    path.write_text("\n".join(lines[2:]) + "\n")
    assert records.with_draws_as_whites_wins(path) == "50.0%"
    path.write_text("\n".join(lines[1:2]) + "\n")
    assert records.with_draws_as_whites_wins(path) == "0.0%"


def test_resigned_games_by_hand(tmp_path):
    path = tmp_path / "results.jsonl"
    games = [("resign", 0.0), ("resign", 1.0), ("score", 0.0)]
    path.write_text("".join(json.dumps({"end": e, "points": p}) + "\n" for e, p in games))
    assert records.resigned(path, path) == "2 of the 6 games"


def test_columns_by_hand(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("name,long_name,x,holds\na,1000,0.12345,True\nb,,1234.5,False\n")
    assert records.columns(path).splitlines() == [
        "| name | long name | x | holds |",
        "| --- | --- | --- | --- |",
        "| a | 1,000 | 0.123 | yes |",
        "| b |  | 1,234 | no |",
    ]


def test_games_against_gnugo_give_a_rating(tmp_path):
    """75% is 191 Elo above GNU Go's 1800."""
    path = tmp_path / "results.csv"
    rows = [
        f"{name},GNU Go 3.8,4,4,3,0,1,0.75,0.3,0.95,,,,,,{stopped}\n"
        for name, stopped in (("ten", False), ("zero", False), ("half", True))
    ]
    path.write_text(
        "match,opponent,games,asked,won,drawn,lost,score,low,high,paper,must_low,must_high,aim,"
        "holds,stopped\n" + "".join(rows)
    )
    for name, level in (("ten", 10), ("zero", 0), ("half", 10)):
        (tmp_path / name).mkdir()
        config = {"opponent": {"command": f"gnugo --mode gtp --level {level}"}}
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    head, _, *lines = records.matches(path).splitlines()
    assert head.endswith("| aim | Elo, GNU Go = 1800 [95%] |")
    assert lines[0].endswith("| 1,991 [1,653, 2,312] |")
    assert all(line.endswith("|  |  |") for line in lines[1:])  # another level; a stopped match


def test_a_score_is_bold_if_it_is_the_required_one(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(
        "match,opponent,games,asked,won,drawn,lost,score,low,high,paper,must_low,must_high,aim,"
        "holds,stopped\n"
        "whole,GNU Go,4,4,3,0,1,0.75,0.3,0.95,,0.9,1.0,,False,False\n"
        "enough,GNU Go,4,4,3,0,1,0.75,0.3,0.95,,0.7,1.0,,True,False\n"
        "half,GNU Go,2,4,2,0,0,1.0,0.34,1.0,,0.9,1.0,,,True\n"
    )
    assert records.matches(path).splitlines()[2:] == [
        "| `whole` | GNU Go |  | 4 | 3, 0, 1 | 75.0% [30.0%, 95.0%] | 90% (missed) |  |",
        "| `enough` | GNU Go |  | 4 | 3, 0, 1 | **75.0%** [30.0%, 95.0%] | 70% |  |",
        "| `half` | GNU Go |  | 2 of 4 | 2, 0, 0 | stopped | 90% |  |",
    ]
