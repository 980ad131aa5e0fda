"""Compiles programs for TPUs and GPUs on a machine that has only a CPU.

    target = ahead.target("v5e")                       # or v6e, v5p, h100, v5litepod-64, v5e:4x4
    compiled = ahead.compile(target, function, *args)  # from shapes; nothing is run
    compiled.temp_bytes, compiled.text                 # `gozero.compile.estimate` reads the text

The compiler is in libtpu (extra `tpu-ahead`) or in JAX's CUDA plugin (extra `gpu-ahead`); neither
looks for a device. JAX itself does when its backend starts: set JAX_PLATFORMS=cpu before that.

A program for several devices takes arguments with shardings on the target's mesh:

    mesh = ahead.target("v5litepod-64").mesh("device")
    shapes = ahead.place(shapes, NamedSharding(mesh, PartitionSpec("device")))

For a GPU nothing is autotuned, because autotuning runs kernels: matrix products and convolutions
are not the fastest that XLA would find on the card. (Seen with jax 0.10.1.)
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
import os
import re
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import AbstractMesh, AxisType, Mesh, SingleDeviceSharding

from gozero.compile import mode

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
    """A kind of device.

    Attributes:
      platform: "tpu", "gpu" or "cpu".
      kinds: JAX's names for it; for GPUs, prefixes of the names.
      memory_bytes: the memory of one device; 0 if it uses the host's.
    """

    platform: str
    kinds: tuple[str, ...]
    memory_bytes: int = 0

    def is_called(self, kind: str) -> bool:
        """Whether this is one of JAX's names for it."""
        return kind in self.kinds or (self.platform == "gpu" and kind.startswith(self.kinds))


CHIPS = {
    "v5e": Chip("tpu", ("TPU v5 lite", "TPU v5e"), 16 * GIB),
    "v6e": Chip("tpu", ("TPU v6 lite", "TPU v6e"), 32 * GIB),
    "v5p": Chip("tpu", ("TPU v5", "TPU v5p"), 95 * GIB),
    "h100": Chip("gpu", ("NVIDIA H100", "NVIDIA H200"), 80 * GIB),
    "cpu": Chip("cpu", ("cpu",)),
}
"""Chips by the names of their targets."""

_FLAT = {1: "", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_SOLID = {8: "2x2x1", 16: "2x2x2", 32: "2x2x4", 64: "2x4x4", 128: "4x4x4", 256: "4x4x8"}
_SLICES = {"v5litepod": ("v5e", _FLAT), "v6e": ("v6e", _FLAT), "v5p": ("v5p", _SOLID)}
"""The chip of a slice's name, and its topology by the number of cores; a v5p chip has two."""
_NAME = re.compile(r"(?P<chip>v5e|v6e|v5p|h100|cpu)(:(?P<topology>\d+(x\d+){1,2}))?")
_SLICE = re.compile(r"(?P<kind>v5litepod|v6e|v5p)-(?P<cores>\d+)")

_SMALLEST = {"v5e": "2x2", "v6e": "2x2", "v5p": "2x2x1"}  # one chip alone has no topology
_TPU_WITHOUT_A_HOST = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
_H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84978434048 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 } registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  driver_version: "12.9.0" runtime_version: "12.9.0" compile_time_toolkit_version: "12.9.0"
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 8 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
_UNTUNED = {"xla_gpu_autotune_level": 0}


class MissingCompiler(RuntimeError):
    """The library with the compiler for a target is not installed; names the extra that has it."""


@dataclasses.dataclass(frozen=True)
class Target:
    """The devices to compile for. Made by `target`.

    Attributes:
      name: the name given to `target`.
      chip: their kind, a key of `CHIPS`.
      topology: how they are connected, for example "4x4"; "" for a single device.
      is_here: whether they are JAX's own devices in this process, so that programs can run.
    """

    name: str
    chip: str
    topology: str = ""
    is_here: bool = False

    @property
    def platform(self) -> str:
        """ "tpu", "gpu" or "cpu", as in `mode.backend`."""
        return CHIPS[self.chip].platform

    @property
    def num_devices(self) -> int:
        """The number of devices that programs may use."""
        return _count(self.topology) if self.topology else 1

    @functools.cached_property
    def devices(self) -> list[Any]:
        """The devices; they cannot hold arrays unless `is_here`.

        Raises:
          MissingCompiler: the library that compiles for them is not installed.
          ValueError: there is no such topology, or there are too few devices here.
        """
        if self.platform == "cpu":
            try:
                available = jax.devices("cpu")
            except RuntimeError as error:
                raise ValueError(f"{self.name}: JAX_PLATFORMS excludes it") from error
        elif self.is_here:
            available = jax.devices()
        elif self.platform == "tpu":
            available = _tpu(self.chip, self.topology or _SMALLEST[self.chip])
        else:
            available = _gpu(self.num_devices)
        if len(available) < self.num_devices:
            raise ValueError(
                f"{self.name}: {self.num_devices} devices, but only {len(available)} are available"
            )
        return available[: self.num_devices]

    def mesh(self, axis: str) -> Mesh:
        """A mesh of all devices, on one axis."""
        return Mesh(np.array(self.devices), (axis,), axis_types=(AxisType.Auto,))


