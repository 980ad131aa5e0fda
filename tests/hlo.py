"""Compiled code: options as users have them, and the whole-array copies that loops make."""

from __future__ import annotations

import os
import re

from jaxlib import version

QUICK = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
"""XLA's own passes stay the same. LLVM takes half the time and compiles a program as a whole, as
splitting it among threads takes a tenth longer and the other core runs tests too."""

EMITTERS = "xla_cpu_use_fusion_emitters"
KNOWN = version.__version_info__ < (0, 11)
"""Whether jaxlib has a choice of emitters: 0.7.2 to 0.10.2 have, 0.12 has one kind and no flag."""

AS_USERS_FUSE = {EMITTERS: True} if KNOWN else {}
AS_USERS_HAVE_IT = {"xla_backend_optimization_level": 3, **AS_USERS_FUSE}
"""Compiler options for tests that depend on optimisation; conftest turns it down otherwise."""

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(r"%?([\w.\-]+) = \(?(\w+)\[([\d,]*)\]\S* ([\w\-]+)\(")
_CALLED = re.compile(r"(?:body|condition|to_apply|calls|branch_computations)=\{?%?([\w.\-, %]+)\}?")
_MOVES = {"copy", "copy-start", "select", "transpose"}


def xla_flags(*flags: str) -> str:
    """These flags followed by the environment's XLA_FLAGS, which take precedence."""
    return " ".join(filter(None, (*flags, os.environ.get("XLA_FLAGS"))))


def moves_in_loops(text: str, leading: int) -> list[str]:
    """Copies, selects and transposes of arrays [leading, ...] inside while loops.

    A loop's body and condition count with everything they call, fusions included.
    """
    lines: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        match = _COMPUTATION.match(line)
        if match:
            name = match.group(2)
            lines[name] = []
        elif name:
            lines[name].append(line)
    inside = _reachable(lines, _loop_bodies(lines))
    found = []
    for computation in inside:
        for line in lines.get(computation, ()):
            match = _INSTRUCTION.search(line)
            if match and match.group(4) in _MOVES:
                shape = match.group(3).split(",")
                if shape[0] == str(leading):
                    found.append(f"{computation}: {line.strip()[:140]}")
    return found


def _loop_bodies(lines):
    bodies = set()
    for body in lines.values():
        for line in body:
            if " while(" in line:
                bodies.update(re.findall(r"(?:body|condition)=%?([\w.\-]+)", line))
    return bodies


def _reachable(lines, start):
    seen, todo = set(), list(start)
    while todo:
        computation = todo.pop()
        if computation in seen:
            continue
        seen.add(computation)
        for line in lines.get(computation, ()):
            for group in _CALLED.findall(line):
                todo += [name.strip(" %") for name in group.split(",")]
    return seen
