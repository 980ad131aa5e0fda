"""Loads the programs that a command used the last time while the command starts.

An engine's first move waits long for its programs, which are loaded one by one as they are called
(19x19, jax 0.10.1). Here two threads load them while Python is still importing, which holds no lock
that they need. A file beside the programs lists those of a command line, in the order in which they
were first used.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import pathlib
from collections.abc import Sequence

from gozero.compile import executables

MAX_PROGRAMS = 32
"""The most programs that are listed for a command line."""

_THREADS = 2


def load(command: Sequence[str]) -> None:
    """Begins to load the programs that a command line used last time; records those it uses now.

    JAX must have started. Raises nothing: a program that is not loaded this way is loaded, or
    compiled, when it is called.
    """
    with contextlib.suppress(Exception):
        if (place := executables.folder()) is not None:
            path = place / executables.name_of("taken by", list(command))
            names = _read(path)
            executables.on_first_use = _UsageLog(path, names)
            pool = concurrent.futures.ThreadPoolExecutor(_THREADS)
            for name in names:
                executables.loading[name] = pool.submit(executables.load, place / name)
            pool.shutdown(wait=False)


class _UsageLog:
    """Records the names of programs in the order in which they are used; names from the last time
    that are not used come last."""

    def __init__(self, path: pathlib.Path, names: list[str]):
        self._path, self._names, self._now = path, names, []

    def __call__(self, name: str) -> None:
        self._now.append(name)
        names = list(dict.fromkeys(self._now + self._names))[:MAX_PROGRAMS]
        if names[: len(self._now)] != self._names[: len(self._now)]:
            self._names = names
            with contextlib.suppress(OSError):
                executables.write(self._path, "\n".join(names).encode())


def _read(path: pathlib.Path) -> list[str]:
    try:
        names = executables.read(path).decode().split()
    except (OSError, ValueError):
        return []
    return [name for name in names[:MAX_PROGRAMS] if name == pathlib.Path(name).name]