def target(name: str, is_here: bool = False) -> Target:
    """The target with this name.

    Args:
      name: one device of `CHIPS`; several, with a topology: v5e:4x4, h100:1x8; or a slice by its
        Google name, v5litepod-64 or v5p-128, whose number counts cores.
      is_here: whether JAX has such devices in this process and should compile for them; always
        true for a CPU.

    Raises:
      ValueError: there is no such target.
    """
    if match := _NAME.fullmatch(name):
        chip = match["chip"]
        return Target(name, chip, match["topology"] or "", is_here or chip == "cpu")
    if match := _SLICE.fullmatch(name):
        chip, topologies_ = _SLICES[match["kind"]]
        if (topology := topologies_.get(int(match["cores"]))) is not None:
            return Target(name, chip, topology, is_here)
    raise ValueError(
        f"target {name}: expected one of {', '.join(CHIPS)}, optionally with a topology as in "
        "v5e:4x4, or a slice such as v5litepod-64, v6e-8 or v5p-128"
    )


def _count(topology: str) -> int:
    return math.prod(map(int, topology.split("x")))


def _tpu(chip: str, topology: str) -> list[Any]:
    if importlib.util.find_spec("libtpu") is None:
        raise MissingCompiler("libtpu is not installed: pip install 'gozero[tpu-ahead]'")
    for name, value in _TPU_WITHOUT_A_HOST.items():
        os.environ.setdefault(name, value)
    os.environ["TPU_ACCELERATOR_TYPE"] = _slice_of(chip, _count(topology))
    try:
        return topologies.get_topology_desc(f"{chip}:{topology}", platform="tpu").devices
    except RuntimeError as error:
        raise ValueError(f"{chip}:{topology}: {' '.join(str(error).split())}") from error


def _slice_of(chip: str, chips: int) -> str:
    cores = 2 * chips if chip == "v5p" else chips
    return f"{'v5litepod' if chip == 'v5e' else chip}-{cores}"


def _gpu(num_devices: int) -> list[Any]:
    names = ("xla_cuda12", "xla_cuda13")
    plugins = importlib.util.find_spec("jax_plugins")
    if not plugins or not any(importlib.util.find_spec(f"jax_plugins.{name}") for name in names):
        message = "JAX's CUDA plugin is not installed: pip install 'gozero[gpu-ahead]'"
        raise MissingCompiler(message)
    return topologies.get_topology_desc(
        "h100", platform="cuda", target_config=_H100, topology=f"1x1x{num_devices}"
    ).devices


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled program, with what the compiler reports about it.

    Attributes:
      target: the target it was compiled for.
      program: JAX's compiled program; can be called if the target `is_here`.
      trace_seconds: the time of tracing and lowering.
      compile_seconds: the time of XLA; short if JAX's compilation cache had the program.
      compile_cpu_seconds: XLA's processor time, on all threads; the better measure if other
        processes use the machine.
    """

    target: Target
    program: jax.stages.Compiled
    trace_seconds: float
    compile_seconds: float
    compile_cpu_seconds: float

    @functools.cached_property
    def _memory(self) -> Any:
        return self.program.memory_analysis()

    @property
    def temp_bytes(self) -> int:
        """Bytes that a device needs while it runs, in addition to arguments and results."""
        return self._memory.temp_size_in_bytes

    @property
    def argument_bytes(self) -> int:
        """Bytes of the arguments, on one device."""
        return self._memory.argument_size_in_bytes

    @property
    def output_bytes(self) -> int:
        """Bytes of the results, on one device, that do not reuse donated arguments."""
        return self._memory.output_size_in_bytes - self._memory.alias_size_in_bytes

    @functools.cached_property
    def text(self) -> str:
        """The compiled HLO."""
        return self.program.as_text() or ""


def compile(target: Target, function: Callable, *args: Any) -> Compiled:
    """Compiles a function for a target; it is traced for the target's platform (`mode.target`).

    Args:
      target: the target.
      function: a function of arrays; if it is jitted, its donations are kept.
      args: pytrees of arrays or of their shapes; those that are not on the target's devices are
        placed on its first.

    Raises:
      MissingCompiler: see `Target.devices`.
      Exception: any error that the compiler finds in the program.
    """
    jitted = function if hasattr(function, "trace") else jax.jit(function)
    platform = mode.IN_LOWERING.get(target.platform, target.platform)
    options: Any = None if target.is_here or target.platform != "gpu" else _UNTUNED
    placed = _placed(target, args)
    with mode.target(target.platform), warnings.catch_warnings():
        # JAX caches a program compiled for a device that is not here, but cannot load it again.
        warnings.filterwarnings("ignore", ".*persistent compilation cache entry", UserWarning)
        started = time.perf_counter()
        lowered = jitted.trace(*placed).lower(lowering_platforms=(platform,))
        traced, cpu = time.perf_counter(), time.process_time()
        program = lowered.compile(compiler_options=options)
    spent = time.perf_counter() - traced, time.process_time() - cpu
    return Compiled(target, program, traced - started, *spent)


def place(tree: Any, where: Any) -> Any:
    """The shapes of a pytree of arrays or shapes, with one sharding, or a pytree of shardings."""
    placed = lambda x, at: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=at)
    if isinstance(where, jax.sharding.Sharding):
        return jax.tree.map(lambda x: placed(x, where), tree)
    return jax.tree.map(placed, tree, where)


def _placed(target: Target, args: Any) -> Any:
    first, target_devices = SingleDeviceSharding(target.devices[0]), set(target.devices)

    def at(x: Any) -> Any:
        sharding = getattr(x, "sharding", None)
        if sharding is None or isinstance(getattr(sharding, "mesh", None), AbstractMesh):
            return first
        return sharding if sharding.device_set <= target_devices else first

    return place(args, jax.tree.map(at, args))
