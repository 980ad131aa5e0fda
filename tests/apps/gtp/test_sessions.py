"""Whole sessions of the engine as a program: it obeys soon. Slow."""

import queue
import subprocess
import sys
import threading
import time

import pytest

pytestmark = pytest.mark.slow
OURS = [sys.executable, "-m", "gozero.apps.cli", "gtp", "--evaluator", "playout", "--size", "5"]


class Session:
    """The engine, and when it says what."""

    def __init__(self, *flags: str):
        self._process = subprocess.Popen(
            [*OURS, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._said: queue.Queue[tuple[float, str]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self._said.put((time.monotonic(), line.rstrip("\n")))

    def send(self, line: str) -> float:
        sent = time.monotonic()
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return sent

    def wait_for(self, start: str, timeout: float = 120.0) -> float:
        """When a line came that starts so, of those that nobody has waited for."""
        while True:
            when, line = self._said.get(timeout=timeout)
            if line.startswith(start):
                return when

    def end(self) -> int:
        self._process.stdin.close()
        status = self._process.wait(60)
        self._reader.join(60)
        self._process.stdout.close()
        return status


def test_whatever_is_sent_is_obeyed_within_200_ms():
    session, late = Session("--simulations", "100000", "--no-reuse"), []
    for line in ("1 kata-analyze b 10 ownership true", "2 lz-analyze 10 minmoves 5"):
        session.send(line)
        session.wait_for("info ")
        time.sleep(1.0)
        for number in range(20):  # one after the other
            sent = session.send(f"{100 + number} name")
            late.append(session.wait_for(f"={100 + number}") - sent)
            session.send(line)
            session.wait_for("info ")
    session.send("3 genmove b")
    session.send("stop")
    session.wait_for("=3")  # compiled
    for number in range(10):
        session.send(f"{200 + number} genmove w")
        time.sleep(0.5)
        sent = session.send("stop")
        late.append(session.wait_for(f"={200 + number}") - sent)
    session.send("quit")
    assert session.end() == 0
    late.sort()
    print("s until obeyed: median", round(late[len(late) // 2], 3), "longest", round(late[-1], 3))
    assert late[-1] < 0.2
