"""Plots of a run: which are drawn, what they show, and the messages when none can be."""

from __future__ import annotations

import csv
import importlib.util
import json
import pathlib
import sys
import types
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from gozero.runs import store
from train import command, plots
from train.calibration import curve

LOSSES = {"policy": 1.0, "value": 0.9}


def metrics(iteration, **more):
    line = {
        "iteration": iteration,
        "losses": {name: value / iteration for name, value in LOSSES.items()},
        "lengths": [4, 9 + iteration, 18],
        "black_won": 0.5,
        "drawn": 0.0,
        "truncated": 0.1,
        "rows": 10 * iteration,
        "window": 8 * iteration,
        "added": 20 * iteration,
        "by_komi": {"7": [4 * iteration, 2, 1], "9": [0, 0, 0], "11": [1, 0, 1]},
        "surprise": 0.2,
        "seconds": 1800.0 * iteration,
        "target_entropy": None if iteration == 1 else 0.5 / iteration,
    }
    return line | more


def match(iteration, opponent, won, simulations=32, **more):
    lost = 64 - won
    line = {"iteration": iteration, "opponent": opponent, "won": won, "drawn": 0, "lost": lost}
    return line | {"simulations": simulations, **more}


@pytest.fixture
def run(tmp_path):
    early = metrics(1, losses=None, lengths=None)
    write(tmp_path / "metrics.jsonl", [early, *map(metrics, (2, 3, 4))])
    return tmp_path


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def names(paths):
    return sorted(path.stem for path in paths)


