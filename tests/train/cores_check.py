"""Run by test_redistribute.py in its own process, with four devices for four CPU cores."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import signal
import sys
from unittest import mock

from tests.train import tiny
from tests.train.tiny import untimed
from train import checkpoint, folder, loop, run

CORES = {"devices": None, "batch": 32, "batch_size": 32, "pool_every": 0, "opening_plies": 0}


def main(out: pathlib.Path) -> None:
    """Run four iterations, and again with a SIGTERM in the second: the results are the same."""
    played(out / "whole")
    with mock.patch.object(loop.Loop, "iterate", stopped_in_the_second(loop.Loop.iterate)):
        played(out / "parts", status=143)
    assert len(folder.read_lines(out / "parts/metrics.jsonl")) == 2
    played(out / "parts")
    whole, parts = (
        [untimed(line) for line in folder.read_lines(out / name / "metrics.jsonl")]
        for name in ("whole", "parts")
    )
    assert whole == parts
    assert whole[-1]["steps"] > 0
    assert (out / "whole/weights.safetensors").read_bytes() == (
        out / "parts/weights.safetensors"
    ).read_bytes()


def stopped_in_the_second(iterate):
    def stopped(self, goes_on):
        if self.iteration == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return iterate(self, goes_on)

    return stopped


def played(out: pathlib.Path, status: int = 0) -> None:
    stderr = io.StringIO()
    with contextlib.redirect_stderr(stderr):
        assert run.run(tiny.config(out, **CORES), on_cores=True) == status
    assert "not bit for bit" not in stderr.getvalue()
    newest, *_ = checkpoint.saved_in(out / "checkpoints")
    assert checkpoint.lanes_of(newest) == (4, 8)
    assert json.loads((out / "manifest.json").read_text())["devices"] == 4


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
    print("stopped or not, one run")
