"""Programs in which the devices of a mesh wait for each other, also on a CPU.

On a CPU the devices are cores, which other work may occupy, so XLA:CPU needs two things that other
backends do not: a longer timeout than its default, and few programs in flight.
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
    """Compile the result of ``jax.jit(...).lower`` for the devices of a mesh.

    By default XLA:CPU ends the process when a device has waited 40 seconds for the others; here it
    waits a week. (jaxlib before 0.10 has no such option.)
    """
    if not _is_cpu_mesh(mesh) or version.__version_info__ < (0, 10):
        return lowered.compile()
    options = {"xla_cpu_collective_call_terminate_timeout_seconds": _WEEK}
    return lowered.compile(compiler_options=options)


def compiled_when_called(program: Any, mesh: Mesh) -> Callable:
    """A ``jax.jit`` function as `compiled`, for the arguments of its first call; later ones must
    have the same shapes, dtypes and shardings."""
    made: list[Callable] = []

    def call(*args: Any) -> Any:
        if not made:
            made.append(compiled(program.lower(*args), mesh))
        return made[0](*args)

    return call


def one_in_flight(outputs: Any, mesh: Mesh) -> None:
    """Wait for the outputs of a program, on a backend where the next must not start before.

    With some 30 programs in flight, XLA:CPU deadlocks: one device waits for a free slot to start
    another program, while the other devices wait for that device.
    """
    if _is_cpu_mesh(mesh):
        jax.block_until_ready(outputs)


def _is_cpu_mesh(mesh: Mesh) -> bool:
    return mesh.size > 1 and mode.backend() == "cpu"
