"""Run by test_hosts.py as each process of a run; its flags are added after the preset."""

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
    """A run on $DEVICES devices, whose second process gets SIGTERM in its first iteration.

    If $UNSTOPPED is set, nothing stops or kills a process. Otherwise process $KILLED kills itself
    in its last iteration. If $UNCHECKED is set, the rows of shards are not checked.
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
