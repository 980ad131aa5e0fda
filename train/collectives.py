"""Programs in which the devices of a mesh wait for each other, on a CPU too.

There devices are cores, which other work may take, and XLA:CPU asks for two things that others do
not: a longer wait than its own, and few programs in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh
from jaxlib import version

from gozero.compile import mode

_WEEK = 7 * 24 * 3600


def compiled(lowered: Any, mesh: Mesh) -> Callable:
    """The program of what ``jax.jit(...).lower`` gives for the devices of a mesh.

    XLA:CPU ends the process where a device has waited for the others for 40 seconds; with this, a
    week. (jaxlib before 0.10 has no such option.)
    """
    if not _is_of_cores(mesh) or version.__version_info__ < (0, 10):
        return lowered.compile()
    options = {"xla_cpu_collective_call_terminate_timeout_seconds": _WEEK}
    return lowered.compile(compiler_options=options)


def one_in_flight(made: Any, mesh: Mesh) -> None:
    """Wait for what a program makes, where the next may not be begun before.

    With some 30 in flight one device of XLA:CPU waits for room for another program, and those that
    it keeps waiting for theirs to end.
    """
    if _is_of_cores(mesh):
        jax.block_until_ready(made)


def _is_of_cores(mesh: Mesh) -> bool:
    return mesh.size > 1 and mode.backend() == "cpu"
