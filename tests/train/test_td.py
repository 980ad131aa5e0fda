"""`python -m train.classical.td`: it learns, resumes where it stopped, and refuses bad input."""

from __future__ import annotations

import dataclasses
import errno
import os

import jax
import numpy as np
import pytest

from gozero.td import weights as shape_weights
from train.classical import checkpoints
from train.classical import td_training as command
from train.classical.td import TdFlags

SMALL = ["--size", "5", "--games", "32", "--steps", "200", "--seed", "3"]


@pytest.mark.slow
def test_it_learns_to_beat_random_moves(tmp_path, capsys):
    out = tmp_path / "new" / "w.safetensors"
    assert command.main([*SMALL, "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert "200/200 steps" in captured.err
    assert "TD error" in captured.err
    learnt = shape_weights.read(out)
    assert learnt.about["wins_against_random"] > 0.75
    assert learnt.about["steps"] == 200
    assert learnt.about["command"][1:] == [*SMALL, "--out", str(out)]
    assert learnt.about["moved"] > 100


@pytest.mark.slow
def test_it_resumes_where_it_stopped(tmp_path):
    """The first half, then the second from its checkpoint, give the same weights as one run."""
    out = tmp_path / "w.safetensors"
    assert command.main([*SMALL, "--out", str(out)]) == 0
    again = TdFlags(tmp_path / "again.safetensors", size=5, games=32, steps=200, seed=3)
    config = command.config_of(again)
    task = command.task_of(config, again.komi)
    initial = command.initial_weights(again, config)
    state = command.begin(again, initial, config, task)
    run = command.make_run(config, again.steps, again.rate)
    state, _ = run(task, state, jax.random.key(again.seed))
    assert int(state.taken) == 100
    checkpoints.save(again.checkpoint, initial.made_with(again), state)
    assert command.main([*SMALL, "--out", str(again.out), "--resume"]) == 0
    np.testing.assert_array_equal(
        shape_weights.read(again.out).weights, shape_weights.read(out).weights
    )


def test_checkpoints_of_this_and_earlier_versions_are_read(tmp_path):
    settings = TdFlags(tmp_path / "w.safetensors", size=3, games=2, seed=3, resume=True)
    config = command.config_of(settings)
    task = command.task_of(config, settings.komi)
    initial = command.initial_weights(settings, config)
    fresh = command.begin(dataclasses.replace(settings, resume=False), initial, config, task)
    state = fresh._replace(taken=fresh.taken + 7)
    leaves = {f"leaf_{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(state))}

    def old(flags):
        with settings.checkpoint.open("wb") as file:
            np.savez(file, flags=flags, **leaves)

    new = lambda: checkpoints.save(settings.checkpoint, initial.made_with(settings), state)
    for write in (new, lambda: old(settings.same)):
        write()
        restored = command.begin(settings, initial, config, task)
        jax.tree.map(np.testing.assert_array_equal, restored, state)
    old("other")
    with pytest.raises(ValueError, match="was made with other"):
        command.begin(settings, initial, config, task)
    settings.checkpoint.write_bytes(settings.checkpoint.read_bytes()[:-40])
    with pytest.raises(ValueError, match="damaged or not checkpoint"):
        command.begin(settings, initial, config, task)


@pytest.mark.thorough
def test_a_run_from_weights_names_them_and_resumes_from_no_others(tmp_path):
    """The closing matches are of weights that have learnt one step."""
    one, other, out = (str(tmp_path / f"{name}.safetensors") for name in ("one", "other", "out"))
    flags = ["--size", "3", "--games", "2", "--steps", "1"]
    for path, seed in ((one, "1"), (other, "2")):
        assert command.main([*flags, "--seed", seed, "--out", path]) == 0
        assert shape_weights.read(path).about["initial_weights_sha256"] is None
    assert command.main([*flags, "--weights", one, "--out", out]) == 0
    digest = shape_weights.read(one).about["sha256"]
    assert shape_weights.read(out).about["initial_weights_sha256"] == digest
    for more in ([], ["--weights", other]):
        with pytest.raises(SystemExit, match="2"):
            command.main([*flags, *more, "--out", out, "--resume"])
    assert command.main([*flags, "--weights", one, "--out", out, "--resume"]) == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--out", "w.txt"], "not a .safetensors file"),
        (["--out", "w.safetensors", "--size", "2"], "--size 2: expected from 3 to 25"),
        (["--out", "w.safetensors", "--games", "0"], "--games 0: expected at least 1"),
        (["--out", "w.safetensors", "--rate", "0"], "--rate 0"),
        (["--out", "w.safetensors", "--epsilon", "2"], "--epsilon 2"),
        (["--out", "w.safetensors", "--komi", "7.3"], "--komi 7.3: expected a multiple of 0.5"),
        (["--out", "w.safetensors", "--komi", "nan"], "--komi nan"),
        (["--out", "new/w.safetensors", "--weights", "no.npz"], "no.npz: there is no file"),
        (["--out", "w.safetensors", "--resume"], "--resume: there is no"),
        (["--out", "w.safetensors", "--weights", "no.npz"], "no.npz: there is no file"),
        ([], "--out is missing"),
    ],
)
def test_bad_input_is_one_line(argv, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        command.main([*argv])
    assert stop.value.code == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_killed_run_is_not_overwritten(tmp_path, capsys):
    out = tmp_path / "w.safetensors"
    TdFlags(out).checkpoint.write_bytes(b"of the killed run")
    with pytest.raises(SystemExit) as stop:
        command.main([*SMALL, "--out", str(out)])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / 'w.checkpoint'} is the checkpoint of a run that was killed" in error
    assert "give --resume to continue it" in error
    assert TdFlags(out, resume=True).checkpoint.read_bytes() == b"of the killed run"


def test_two_processes_do_not_write_one_file(tmp_path, capsys):
    """The second is refused, also after the first has ended, if its flags were read before."""
    options = TdFlags(tmp_path / "w.safetensors")
    with options.locked():
        with pytest.raises(SystemExit) as stop:
            command.main([*SMALL, "--out", str(options.out)])
        options.out.write_bytes(b"")
    assert stop.value.code == 2
    assert "w.safetensors is being written by another process" in capsys.readouterr().err
    with pytest.raises(ValueError, match="already exists"), options.locked():
        pass
    assert list(tmp_path.iterdir()) == [options.out]


def test_weights_are_saved_before_the_closing_match(tmp_path, monkeypatch):
    def interrupted(config, task, weights, key):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_learn", lambda flags, initial, config, task, state, stop: state)
    monkeypatch.setattr(command, "wins_against_random", interrupted)
    out = tmp_path / "new" / "w.safetensors"
    with pytest.raises(KeyboardInterrupt):
        command.main([*SMALL, "--out", str(out)])
    assert shape_weights.read(out).about["komi"] == 7.0
    assert TdFlags(out, resume=True).checkpoint.is_file()


def test_a_full_disk_is_one_line_and_status_1(tmp_path, monkeypatch, capsys):
    def full(path, made_with, state):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(command, "_learn", lambda flags, initial, config, task, state, stop: state)
    monkeypatch.setattr(checkpoints, "save", full)
    with pytest.raises(SystemExit) as stop:
        command.main([*SMALL, "--out", str(tmp_path / "w.safetensors")])
    assert stop.value.code == 1
    stderr = capsys.readouterr().err
    assert stderr.startswith(f"{command.PROG}: [Errno 28] No space left on device")
    assert stderr.count("\n") == 1
