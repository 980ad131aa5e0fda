"""Programs of several devices: with the timeout that they need on a CPU."""

from __future__ import annotations

import types

import jax
import numpy as np

from gozero.compile import collectives
from gozero.play import devices


def test_devices_of_a_cpu_wait_for_longer_than_xla_lets_them():
    def compile(compiler_options=None):
        options.append(compiler_options)
        return lambda *args: sum(args)

    def lower(*args):
        lowered.append(args)
        return types.SimpleNamespace(compile=compile)

    options: list = []
    lowered: list = []
    mesh = types.SimpleNamespace(size=2)
    call = collectives.compiled_when_called(types.SimpleNamespace(lower=lower), mesh)
    assert not options
    assert (call(1, 2), call(3, 4)) == (3, 7)
    assert lowered == [(1, 2)]
    assert options == [{"xla_cpu_collective_call_terminate_timeout_seconds": 7 * 24 * 3600}]


def test_a_program_compiled_when_called():
    call = collectives.compiled_when_called(jax.jit(lambda x: x + 1), devices.mesh_of(1))
    assert call(np.float32(2)) == 3
    assert call(np.float32(5)) == 6
