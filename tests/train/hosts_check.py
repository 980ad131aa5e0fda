"""Run by test_hosts.py, as each of the processes of a run; the flags come after the preset."""

from __future__ import annotations

import os
import signal
import sys

import jax

from gozero.play import row_checks
from tests.train import tiny
from train import presets, run
from train.loop import Loop

DEVICES = 2


def main() -> int:
    """A run on $DEVICES devices; the second process is told to stop in its first iteration.

    Not where $UNSTOPPED is set. The process $KILLED kills itself in its last iteration. Where
    $UNCHECKED is set, rows of shards are believed.
    """
    if os.environ.get("UNCHECKED"):
        row_checks.check = lambda rules, rows: None
    iterate = Loop.iterate

    def told_to_stop(loop, *how):
        if loop.iteration == 0 and jax.process_index() == 1:  # in the first
            os.kill(os.getpid(), signal.SIGTERM)
        if loop.iteration == 3 and str(jax.process_index()) == os.environ.get("KILLED"):
            os.kill(os.getpid(), signal.SIGKILL)
        return iterate(loop, *how)

    if not os.environ.get("UNSTOPPED"):
        Loop.iterate = told_to_stop
    presets.PRESETS["tiny"] = tiny.config(devices=int(os.environ.get("DEVICES", DEVICES)))
    return run.main(["--preset", "tiny", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
