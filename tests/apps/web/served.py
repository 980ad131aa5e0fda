"""``gozero web`` itself, in its own process."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys


@contextlib.contextmanager
def served(folder, *flags):
    """Yields (its address, its process); then ends it with Ctrl-C, which leaves no traceback."""
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
