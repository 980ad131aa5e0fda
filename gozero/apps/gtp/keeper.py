"""Runs a program for a controller, so that no process it starts outlives either of them.

    python -I -S keeper.py SOCKET PROGRAM [ARGUMENT...]

SOCKET is the number of a file descriptor. The controller holds its other end, and is sent ``+``,
or ``-`` and the reason why the program cannot be started. When that end is closed, by the
controller or by its death, the program and all its descendants are killed. When the program ends,
its remaining descendants get a moment for their last output and are killed too; then the keeper
ends with the program's status.

The keeper is a subreaper: descendants whose parents are gone become its children, whatever session
they are in. Only Linux has that; elsewhere the process group is killed. The keeper imports nothing
of this package, so that it starts in a few milliseconds.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time

_OUTPUT_GRACE = 0.5  # seconds
_TO_KILL = 5.0  # seconds after which it gives up killing
_PR_SET_CHILD_SUBREAPER = 36
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def main(lifeline: int, command: list[str]) -> int:
    """Run a program and watch it; returns its exit code, or minus the signal that ended it."""
    os.set_inheritable(lifeline, False)
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake_reader = _wake_up_by_signals()
    try:
        defaults = [signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores these
        program = os.posix_spawnp(command[0], command, os.environ, setsigdef=defaults)
    except OSError as error:
        os.write(lifeline, f"-{error}".encode())
        return 1
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # the standard streams are the program's alone
        os.dup2(devnull, stream)
    with contextlib.suppress(OSError):  # the controller is gone already
        os.write(lifeline, b"+")
    status = _until_the_end(lifeline, wake_reader, program)
    kill_status = _kill_all(program)
    return kill_status if status is None else status


def _wake_up_by_signals() -> int:
    """A file descriptor that becomes readable when a child ends, or a signal asks us to end."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *_ENDING):
        signal.signal(number, lambda *_: None)
    return reader


def _until_the_end(lifeline: int, wake_reader: int, program: int) -> int | None:
    """Wait for the program and, for a moment longer, its children; returns the program's status,
    or None if it is still running and is to be killed."""
    status, deadline = None, None
    while True:
        timeout = None if deadline is None else max(deadline - time.monotonic(), 0)
        ready = select.select([lifeline, wake_reader], [], [], timeout)[0]
        numbers = os.read(wake_reader, 4096) if wake_reader in ready else b""
        if lifeline in ready or not ready or any(number in numbers for number in _ENDING):
            return status
        no_children, exit_status = _reap(program)
        if exit_status is not None:
            status, deadline = exit_status, time.monotonic() + _OUTPUT_GRACE
        if no_children:
            return status


def _reap(program: int) -> tuple[bool, int | None]:
    """(whether there are no children left, the program's status if it has just ended)."""
    status = None
    while True:
        try:
            pid, wait_status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True, status
        if pid == 0:
            return False, status
        if pid == program:
            status = os.waitstatus_to_exitcode(wait_status)


def _kill_all(program: int) -> int:
    """Kill all descendants, also those started meanwhile; returns the program's status."""
    status, deadline = -signal.SIGKILL, time.monotonic() + _TO_KILL
    if not os.path.exists("/proc/self/stat"):
        os.killpg(0, signal.SIGKILL)
    while time.monotonic() < deadline:
        for pid in _descendants():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        no_children, exit_status = _reap(program)
        status = status if exit_status is None else exit_status
        if no_children:
            break
        time.sleep(0.002)
    return status


def _descendants() -> list[int]:
    parents = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit():
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    family = [os.getpid()]
    for parent in family:
        family += [pid for pid, parent_id in parents.items() if parent_id == parent]
    return family[1:]


def _end_as(code: int) -> None:
    """Exit with a code, or by a signal but without a core dump."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    _end_as(main(int(sys.argv[1]), sys.argv[2:]))
