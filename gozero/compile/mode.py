"""Whether programs are compiled with the tricks of this package, and for which platform.

``GOZERO_COMPILE=plain`` makes the whole library compile without the tricks that only make programs
faster: games, trees and playouts are the same. Part of the tests runs this way, and if you suspect
a compiler bug, try it. The variable is read while a program is traced, so set it before the
first call; a program that is already compiled does not change.

Does not import JAX at module level: commands use this module before they import JAX.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

VARIABLE = "GOZERO_COMPILE"
PLATFORMS = ("cpu", "gpu", "tpu")

_EVERY = "every"
IN_LOWERING = {"gpu": "cuda"}
"""Platforms with another name in lowering and in `by_platform`."""

_in_kernel: contextvars.ContextVar[bool] = contextvars.ContextVar("in_kernel", default=False)
_in_triton: contextvars.ContextVar[bool] = contextvars.ContextVar("in_triton", default=False)
_fast_compile: contextvars.ContextVar[bool] = contextvars.ContextVar("fast_compile", default=False)
_sequential_writes: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "sequential_writes", default=False
)
_target: contextvars.ContextVar[str | None] = contextvars.ContextVar("target", default=None)


def plain() -> bool:
    """Whether to leave out what only makes programs faster. Static: evaluated while tracing.

    Raises:
      ValueError: GOZERO_COMPILE is neither "plain" nor "" nor unset.
    """
    if inside_kernel():
        return True
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "plain"):
        raise ValueError(f"{VARIABLE}={value}: expected plain, or nothing")
    return value == "plain"


def inside_kernel() -> bool:
    """Whether the code being traced is part of a Pallas kernel."""
    return _in_kernel.get()


@contextlib.contextmanager
def _context(variable: contextvars.ContextVar[bool]) -> Iterator[None]:
    """A context in which a variable is true, and traces are separate if JAX can separate them."""
    token = variable.set(True)
    try:
        with _separate_traces() if can_separate_traces() else contextlib.nullcontext():
            yield
    finally:
        variable.reset(token)


@contextlib.contextmanager
def in_kernel() -> Iterator[None]:
    """Code traced in this context is part of a Pallas kernel, and so `plain`: XLA does not see it.

    JAX caches traces by shapes, separately for this context if it has `jax.make_user_context`; if
    not, use shapes that nothing else has.
    """
    with _context(_in_kernel):
        yield


@contextlib.contextmanager
def in_triton() -> Iterator[None]:
    """Code traced in this context is part of a GPU kernel on whole vectors: see `for_triton`.

    JAX caches traces as with `in_kernel`.
    """
    with _context(_in_triton):
        yield


def for_triton() -> bool:
    """Whether to avoid what Triton lacks: appending an element to a vector, an "or" reduction."""
    return _in_triton.get()


@contextlib.contextmanager
def fast_compile() -> Iterator[None]:
    """Code traced in this context runs once per search, not once per simulation, and should compile
    fast: see `prefers_fast_compile`.

    ``fast_compile()(function)`` does this for each call of a function.
    JAX caches these traces separately if it has `jax.make_user_context`; if not, an earlier trace
    with the same shapes may be reused, in its other form.
    """
    with _context(_fast_compile):
        yield


@contextlib.contextmanager
def sequential_writes() -> Iterator[None]:
    """Code traced in this context has no scatters: see `writes_sequentially`."""
    with _context(_sequential_writes):
        yield


def writes_sequentially() -> bool:
    """Whether to write at indices one after another, for a kernel that has no code for scatters.

    True in what a CPU compiles as one kernel (`stages.step_kernel`), and nowhere else.
    """
    return _sequential_writes.get()


def prefers_fast_compile() -> bool:
    """Whether to prefer the form of a computation that compiles faster to the one that runs faster.

    Static: evaluated while tracing. False for a `plain` program.
    """
    return _fast_compile.get() and not plain()


def backend() -> str:
    """The platform for which programs are compiled: "cpu", "gpu" or "tpu".

    It is that of the enclosing `target`, or else of `jax.default_device`, or JAX's own; the last
    starts JAX's backend.
    """
    if (platform := _target.get()) not in (None, _EVERY):
        return platform
    import jax

    device: Any = getattr(jax.config, "jax_default_device", None)
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else device.platform


def cores() -> int:
    """The number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@functools.cache
