"""The controller's side of GTP: drives another program, an engine in its own process."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import pathlib
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import IO, cast

_STDERR_LINES = 10  # the last lines, kept to be shown with an error
_GRACE = 2.0  # seconds for a program to exit by itself
_LONGEST = 2**20  # characters of an answer
_LINE_LENGTH = 2**16  # longer lines are split
_WAITING = 256  # unread lines; beyond these, the program must wait
_QUIET = 0.5  # seconds for the last output of a program that has ended to arrive
_KEEPER = pathlib.Path(__file__).with_name("keeper.py")
_KEEPER_GRACE = 10.0  # seconds for the keeper to end all processes that a program started
_LONGEST_QUOTE = 300  # characters of a program's output that an error quotes


class GtpError(Exception):
    """The engine answered `?`: it refused the command."""


class EngineFailed(RuntimeError):
    """The engine can no longer be used; the text ends with its last lines on stderr."""


class EngineNotStarted(EngineFailed):
    """There is no such program, or it cannot be started now; it has not run."""


class EngineDied(EngineFailed):
    """The engine's process ended."""


class EngineTimeout(EngineFailed, TimeoutError):
    """The engine gave no answer in time."""


class EngineConfused(EngineFailed):
    """The engine sent something that is not GTP."""


class GtpClient:
    """An engine in a process of its own, driven over GTP. A context manager.

    A `keeper` runs beside it, so that neither the engine nor anything it has started outlives this
    process, however this one ends.

    Args:
      command: the program and its arguments.
      name: its name in messages; None to ask the engine.
      timeout: seconds that each answer may take.

    Raises:
      EngineFailed: it cannot be started, or does not answer when asked for its name.
    """

    def __init__(self, command: list[str], name: str | None = None, timeout: float = 60.0):
        self.command, self.timeout = command, timeout
        self.name = name or command[0]
        try:
            self._process = self._start()
        except OSError as error:
            raise EngineNotStarted(f"{self.name}: cannot be started: {error}") from error
        self._stdin = cast(IO[str], self._process.stdin)
        self._lines: queue.Queue[str | None] = queue.Queue(_WAITING)  # None at the end
        self._is_closed = False  # its output is no longer read
        self._was_killed = False  # it had to be killed
        self._ended = False  # all its processes have ended, and its id may be reused
        self._last_stderr: collections.deque[str] = collections.deque(maxlen=_STDERR_LINES)
        self._readers = [
            _start_reader(self._process.stdout, self._enqueue, at_end=None),
            _start_reader(
                self._process.stderr, lambda line: self._last_stderr.append(shortened(line))
            ),
        ]
        if name is None:
            with contextlib.suppress(GtpError):
                self.name = shortened(self.send("name")) or self.name

    def _start(self) -> subprocess.Popen[str]:
        """Start the program's keeper; its standard streams are the program's.

        Raises:
          OSError: the program, or the keeper, cannot be started.
        """
        self._lifeline, keeper_socket = socket.socketpair()
        descriptor = str(keeper_socket.fileno())
        with keeper_socket, contextlib.ExitStack() as on_failure:
            on_failure.callback(self._lifeline.close)
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER), descriptor, *self.command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                pass_fds=[keeper_socket.fileno()],
                process_group=0,  # so that Ctrl-C reaches only us; we send quit
            )
            keeper_socket.close()
            reply = self._lifeline.recv(4096).decode("utf-8", "replace")
            if reply != "+":
                process.communicate()
                raise OSError(reply.removeprefix("-") or "its keeper ended")
            on_failure.pop_all()
            return process

    def __enter__(self) -> GtpClient:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def send(self, command: str, timeout: float | None = None) -> str:
        """Send a command and return its answer, without the `=`; `timeout` replaces the usual one.

        Raises:
          GtpError: the engine answered `?`.
          EngineFailed: the engine died, hung or sent something else; it is then stopped.
          ValueError: the command is not one line.
        """
        if not command.strip() or not command.isprintable():
            raise ValueError(f"{command!r} is not one line of GTP")
        try:
            is_writable = self._is_writable(self.timeout)
            if is_writable:
                self._stdin.write(command + "\n")
                self._stdin.flush()
        except (OSError, ValueError) as error:
            raise self._failed(EngineDied, f"ended before {command!r}") from error
        if not is_writable:
            raise self._failed(EngineTimeout, f"has not read the input before {command!r}")
        lines = self._answer(command, self.timeout if timeout is None else timeout)
        status, text = lines[0][:1], "\n".join([lines[0][1:].lstrip(" "), *lines[1:]])
        if status == "=":
            return text
        if status == "?":
            raise GtpError(f"{self.name}: {command!r} answered: {shortened(text)}")
        problem = f"answered {command!r} with {shortened(lines[0])!r}; expected = or ?"
        raise self._failed(EngineConfused, problem)

    def _is_writable(self, seconds: float) -> bool:
        """Whether a command can be written within `seconds`; the program may not be reading."""
        poll = select.poll()
        poll.register(self._stdin, select.POLLOUT)
        return bool(poll.poll(1000 * seconds))

    def _answer(self, command: str, timeout: float) -> list[str]:
        """The lines of one answer; empty lines before it are skipped."""
        deadline, lines, length = time.monotonic() + timeout, [], 0
        has_ended = False  # though processes that it started may keep its output open
        while (remaining := deadline - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=min(remaining, _QUIET))
            except queue.Empty:
                if has_ended:
                    raise self._failed(EngineDied, f"ended at {command!r}") from None
                has_ended = self._process.poll() is not None
                continue
            if line is None:
                raise self._failed(EngineDied, f"ended at {command!r}")
            if line:
                lines.append(line)
            elif lines:
                return lines
            length += len(line) + 1
            if length > _LONGEST:
                problem = f"answered {command!r} with more than {_LONGEST:,} characters"
                raise self._failed(EngineConfused, problem)
        raise self._failed(EngineTimeout, f"gave no answer to {command!r} in {timeout:g} s")

    def _enqueue(self, line: str | None) -> None:
        """Queue a line for `_answer`, as soon as the queue is not full."""
        while not self._is_closed:
            with contextlib.suppress(queue.Full):
                self._lines.put(line, timeout=0.1)
                return

    def _failed(self, kind: type[EngineFailed], what: str) -> EngineFailed:
        """Stop the process, whose later output would be useless; returns the error to raise."""
        self._stop(_GRACE if kind is EngineDied else 0.2)  # its keeper ends a little after it
        status = ""
        if kind is EngineDied:
            exit_status = f"exit status {self._process.returncode}"
            status = (
                f" ({'it closed its output but kept running' if self._was_killed else exit_status})"
            )
        stderr_lines = "".join(f"\n  {line}" for line in self._last_stderr)
        return kind(
            f"{self.name}: {what}{status}" + (stderr_lines and f"; its stderr ends:{stderr_lines}")
        )

    def close(self) -> None:
        """Send quit, and end the process if it does not exit; may be called twice."""
        with contextlib.suppress(OSError, ValueError):
            if self._is_writable(0.0):
                self._stdin.write("quit\n")
            self._stdin.close()
        self._stop(_GRACE)

    @property
    def ended(self) -> bool:
        """Whether the engine has been stopped, with all its processes."""
        return self._ended

    def kill(self) -> None:
        """End the process, and what it has started, at once; from any thread. A `send` that waits
        for an answer then finds it dead."""
        self._lifeline.close()

    def _stop(self, grace: float) -> None:
        self._is_closed = True
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        self._was_killed = self._was_killed or self._process.poll() is None
        self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KEEPER_GRACE)
        if not self._ended and self._process.poll() in (None, -signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)  # the keeper itself may be killed
        self._process.wait()
        self._ended = True
        for reader in self._readers:
            reader.join(_GRACE)
        with contextlib.suppress(OSError):
            self._stdin.close()


def shortened(text: str) -> str:
    """A program's output as one line, for a message; only the beginning if it is long."""
    text = "".join(x if x.isprintable() else " " for x in text).strip()
    if len(text) <= _LONGEST_QUOTE:
        return text
    return f"{text[:_LONGEST_QUOTE]}... ({len(text):,} characters)"


def _start_reader(stream: IO[str] | None, put, **last) -> threading.Thread:
    """A thread that calls `put` on each line of the stream, then on `at_end` if that is given, and
    closes the stream."""

    def read():
        with contextlib.closing(cast(IO[str], stream)) as lines:
            for line in iter(functools.partial(lines.readline, _LINE_LENGTH), ""):
                put(line.rstrip())
        if last:
            put(last["at_end"])

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread
