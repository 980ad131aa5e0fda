"""``gozero web`` itself, in a process of its own."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys


@contextlib.contextmanager
def served(folder, *flags):
    """(its address, its process); it ends by Ctrl-C, without a traceback."""
    command = [sys.executable, "-m", "gozero.apps.cli", "web", *flags]
    with (
        (folder / "stderr").open("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()
        errors.seek(0)
        assert "Traceback" not in errors.read()