@pytest.mark.thorough
def test_plots_of_a_run_in_a_bucket(run, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("obstore")
    url = f"memory:///{run.name}/zero"
    monkeypatch.chdir(run)
    with pytest.raises(SystemExit) as stop:
        plots.main(["--out", url])
    assert stop.value.code == 2
    assert f"--out {url}: there is no metrics.jsonl, or it is empty" in capsys.readouterr().err
    shared = store.at(pathlib.Path(url))
    shared.put("metrics.jsonl", (run / "metrics.jsonl").read_bytes())
    assert plots.main(["--out", url]) == 0
    paths = capsys.readouterr().out.splitlines()
    assert names(map(pathlib.Path, paths)) == names(plots.draw(run))
    assert "plots/zero/losses.svg" in paths
    assert pathlib.Path("plots/zero/training.csv").exists()


def test_which_plots_are_drawn(run):
    pytest.importorskip("matplotlib")
    assert names(plots.draw(run)) == [
        "black_won",
        "by_komi",
        "lengths",
        "losses",
        "replay",
        "surprise",
    ]
    more: dict = {"wrong_resigns": 0.04, "resign_threshold": -0.9}
    more |= {"gate": [3, 1, 0], "gate_passed": True}
    more["calibration"] = {name: [[4, 1.3, 2.0]] * 10 for name in ("policy", "value")}
    write(run / "metrics.jsonl", [metrics(i, **more) for i in (1, 2)])
    write(run / "matches.jsonl", [match(1, "random", 48), match(1, "uniform", 40)])
    paths = plots.draw(run)
    assert {"elo", "resignations", "calibration", "gate"} < set(names(paths))
    for path in paths:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
        assert path.parent == run / "plots"


def test_losses_of_heads_that_were_not_always_recorded_are_left_out(run):
    def axes(count):
        panels.extend(types.SimpleNamespace(plot=drawn, set=drawn) for _ in range(count))
        return panels

    panels: list = []
    drawn = lambda *args, **more: None
    earlier = LOSSES | {"ownership": 0.0}
    plots.losses(axes, [metrics(2, losses=earlier), metrics(3, losses=LOSSES)])
    assert len(panels) == len(LOSSES)


def test_training_curves_are_a_table(run):
    """Every second iteration, counting back from the newest; non-numbers are left out."""
    pytest.importorskip("matplotlib")
    plots.draw(run, every=2)
    first, *rows = (run / "plots" / "training.csv").read_text().splitlines()
    assert first.startswith("iteration,losses/policy,losses/value,")
    assert [row.split(",")[0] for row in rows] == ["2", "4"]
    assert rows[1].split(",")[1] == f"{LOSSES['policy'] / 4:.10g}"


def test_the_gates_matches_are_in_the_plot_and_the_table(run):
    pytest.importorskip("matplotlib")
    results = [([3, 1, 0], True), None, ([1, 2, 1], False)]
    lines = [
        metrics(i, **({"gate": one[0], "gate_passed": one[1]} if one else {}))
        for i, one in enumerate(results, start=1)
    ]
    axis = Axis()
    plots.gate(lambda count: [axis], [line for line in lines if "gate" in line])
    assert axis.curves == {"passed": ([1], [87.5]), "not passed": ([3], [50.0])}
    write(run / "metrics.jsonl", lines)
    assert "gate" in names(plots.draw(run))
    with (run / "plots" / "training.csv").open() as file:
        rows = list(csv.DictReader(file))
    columns = ("gate/won", "gate/drawn", "gate/lost", "gate_passed")
    found = [[row[name] for name in columns] for row in rows]
    assert found == [["3", "1", "0", "1"], ["", "", "", ""], ["1", "2", "1", "0"]]


def test_reliability_is_of_all_games_of_some_iterations():
    """By hand: where values were about 0.65, Black scored 3 + 9 points in 4 + 12 games."""
    few, more = ([[0, 0, 0]] * 6 + [[4 * n, 2.6 * n, 3 * n]] + [[0, 0, 0]] * 3 for n in (1, 3))
    lines = [{"calibration": {"value": bins}} for bins in (few, more)]
    x, y, error = curve(lines, "value")
    np.testing.assert_allclose([x[0], y[0], error[0]], [0.65, 0.75, (0.75 * 0.25 / 16) ** 0.5])
    assert len(x) == 1


@pytest.mark.thorough
def test_the_same_run_gives_the_same_pictures(run):
    pytest.importorskip("matplotlib")
    first = [path.read_bytes() for path in plots.draw(run)]
    assert first == [path.read_bytes() for path in plots.draw(run)]


class Axis:
    """A fake panel that records what is drawn on it."""

    def __init__(self):
        self.curves, self.levels, self.limits = {}, {}, None

    def plot(self, *xy, label="", **_):
        self.curves[label] = tuple(map(list, xy))

    def errorbar(self, x, middle, errors, label, **_):
        self.curves[label] = (x, middle, *errors)

    def axhline(self, level, label, **_):
        self.levels[label] = level

    def set(self, ylim=None, **_):
        self.limits = ylim

    def set_xscale(self, name, base):
        self.scale = name, base

    @property
    def xaxis(self):
        return self

    def set_major_formatter(self, text):
        self.tick = text


def test_blacks_score_has_a_curve_for_each_komi():
    axis = Axis()
    plots.by_komi(lambda count: [axis], [metrics(1), metrics(2)])
    assert axis.curves["komi 7"] == ([1, 2], [62.5, 31.25])  # 2 won and 1 drawn, of 4 and of 8
    assert axis.curves["komi 9"] == ()
    assert axis.curves["komi 11"] == ([1, 2], [50, 50])


def test_the_age_of_replayed_rows():
    """By hand: 10 rows an iteration, with a window of 10, 20, 20, 20, 25."""
    lines = [
        {"iteration": i, "rows": 10 * i, "added": 10 * i, "window": window}
        for i, window in enumerate((10, 20, 20, 20, 25), start=1)
    ]
    panels = [Axis(), Axis()]
    plots.replay(lambda count: panels, lines)
    assert panels[1].curves[""] == ([1, 2, 3, 4, 5], [0, 1, 1, 1, 2])


def test_elo_has_a_curve_for_each_search():
    axis = Axis()
    lines = [
        match(1, "random", 48),
        match(2, "000001", 48),
        match(2, "uniform", 48),
        match(1, "random", 32, simulations=64),
        match(2, "random", 48, search="gumbel"),
    ]
    plots.elo(lambda count: [axis], lines)
    names = {"puct, 32 simulations", "puct, 64 simulations", "gumbel, 32 simulations"}
    assert set(axis.curves) == names
    x, middle, below, above = axis.curves["puct, 32 simulations"]
    assert x == [1, 2]
    assert middle == pytest.approx([190.8, 381.6], abs=0.3)
    assert below[1] > below[0] > 80
    assert above[0] > 80
    assert axis.curves["puct, 64 simulations"][1] == pytest.approx([0.0], abs=1e-6)
    x, middle, *_ = axis.curves["gumbel, 32 simulations"]
    assert (x, middle) == ([2], pytest.approx([190.8], abs=0.3))
    assert list(axis.levels.values()) == pytest.approx([190.8], abs=0.3)
    assert axis.limits == pytest.approx((-300, 681.6), abs=0.3)


def test_elo_by_hours_is_extrapolated_from_its_later_half(run):
    """By hand: with each doubling a network scores 3/4 against the one before it, +190.8 Elo."""
    axis = Axis()
    names = ["random", *(f"{2**i:06}" for i in range(5))]
    lines = [match(2**i, before, 48) | {"hours": 2.0**i / 8} for i, before in enumerate(names[:-1])]
    plots.elo_by_hours(lambda count: [axis], lines)
    x, middle, *_ = axis.curves["puct, 32 simulations"]
    assert x == [0.125, 0.25, 0.5, 1, 2]
    assert middle == pytest.approx([190.8 * i for i in range(-4, 1)], abs=2)
    ends, levels = axis.curves["extrapolated: +191 Elo for twice the hours"]
    assert ends == [0.5, 8]
    assert levels == pytest.approx([-2 * 190.8, 2 * 190.8], abs=6)
    assert axis.limits == pytest.approx((-4 * 190.8 - 300, 600), abs=3)
    assert [axis.tick(x, 0) for x in (0.25, 1.0, 4.0)] == ["1/4", "1", "4"]
    few = Axis()
    plots.elo_by_hours(lambda count: [few], lines[:3])
    assert len(few.curves) == 1


def test_hours_come_from_the_metrics(run):
    """Matches whose metrics were cut off after a kill have no hours."""
    lines = [metrics(i) for i in (1, 2)]
    played = [match(i, "random", 48) for i in (1, 2, 3)]
    assert [line["hours"] for line in plots._with_hours(played, lines)] == [0.5, 1.0]


def test_the_command(run, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "argv", ["train", "plots", "--out", str(run)])
    assert command.main() == 0
    assert f"{run / 'plots' / 'losses.svg'}\n" in capsys.readouterr().out


def test_without_matplotlib(run, monkeypatch, capsys):
    find = importlib.util.find_spec
    without = lambda name, *more: None if name == "matplotlib" else find(name, *more)
    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(SystemExit, match="1"):
        plots.main(["--out", str(run)])
    assert capsys.readouterr().err == (
        "python -m train plots: plots need matplotlib: pip install -e '.[plots]'\n"
    )
    assert not (run / "plots").exists()


def test_no_run(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    with pytest.raises(SystemExit, match="2"):
        plots.main(["--out", str(tmp_path)])
    assert "there is no metrics.jsonl, or it is empty" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_run_that_began_with_weights_is_shown_above_them(run, monkeypatch):
    """Random play, at an unknown rating far below, is outside the plotted range."""
    figure = pytest.importorskip("matplotlib.figure")
    drawn = []
    save = figure.Figure.savefig
    keep = lambda self, *what, **how: (drawn.append(self), save(self, *what, **how))[1]
    monkeypatch.setattr(figure.Figure, "savefig", keep)
    lines = [match(1, "random", 64), match(1, "uniform", 64), match(1, "000000", 38)]
    write(run / "matches.jsonl", [*lines, match(2, "000001", 38)])
    plots.draw(run)
    (axis,) = next(f.axes for f in drawn if "initial network" in f.axes[0].get_ylabel())
    low, high = axis.get_ylim()
    assert -400 < low < 0
    assert 132 < high < 600


def test_an_invalid_line_is_one_error_line(run):
    write(run / "metrics.jsonl", [metrics(1), {"iteration": 2}])
    with pytest.raises(ValueError, match=r"a line of metrics.jsonl or .* is not of a run \(Key"):
        plots.draw(run)
