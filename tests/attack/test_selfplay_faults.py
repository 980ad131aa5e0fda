"""Kills, full disks and repeated Ctrl-C in ``gozero selfplay``: resumed runs end the same."""

from __future__ import annotations

import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from gozero.apps import runtime
from gozero.apps.selfplay import play as app
from gozero.apps.selfplay import state as states
from gozero.apps.selfplay import writer
from gozero.play import shards
from gozero.runs import arrays, files
from tests.attack.selfplay_runs import (
    FullDisk,
    check_part,
    check_whole,
    compile_once,
    make_small,
    selfplay,
)

SEED = 29
KILLS, MANY_GAMES = 30, 160
ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    with pytest.MonkeyPatch.context() as patch:
        compile_once(patch.setattr)
        make_small(patch.setattr)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(the folder of an uninterrupted run, its number of writes)."""
    out = tmp_path_factory.mktemp("selfplay") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        disk = FullDisk(patch.setattr, None)
        assert selfplay(out) == 0
    return out, disk.count


def fill_up(whole, out, n, capsys):
    """The disk is full from the n-th write on; then there is room again, and the run resumes."""
    with pytest.MonkeyPatch.context() as patch:
        disk = FullDisk(patch.setattr, n)
        status = selfplay(out)
    stderr = capsys.readouterr().err
    assert disk.count >= n
    assert status != 0
    assert "Traceback" not in stderr
    assert "No space left on device" in stderr.splitlines()[-1]
    begun = (out / "config.json").exists()
    if begun:
        check_part(out, whole)
    assert selfplay(out, *["--resume"] * begun) == 0
    check_whole(out, whole)


@pytest.mark.thorough
def test_a_full_disk_at_some_writes(whole, tmp_path, capsys):
    folder, count = whole
    for n in np.random.default_rng(SEED).integers(1, count + 1, 2).tolist():
        fill_up(folder, tmp_path / str(n), n, capsys)


@pytest.mark.slow
def test_a_full_disk_at_every_write(whole, tmp_path, capsys):
    folder, count = whole
    assert count > 50
    for n in range(1, count + 1):
        fill_up(folder, tmp_path / str(n), n, capsys)


@pytest.mark.thorough
def test_repeated_ctrl_c_loses_nothing(whole, tmp_path, monkeypatch, capsys):
    """Ctrl-C twice in a row while a game is written, and again while the run finishes."""
    out, written, real = tmp_path / "run", [], files.write_whole

    def pressed(path, *rest, **more):
        written.append(path)
        if len(written) == 4:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        if path.name == "manifest.json" and len(written) > 4:
            signal.raise_signal(signal.SIGINT)
        real(path, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_whole", pressed)
        patch.setattr(writer.sgf, "write_whole", pressed)
        assert selfplay(out) == 130
    assert json.loads((out / "manifest.json").read_text())["state"] == "stopped"
    assert "(stopped; --resume continues)" in capsys.readouterr().out
    check_part(out, whole[0])
    assert len(list((out / "games").glob("*.sgf"))) == len(
        np.unique(shards.read_folder(out)[1].game)
    )
    assert selfplay(out, "--resume") == 0
    check_whole(out, whole[0])
    capsys.readouterr()
    assert selfplay(out, "--resume") == 0
    assert "is complete, with 6 games" in capsys.readouterr().out
    assert selfplay(out) == 2
    assert "continue its run with --resume" in capsys.readouterr().err
    assert selfplay(out, "--resume", "--komi", "6.5") == 2
    assert "--komi was 5.5 and is 6.5" in capsys.readouterr().err
    assert selfplay(tmp_path / "none", "--resume") == 2
    assert "--resume: there is no run in" in capsys.readouterr().err


VALUES = (None, [[0, 2**62]], -1, 2**70, "x", [], {}, [[]], [[-1, 3]], 1.5)


@pytest.mark.parametrize(
    "values", [pytest.param(VALUES, marks=pytest.mark.slow, id="all"), VALUES[:2]]
)
def test_an_invalid_state_is_refused_in_one_line(whole, tmp_path, monkeypatch, capsys, values):
    out, real = tmp_path / "run", app._Run._report

    def stopped(run, progress):
        real(run, progress)
        if run.writer.num_games >= 2:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(app._Run, "_report", stopped)
        assert selfplay(out) == runtime.TERMINATED
    path = out / states.STATE
    kept, (held, about) = path.read_bytes(), arrays.read(path, states.KIND)
    for name in ("open", "counted"):
        for value in values:
            arrays.write(path, states.KIND, held, about | {name: value})
            assert selfplay(out, "--resume") == 2, (name, value)
    for name in about["counted"]:
        for value in values:
            changed = about["counted"] | {name: value}
            arrays.write(path, states.KIND, held, about | {"counted": changed})
            if (value == [] and name == "published") or (value == 1.5 and name == "seconds"):
                continue
            assert selfplay(out, "--resume") == 2, (name, value)
    path.write_bytes(kept[:-1])
    assert selfplay(out, "--resume") == 2
    lines = capsys.readouterr().err.splitlines()
    complaints = [line for line in lines if line.startswith("gozero selfplay: ")]
    assert all(re.search(r"state|damaged", line) for line in complaints), complaints
    assert not any("Traceback" in line for line in lines)
    path.write_bytes(kept)
    assert selfplay(out, "--resume") == 0
    check_whole(out, whole[0])


CODE = """
import pathlib, sys
from gozero.apps import runtime
runtime.prepare()
from gozero.apps.selfplay import play, writer
from tests.attack import selfplay_runs
selfplay_runs.make_small(setattr)
writer.ROWS_AT_RISK = 200
real = play._Run.play
def play_on(run, *rest):
    print("playing", file=sys.stderr, flush=True)
    return real(run, *rest)
