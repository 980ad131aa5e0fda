"""Child processes that measure on a chosen number of cores.

XLA chooses its number of threads when JAX starts, from the cores that the process may then use. So
what is measured "per core" runs in a child that first pins itself to one core. Several children can
be alive at once, each with its program compiled and waiting, and be measured in turn.

    with Worker("experiments.throughput.yardstick:make_rate", 1, size=9, ...) as yardstick:
        rate = yardstick()
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]


def pin(cores: int) -> None:
    """Pins this process, and those it starts, to this many cores: the last that it may use.

    Does nothing where the system does not support this (macOS, Windows).
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])


def num_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Worker:
    """A child process on the CPU that measures one thing each time it is called.

    Args:
      task: "module:function"; the function takes `parameters` and returns a function that
        measures once and returns the figure. Before the constructor returns, the child makes the
        latter and calls it once, which compiles everything.
      cores: the number of cores that the child is pinned to; JAX sees as many devices.
      parameters: the arguments of `task`; must survive JSON.

    Raises:
      RuntimeError: if the child ended; the reason is on stderr.
    """

    def __init__(self, task: str, cores: int, **parameters: Any):
        request = json.dumps({"task": task, "cores": cores, "parameters": parameters})
        self._child = subprocess.Popen(
            [sys.executable, "-m", "experiments.throughput.worker", request],
            cwd=ROOT,
            env={**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(cores)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._name = task
        self._answer()

    def __call__(self) -> float:
        assert self._child.stdin is not None
        self._child.stdin.write("measure\n")
        self._child.stdin.flush()
        return self._answer()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()  # closing its input ends it

    def _answer(self) -> float:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            self.__exit__()
            raise RuntimeError(f"{self._name}: ended with status {self._child.returncode}")
        return json.loads(line)


def main() -> None:
    request = json.loads(sys.argv[1])
    pin(request["cores"])
    module, _, function = request["task"].partition(":")
    measure = getattr(importlib.import_module(module), function)(**request["parameters"])
    print(json.dumps(measure()), flush=True)
    for _ in sys.stdin:
        print(json.dumps(measure()), flush=True)


if __name__ == "__main__":
    main()
