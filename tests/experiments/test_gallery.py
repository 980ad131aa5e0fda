"""The gallery has every experiment and figure; every command has an estimate and --quick."""

from __future__ import annotations

import dataclasses
import importlib

import pytest

from experiments import command, gallery, usage
from experiments.command import ExperimentConfig
from experiments.sweeps.config import SweepConfig
from experiments.sweeps.run import minutes
from experiments.throughput.config import ThroughputConfig

NAMES = sorted(path.parent.name for path in usage.FOLDER.glob("*/__main__.py"))


def settings(name):
    """The settings classes of an experiment."""
    module = importlib.import_module(f"experiments.{name}.config")
    own = [
        one for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__
    ]
    return [one for one in own if isinstance(one, type) and issubclass(one, ExperimentConfig)]


def test_the_gallery_is_complete_and_current():
    assert sorted(gallery.ENTRIES) == NAMES
    text = gallery.README.read_text()
    assert text == gallery.text(), "run python -m experiments.gallery"
    drawn = list(usage.FOLDER.glob("*/results/**/*.svg"))
    assert len(drawn) > 10
    assert all(f"]({path.relative_to(usage.FOLDER).as_posix()})" in text for path in drawn)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "throughput"])
def test_quick_is_estimated_within_two_minutes(name, capsys):
    classes = settings(name)
    assert classes
    for config in classes:
        quick = command.parse(config, ["--quick"], prog="prog")
        assert quick == config(**config.QUICK, quick=True) != config()
        if issubclass(config, SweepConfig):
            sweep = importlib.import_module(f"experiments.{name}.run").sweep
            assert minutes(sweep(quick), quick) <= 2 < minutes(sweep(config()), config())
        elif name != "accelerators":  # its estimate depends on its rows
            assert quick.estimate <= 2
            assert "estimate: " in capsys.readouterr().err


def test_flags_beside_quick_count():
    (config,) = settings("schedules")
    quick = command.parse(config, ["--quick", "--games", "20"], prog="prog")
    assert quick == dataclasses.replace(config(**config.QUICK), quick=True, games=20)
    assert command.parse(ThroughputConfig, ["rules", "--quick"], prog="prog").estimate <= 2


def test_an_estimate_in_words(capsys):
    for amount in (0.3, 20.2, 129.0):
        command.print_estimate(amount)
    assert capsys.readouterr().err.splitlines() == [
        "estimate: a minute on two idle cores",
        "estimate: 20 minutes on two idle cores",
        "estimate: 2.1 hours on two idle cores",
    ]


def test_the_last_lines_name_the_results(tmp_path, capsys):
    (tmp_path / "results.csv").touch()
    command.print_results(tmp_path)
    assert capsys.readouterr().out == f"folder: {tmp_path}\ntable: {tmp_path / 'results.csv'}\n"