play._Run.play = play_on
sys.exit(selfplay_runs.selfplay(pathlib.Path(sys.argv[1]), *sys.argv[2:], games=%d, batch=16))
"""


def begun(out, as_here, *more):
    """The process of a run, once it plays."""
    command = [sys.executable, "-c", CODE % MANY_GAMES, str(out), *more]
    process = subprocess.Popen(command, cwd=ROOT, env=as_here, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line == "playing\n":
            break
    return process


@pytest.mark.slow
def test_kills_at_any_moment(tmp_path, as_here):
    """Each run is killed three times; a kill costs the rows of a few games at most."""
    whole, rng, lost = tmp_path / "whole", np.random.default_rng(SEED), []
    process, started = begun(whole, as_here), time.monotonic()
    process.communicate()
    assert process.returncode == 0
    seconds = time.monotonic() - started
    for run in range(KILLS // 3):
        out, more = tmp_path / str(run), []
        for _ in range(3):
            process = begun(out, as_here, *more)
            time.sleep(rng.uniform(0, 0.4 * seconds))
            process.kill()
            process.communicate()
            for part in out.rglob("*.part"):
                part.unlink()
            check_part(out, whole)
            names = {int(path.stem) for path in (out / "games").glob("*.sgf")}
            there = list((out / shards.FOLDER).glob("*.npz"))
            rows = set(shards.read_folder(out)[1].game.tolist()) if there else set()
            lost.append(len(names - rows))
            more = ["--resume"]
        process = begun(out, as_here, *more)
        process.communicate()
        assert process.returncode == 0
        check_whole(out, whole)
    print(f"{seconds:.1f} s unbroken; finished games without rows at each kill: {lost}")
    assert max(lost) < 40


@pytest.mark.thorough
def test_games_that_are_too_large_to_be_saved_are_told(tmp_path, monkeypatch, capsys):
    out, real = tmp_path / "run", files.write_whole

    def pressed(path, *rest, **more):
        if path.suffix == ".sgf":
            signal.raise_signal(signal.SIGINT)
        real(path, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(arrays, "MOST_BYTES", 1)
        patch.setattr(files, "write_whole", pressed)
        patch.setattr(writer.sgf, "write_whole", pressed)
        assert selfplay(out) == 130
    found = capsys.readouterr()
    assert (
        found.err.count("too large to be saved; if this run stops, --resume begins with its") == 1
    )
    assert "(stopped; its games in play are not saved)" in found.out
    assert not (out / states.STATE).exists()
