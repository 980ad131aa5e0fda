"""Launches by the host per simulation on an H100, by what XLA may put into command buffers.

    python -m experiments.accelerators.launches      # needs no GPU, but the extra gpu-ahead

A command buffer is a part of a program that is recorded once and launched as a whole. The compiler
dumps (`--xla_dump_to`) these parts in a list of thunks: kernels, buffers, loops.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

import jax

from experiments.accelerators.config import RESULTS
from experiments.output import appended_csv
from gozero.runs import folder as folders

PROGRAMS = "search-9x9", "puct-9x9", "rave-9x9"
_DEFAULT = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,COLLECTIVES,DYNAMIC_SLICE_FUSION"
BUFFERS = {  # what goes into command buffers
    "nothing": "--xla_gpu_enable_command_buffer=",
    "by default": "",
    "convolutions too": f"--xla_gpu_enable_command_buffer={_DEFAULT},CONVOLUTION",
    "loops and branches too": (
        f"--xla_gpu_enable_command_buffer={_DEFAULT},CONVOLUTION,WHILE,CONDITIONAL"
    ),
}
_THUNK = re.compile(r"( *)\d+: k(\w+)")
_NO_LAUNCH = {"While", "Conditional", "Sequential"}


class Launches(NamedTuple):
    """Launches of a program with one hot loop, the loop with most thunks."""

    a_round: int  # launches per round; 0: the loop is part of a command buffer
    around: int  # launches per call, outside the loop
    kernels: int  # kernels per round, including those in buffers


def read(text: str) -> Launches:
    """Parses the compiler's list of thunks, whose indentation shows their nesting.

    A loop's condition does not count, since it is not run in a loop of known length.
    """
    stack: list[tuple[int, str, int]] = []  # (indent, kind, line) of the enclosing thunks
    thunks: list[tuple[str, list[tuple[int, str, int]]]] = []
    is_condition = False
    for number, line in enumerate(text.splitlines()):
        is_condition = line.strip() == "condition:" or (is_condition and line.strip() != "body:")
        thunk = _THUNK.match(line)
        if thunk is None or is_condition:
            continue
        indent, kind = len(thunk[1]), thunk[2]
        stack = [above for above in stack if above[0] < indent]
        thunks.append((kind, list(stack)))
        stack.append((indent, kind, number))
    loops = [above[2] for _, parents in thunks for above in parents if above[1] == "While"]
    hot = max(set(loops), key=loops.count) if loops else None
    within = lambda parents: any(above[2] == hot for above in parents)
    in_buffer = lambda parents: any(above[1] == "CommandBuffer" for above in parents)
    launched = [
        within(parents)
        for kind, parents in thunks
        if kind not in _NO_LAUNCH and not in_buffer(parents)
    ]
    kernels = sum(
        within(parents) and kind not in _NO_LAUNCH | {"CommandBuffer"} for kind, parents in thunks
    )
    return Launches(sum(launched), len(launched) - sum(launched), kernels)


def of_program(program: str, flags: str) -> Launches:
    """Compiles a program in a process of its own, since XLA reads its flags only once.

    Raises:
      subprocess.CalledProcessError, ValueError: if it did not compile.
    """
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"--xla_dump_to={folder} {flags}",
        }
        command = [sys.executable, "-m", "experiments.accelerators.row", program, "h100"]
        subprocess.run(command, env=env, check=True, capture_output=True)
        dumps = list(pathlib.Path(folder).glob("*jit_run.thunk_sequence*.txt"))
        # The final list, if passes changed it; without buffers they do not.
        return read(max(dumps, key=lambda path: "after" in path.name).read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description="Launches of a simulation on an H100.")
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS))
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS / "launches.csv")
    args = parser.parse_args()
    about = {"jax": jax.__version__, "commit": folders.commit().get("git_commit")}
    with appended_csv(args.out) as add:
        for program, (buffers, flags) in itertools.product(args.programs, BUFFERS.items()):
            counts: dict[str, Any] = of_program(program, flags)._asdict()
            add({"program": program, "buffers": buffers} | counts | about)
            print(program, buffers, *counts.values(), flush=True)


if __name__ == "__main__":
    main()
