"""The metrics for TensorBoard."""

from __future__ import annotations

import sys

import pytest

from tests.train import tiny
from tests.train.events import events_of
from train import run
from train.tensorboard import EventWriter

LINE = {
    "iteration": 1,
    "games": 3,
    "losses": {"policy": 1.5},
    "by_komi": {"7": [1, 2]},
    "elo": None,
}


def test_a_resumed_run_has_one_curve(tmp_path):
    with EventWriter(tmp_path) as events:
        events.add(LINE)
        events.add(LINE | {"iteration": 2, "games": 9})
    with EventWriter(tmp_path, [LINE]) as events:
        events.add(LINE | {"iteration": 2, "games": 4})
        events.add(LINE | {"iteration": 2, "games": 4, "elo": 10.5})
    assert events_of(tmp_path) == {
        "iteration": {1: 1, 2: 2},
        "games": {1: 3, 2: 4},
        "losses/policy": {1: 1.5, 2: 1.5},
        "elo": {2: 10.5},
    }


def test_a_full_disk_is_reported_at_once(tmp_path):
    with EventWriter(tmp_path) as events:
        recorded = events._writer._py_recordio_writer
        with open("/dev/full", "wb", buffering=0) as full, pytest.MonkeyPatch.context() as patch:
            patch.setattr(recorded, "_writer", full)
            with pytest.raises(OSError, match="No space left"):
                events.add(LINE)


def test_a_missing_writer_is_one_line_and_leaves_no_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    monkeypatch.setattr(run, "parse", lambda argv: tiny.config(tmp_path / "run", tensorboard=True))
    with pytest.raises(SystemExit) as status:
        run.main([])
    assert status.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "python -m train: --tensorboard: tensorboardX is not installed; "
        "pip install -e '.[tensorboard]'"
    )
    assert not (tmp_path / "run").exists()
