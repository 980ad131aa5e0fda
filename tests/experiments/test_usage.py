"""A wrong command for an experiment is answered with the right one; and a closed output."""

import importlib
import os
import pathlib
import subprocess
import sys

import pytest

from experiments import usage
from experiments.throughput import run as throughput

ROOT = usage.FOLDER.parent
FOLDERS = sorted(path.parent.name for path in usage.FOLDER.glob("*/__main__.py"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_names_its_command(folder, capsys):
    assert usage.main(f"experiments.{folder}") == 2
    assert f"python -m experiments.{folder}.run" in capsys.readouterr().err
    assert (
        "usage.main(__package__)" in pathlib.Path(usage.FOLDER, folder, "__main__.py").read_text()
    )


def test_every_experiment_with_a_command_has_such_an_answer():
    named = {command.split(".")[1] for command in usage.commands()}
    assert {name for name in named if not (usage.FOLDER / name / "__main__.py").exists()} == set()
    assert {"ablation", "throughput", "scaling"} <= named


@pytest.mark.parametrize("argv", [[], ["nothing"], ["serach", "--json"]])
def test_throughput_lists_its_measurements(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        throughput.main(argv)
    assert stop.value.code == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert "experiments.throughput.run rules|playouts|search|thinking|selfplay|features" in stderr


@pytest.mark.parametrize("name", ["array_tree", "solved_3x3", "solved_5x5"])
def test_results_are_not_overwritten(name, tmp_path, monkeypatch, capsys):
    earlier = tmp_path / "results.csv"
    earlier.write_text("earlier")
    monkeypatch.setattr(sys, "argv", ["run", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        importlib.import_module(f"experiments.{name}.run").main()
    assert stop.value.code == 2
    assert "is not empty, and nothing is overwritten" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["earlier"]


PROGRAM = """
import dataclasses, pathlib, sys
from experiments import command

@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(command.ExperimentConfig):
    '''An experiment.'''

command.parse(Config, [], prog="test")
print("lost " * 10_000, file=sys.stderr, flush=True)
command.print_results(pathlib.Path("results"))
sys.exit(7)
"""


def test_an_experiment_ends_well_after_a_tee_has_gone():
    """Ctrl-C stops both, and the output is then a pipe that nobody reads."""
    reader, unheard = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=unheard, stderr=unheard)
    os.close(unheard)
    assert done.returncode == 7
