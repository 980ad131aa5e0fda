"""Whether programs are compiled with the tricks of this package, and for which platform.

``GOZERO_COMPILE=plain`` has the whole library compile without every trick that only makes a program
faster: games, trees and playouts are the same. Tests run a share of the suite so, and whoever
suspects a compiler of an error finds out with it. It is read while a program is traced, so set it
before the first call; a program that is already compiled stays as it is.

Imports no JAX by itself: commands ask before they do.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

VARIABLE = "GOZERO_COMPILE"
PLATFORMS = ("cpu", "gpu", "tpu")

_EVERY = "every"
IN_LOWERING = {"gpu": "cuda"}
"""Where lowering, and `by_platform`, have another name for a platform."""

_in_kernel: contextvars.ContextVar[bool] = contextvars.ContextVar("in_kernel", default=False)
_in_triton: contextvars.ContextVar[bool] = contextvars.ContextVar("in_triton", default=False)
_seldom: contextvars.ContextVar[bool] = contextvars.ContextVar("seldom", default=False)
_in_turn: contextvars.ContextVar[bool] = contextvars.ContextVar("in_turn", default=False)
_target: contextvars.ContextVar[str | None] = contextvars.ContextVar("target", default=None)


def plain() -> bool:
    """Whether to leave out what only makes programs faster. Static: asked while tracing.

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
    """Whether what is traced is part of a Pallas kernel."""
    return _in_kernel.get()


@contextlib.contextmanager
def in_kernel() -> Iterator[None]:
    """What is traced inside is part of a Pallas kernel, and so `plain`: XLA does not see it.

    JAX keeps what it traced by shapes, and apart from others where it has `jax.make_user_context`;
    where not, use shapes that nothing else has.
    """
    token = _in_kernel.set(True)
    try:
        with _kept_apart() if keeps_apart() else contextlib.nullcontext():
            yield
    finally:
        _in_kernel.reset(token)


@contextlib.contextmanager
def in_triton() -> Iterator[None]:
    """What is traced inside is part of a GPU's kernel of whole vectors: see `for_triton`."""
    token = _in_triton.set(True)
    try:
        yield
    finally:
        _in_triton.reset(token)


def for_triton() -> bool:
    """Whether to do without what Triton lacks: a vector longer by one, an "or" of a vector."""
    return _in_triton.get()


@contextlib.contextmanager
def seldom() -> Iterator[None]:
    """What is traced inside runs once a search, not once a simulation: `runs_seldom` says so.

    Or ``seldom()(function)``, in each of its calls.
    JAX keeps what it traced here apart from the rest, where it has `jax.make_user_context`; where
    not, what was traced with the same shapes before may be taken, in its other form.
    """
    token = _seldom.set(True)
    try:
        with _kept_apart() if keeps_apart() else contextlib.nullcontext():
            yield
    finally:
        _seldom.reset(token)


@contextlib.contextmanager
def in_turn() -> Iterator[None]:
    """What is traced inside has no scatters: see `writes_in_turn`."""
    token = _in_turn.set(True)
    try:
        with _kept_apart() if keeps_apart() else contextlib.nullcontext():
            yield
    finally:
        _in_turn.reset(token)


def writes_in_turn() -> bool:
    """Whether to write at indices one after another, for a kernel without code for scatters."""
    return _in_turn.get()


def runs_seldom() -> bool:
    """Whether to prefer, of two forms of the same, the one that compiles sooner to the faster one.

    Static: asked while tracing. False for a `plain` program.
    """
    return _seldom.get() and not plain()


def backend() -> str:
    """The platform for which programs are compiled: "cpu", "gpu", "tpu".

    That of the `target` around the call; without one, JAX's own, which starts its backend.
    """
    if (platform := _target.get()) not in (None, _EVERY):
        return platform
    import jax

    return jax.default_backend()


def cores() -> int:
    """How many processors this process may use."""
    ours = getattr(os, "sched_getaffinity", None)  # of Linux
    return len(ours(0)) if ours else os.cpu_count() or 1


def cores_of_a_device() -> int:
    """How many processors each of JAX's CPU devices has for itself; starts JAX's backend."""
    import jax

    return max(1, cores() // jax.local_device_count("cpu"))


@contextlib.contextmanager
def target(platform: str) -> Iterator[None]:
    """What is traced inside is for this platform, whatever JAX has here: `backend` says so.

    JAX keeps what it traced, by function and shapes. Here it keeps them by target too, so that
    neither a program for this platform is taken for one of another, nor the other way round. (JAX
    without `jax.make_user_context` throws away all that it keeps, on entering and on leaving.)

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
    """What is traced inside has its forms for every platform, as `jax.export` for several wants it.

    What it is traced with is kept by JAX as with `target`.
    """
    return _trace_for(_EVERY)


@contextlib.contextmanager
def _trace_for(platform: str) -> Iterator[None]:
    token = _target.set(platform)
    try:
        with _kept_apart():
            yield
    finally:
        _target.reset(token)


@contextlib.contextmanager
def _kept_apart() -> Iterator[None]:
    """JAX takes nothing here that it traced in other contexts of this module."""
    import jax

    if keeps_apart():
        with _user_context()((_target.get(), _in_kernel.get(), _seldom.get(), _in_turn.get())):
            yield
        return
    jax.clear_caches()
    try:
        yield
    finally:
        jax.clear_caches()


def keeps_apart() -> bool:
    """Whether JAX can keep some of what it traces apart, and need not throw all away."""
    import jax

    return hasattr(jax, "make_user_context")


def make_context() -> None:
    """Make what keeps traces apart. `stages` does, when it is imported.

    From then on it is part of the key of all that JAX keeps: made while a program is traced, it
    would have the second call trace and compile anew (jax 0.10.1).
    """
    if keeps_apart():
        _user_context()


@functools.cache
def _user_context() -> Any:
    import jax

    return jax.make_user_context()


def by_platform(*args: Any, default: Callable, **others: Callable) -> Any:
    """``default(*args)``, or on a platform named among `others` its function of them: ways to the
    same result.

    Which, is settled while tracing, if the program can be for one platform only: that of the
    `target` around it, or a CPU where JAX has nothing else. Else all are traced, and it is settled
    when the program is lowered. (In a search of 9x9 a fifth of the time to its first answer was
    spent on tracing forms for other platforms, with jax 0.10.1.) A program that is exported for
    another platform is exported within `every_platform`, or has the CPU's forms.

    Args:
      args: pytrees of arrays.
      default: the plain form, too.
      others: ``cpu=``, ``tpu=``, ``cuda=``: those that do it otherwise.
    """
    if plain():
        return default(*args)
    if (platform := _the_only_platform()) is not None:
        return others.get(platform, default)(*args)
    from jax import lax

    return lax.platform_dependent(*args, default=default, **others)


def _the_only_platform() -> str | None:
    """As `by_platform` names it; None if what is traced may be lowered for several."""
    if (platform := _target.get()) is not None:
        return None if platform == _EVERY else IN_LOWERING.get(platform, platform)
    return "cpu" if _has_only_a_cpu() else None


@functools.cache
def _has_only_a_cpu() -> bool:
    from jax.extend import backend as backends

    return set(backends.backends()) == {"cpu"}
