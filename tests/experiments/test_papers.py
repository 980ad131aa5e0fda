"""The table of a paper's figures beside ours."""

from __future__ import annotations

import importlib
import shlex

import pytest

from experiments import command, papers
from experiments.papers import Figure

NOT_SHOWN = "not shown: it is within our interval"
HEAD = "match,games,asked,score,low,high,elo,elo_low,elo_high,stopped\n"


def line(tmp_path, monkeypatch, row, **figure):
    (tmp_path / "results.csv").write_text(HEAD + row)
    monkeypatch.setattr(papers, "FOLDER", tmp_path)
    settings = {"paper": (0.5, 0.6), "why": "it rained"} | figure
    place = Figure("Fig. 1", "a", record="results.csv", row={"match": "x"}, command="c", **settings)
    return papers._line(place)[2:7]


@pytest.mark.parametrize(
    ("row", "figure", "expected"),
    [
        (
            "x,9,10,.55,.5,.6,,,\n",
            {},
            ["50% to 60%", "55.0% [50.0%, 60.0%]", "9 of 10", "none", ""],
        ),
        (
            "x,10,10,.65,.59,.7,,,\n",
            {},
            ["50% to 60%", "65.0% [59.0%, 70.0%]", "10", "+5.0 points", NOT_SHOWN],
        ),
        (
            "x,10,10,.4,.3,.49,,,\n",
            {},
            ["50% to 60%", "40.0% [30.0%, 49.0%]", "10", "-10.0 points", "it rained"],
        ),
        (
            "x,10,,,,,-10,-70,49\n",
            {"paper": (-80, -80), "elo": True},
            ["-80 Elo", "-10 [-70, +49]", "10", "+70 Elo", "it rained"],
        ),
        ("y,10,10,.4,.3,.49,,,\n", {}, ["50% to 60%", "not played", "", "", ""]),
        ("x,4,10,.4,.3,.49,,,,True\n", {}, ["50% to 60%", "stopped", "", "", ""]),
    ],
)
def test_a_line_by_hand(row, figure, expected, tmp_path, monkeypatch):
    assert line(tmp_path, monkeypatch, row, **figure) == expected


def test_two_rows_for_a_figure_are_an_error(tmp_path, monkeypatch):
    with pytest.raises(AssertionError, match="2 rows"):
        line(tmp_path, monkeypatch, "x,1,1,.5,.1,.9,,,\n" * 2)


def test_figures_without_a_record_are_those_known_to_be_unplayed():
    unplayed = {one.command for one in papers.GELLY_SILVER if "not played" in papers._line(one)}
    matches = {f"rave-k-{k}" for k in (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)}
    matches |= {f"rave-per-action-k-{k}" for k in (3, 10, 10_000)}
    matches |= {"uct-literal", "uct-3.7.10", "heuristic-10000-1-leaf", "heuristic-10000-3.7.10"}
    matches |= {"heuristic-10-minutes"}
    assert unplayed == {f"against_gnugo.run --only {name}" for name in matches}


@pytest.mark.parametrize("figure", papers.GELLY_SILVER, ids=lambda figure: figure.command)
def test_commands_parse(figure):
    program, *argv = shlex.split(figure.command)
    module = importlib.import_module(f"experiments.{program.removesuffix('.run')}.config")
    (config,) = [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, command.ExperimentConfig)
        and one.__module__ == module.__name__
    ]
    assert isinstance(command.parse(config, argv, prog=figure.command), config)