def processor_features() -> str:
    """The line of Linux that lists this processor's features; elsewhere empty."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def multiplies_bf16() -> bool:
    """Whether this processor has instructions for products of bf16 numbers that are summed in f32,
    and XLA uses them (on x86)."""
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(processor_features().split())


def cores_of_a_device() -> int:
    """The number of processors per JAX CPU device; starts JAX's backend."""
    import jax

    return max(1, cores() // jax.local_device_count("cpu"))


@contextlib.contextmanager
def target(platform: str) -> Iterator[None]:
    """Code traced in this context is for this platform, whatever devices JAX has: see `backend`.

    JAX caches traces by function and shapes. In this context it caches them by target too, so that
    programs for different platforms are not confused. (In a JAX without `jax.make_user_context` all
    caches are cleared on entry and on exit.)

    Args:
      platform: one of `PLATFORMS`.

    Raises:
      ValueError: another platform.
    """
    if platform not in PLATFORMS:
        raise ValueError(f"platform {platform!r}: expected one of {', '.join(PLATFORMS)}")
    with _trace_for(platform):
        yield


def every_platform() -> contextlib.AbstractContextManager[None]:
    """Code traced in this context has its forms for every platform, as `jax.export` for several
    needs. JAX caches its traces as with `target`.
    """
    return _trace_for(_EVERY)


@contextlib.contextmanager
def _trace_for(platform: str) -> Iterator[None]:
    token = _target.set(platform)
    try:
        with _separate_traces():
            yield
    finally:
        _target.reset(token)


@contextlib.contextmanager
def _separate_traces() -> Iterator[None]:
    """A context in which JAX reuses no traces from other contexts of this module."""
    import jax

    if can_separate_traces():
        context = _target, _in_kernel, _in_triton, _fast_compile, _sequential_writes
        with _user_context()(tuple(variable.get() for variable in context)):
            yield
        return
    jax.clear_caches()
    try:
        yield
    finally:
        jax.clear_caches()


def can_separate_traces() -> bool:
    """Whether JAX can cache traces of a context separately, instead of clearing all caches."""
    import jax

    return hasattr(jax, "make_user_context")


def make_context() -> None:
    """Creates the user context that keeps traces apart. `stages` calls this when it is imported.

    From then on it is part of the key of JAX's caches: if it were created while a program is being
    traced, the second call would trace and compile again (jax 0.10.1).
    """
    if can_separate_traces():
        _user_context()


@functools.cache
def _user_context() -> Any:
    import jax

    return jax.make_user_context()


def by_platform(*args: Any, default: Callable, **others: Callable) -> Any:
    """``default(*args)``, or on a platform in `others` the function given for it; all functions
    compute the same result.

    The choice is made while tracing if only one platform is possible: that of the enclosing
    `target`, a GPU in a kernel for Triton, or the CPU if JAX has no other device. Otherwise all
    functions are traced, and the choice is made at lowering. (In a search of 9x9 a fifth of the
    time to its first answer was spent on tracing forms for other platforms, with jax 0.10.1.) To
    export a program for another platform, trace it within `every_platform`; otherwise it has the
    CPU's forms.

    Args:
      args: pytrees of arrays.
      default: the function for all other platforms, and the plain form.
      others: ``cpu=``, ``tpu=``, ``cuda=``: functions for these platforms.
    """
    if plain():
        return default(*args)
    if (platform := _the_only_platform()) is not None:
        return others.get(platform, default)(*args)
    from jax import lax

    return lax.platform_dependent(*args, default=default, **others)


def _the_only_platform() -> str | None:
    """The platform as `by_platform` names it; None if code may be lowered for several."""
    if _in_triton.get():
        return IN_LOWERING["gpu"]
    if (platform := _target.get()) is not None:
        return None if platform == _EVERY else IN_LOWERING.get(platform, platform)
    return "cpu" if _has_only_a_cpu() else None


@functools.cache
def _has_only_a_cpu() -> bool:
    from jax.extend import backend as backends

    return set(backends.backends()) == {"cpu"}
