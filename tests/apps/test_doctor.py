"""`gozero doctor` and `gozero players`, and an engine that tests itself."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
import tomllib
import typing

import pytest

from gozero.apps import cli, doctor
from gozero.play import players

ROOT = pathlib.Path(__file__).parents[2]


def test_known_bad_versions_match_the_package_requirements():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (wanted,) = (line for line in project["dependencies"] if line.startswith("jax "))
    assert set(re.findall(r"!= ([\d.]+)", wanted)) == set(doctor.BAD_JAX)


def test_doctor(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert cli.main(["doctor"]) == 0
    versions, devices, cache = capsys.readouterr().out.splitlines()
    assert importlib.metadata.version("jaxlib") in versions
    assert "cpu (cpu)" in devices
    assert cache == f"compiled programs: 0 files, 0.0 MiB; 0 whole, 0.0 MiB in {tmp_path / 'cache'}"
    monkeypatch.setitem(doctor.BAD_JAX, importlib.metadata.version("jax"), "it is slow")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: name)
    assert cli.main(["doctor"]) == 1
    wrong = [line for line in capsys.readouterr().out.splitlines() if line.startswith("wrong: ")]
    assert "has a known fault: it is slow" in wrong[0]
    assert "an NVIDIA driver" in wrong[1]


def test_a_cache_folder_that_is_a_file_is_wrong(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "file"))
    assert cli.main(["doctor"]) == 1
    expected = "wrong: compiled programs cannot be cached, because {} is not a folder\n"
    assert capsys.readouterr().out.endswith(expected.format(tmp_path / "file"))


@pytest.mark.slow
def test_doctor_reports_the_time_of_a_move(capsys):
    words = ["--size", "3", "--search", "uct", "--simulations", "4", "--target", "cpu"]
    assert cli.main(["doctor", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"uniform playouts uct 4 on 3x3; a tree of 5 nodes: .*", lines[-2])
    assert re.fullmatch(r"cpu: [\d.]+ MiB, compiled in [\d.]+ s, [\d.]+ s a move", lines[-1])


def test_players(capsys):
    assert cli.main(["players"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "strong       network katago 200 (the default)"
    assert lines[1] == " " * 13 + players.ABOUT["strong"]
    assert lines[2].strip().startswith("93.0% [90.1%, 95.1%] of 400 games against GNU Go 3.8, 0.12")
    assert lines[-3] == "random       random moves"
    assert lines[-1] == " " * 13 + "not measured on this board"
    assert players.ABOUT.keys() == set(typing.get_args(players.PlayerName))


@pytest.mark.parametrize("command", [["gtp", "--selftest"], ["warmup"]])
def test_a_working_engine_is_reported(command, capsys):
    assert cli.main([*command, "--player", "random", "--size", "5"]) == 0
    stdout = capsys.readouterr().out
    assert re.match(r"ok: random moves plays [A-E][1-5] on 5x5, [\d.]+ s from the start", stdout)


def test_a_failing_engine_is_explained(tmp_path, capsys):
    (tmp_path / "net").write_bytes(b"no weights")
    words = ["--evaluator", "network", "--weights", str(tmp_path / "net"), "--size", "5"]
    with pytest.raises(SystemExit) as stop:
        cli.main(["gtp", "--selftest", *words])
    assert stop.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("gozero gtp --selftest: weights")
