"""Fusion walls: how a stage of a computation is compiled apart on the CPU.

XLA:CPU fuses a computation anew into every array that needs it. A board is many arrays, so a
number that all of its words depend on, such as "is this chain in atari?", would be computed
once a word, and with it everything that it was computed from. XLA ignores
``optimization_barrier`` there, but cannot look through a branch: a stage that ends in one
small output goes into a branch that is always taken. On other platforms, where fusions with
several outputs do this, a wall is nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jax.experimental.xla_metadata import set_xla_metadata

CPU_VECTOR_BITS = 512
"""The widest vectors that LLVM may use on a CPU; see `cpu_compiler_options`."""

_ONE_KERNEL = {"xla_cpu_small_call": "true", "inlineable": "false"}
_ALL_ONES = np.uint32(0xFFFFFFFF)


def always(words: jax.Array) -> jax.Array:
    """bool[]: True, but so that the compiler does not know it; of integers of any shape.

    (A word shifted right is not all ones; the compiler does not reason so far.)
    """
    if words.size == 0:
        return jnp.bool_(True)  # of a batch of none nothing is computed
    word = words[(0,) * words.ndim].astype(jnp.uint32)
    return (word >> np.uint32(1)) != _ALL_ONES


def wall(stage: Callable, always: jax.Array, *args: Any) -> Any:
    """``stage(*args)``, compiled apart from what comes before and after it on the CPU.

    Args:
      stage: any function.
      always: bool[]; True, but so that the compiler cannot know it. One for the whole batch:
        under a batched predicate the branch would become a select.
      args: its arguments.
    """

    stage = jax.jit(stage)  # traced once for all the places where it stands below

    def walled(*args):
        def zeros(*_):
            shapes = jax.eval_shape(stage, *args)
            return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)

        return lax.cond(always, stage, zeros, *args)

    return lax.platform_dependent(*args, cpu=walled, default=stage)


def once(stage: Callable, *args: Any) -> Any:
    """``stage(*args)``, on a CPU computed apart from all that needs it: `wall` for a batch.

    Args:
      stage: any function.
      args: pytrees of arrays, the batch and all; the first of them decides nothing but `always`.
    """
    return wall(stage, always(jax.tree.leaves(args)[0]), *args)


def walled(stage: Callable) -> Callable:
    """A stage of one game behind a wall; under ``vmap`` the wall is one for the batch.

    Jitted, so that a call outside ``jit`` compiles once and not every time.

    Args:
      stage: a function of one game whose first argument is a board.
    """

    @custom_vmap
    def one_game(*args):
        return wall(stage, always(args[0][0]), *args)

    @one_game.def_vmap
    def many_games(axis_size, batched, *args):
        def along_games(is_batched, x):
            return x if is_batched else jnp.broadcast_to(x, (axis_size, *jnp.shape(x)))

        args = jax.tree.map(along_games, tuple(batched), args)
        out = wall(jax.vmap(stage), always(args[0][0]), *args)
        return out, jax.tree.map(lambda _: True, out)

    return jax.jit(one_game)


MAX_REDUCED = 2**15
"""Elements of the largest array that code of one kernel may reduce. (More than these XLA hands to a
library, which such a kernel cannot call: it does not compile. Seen with jaxlib 0.10.1.)"""


def one_kernel(function: Callable, *args: Any, reduced: int = 0) -> Any:
    """``function(*args)``, compiled as one kernel with all its loops on the CPU.

    XLA:CPU makes a kernel of each fusion and has them called one by one; where a loop works on
    a few thousand words, the calls are a good part of its time. What it takes
    for a small loop, it compiles whole; here it is told so. Not for work that is worth several
    threads, nor for sorts, for which such a kernel has no code.

    Args:
      function: any function without sorts that returns two arrays or more. (A lone one XLA
        would split over threads if it is large, and call the kernel wrongly.)
      reduced: elements of the largest array that it reduces. Above `MAX_REDUCED`, where calls
        cost little beside the work, the function is compiled as any other.
      args: its arguments, and none that it does not use. (Some of those make XLA stop the
        process when it emits the kernel; seen with jaxlib 0.10.1.)

    Raises:
      ValueError: it returns a single array, or does not use an argument.
    """
    if reduced > MAX_REDUCED:
        return function(*args)
    function = jax.jit(function)

    def whole(*args):
        out = function(*args)
        if len(jax.tree.leaves(out)) < 2:
            raise ValueError("one_kernel: the function returns a single array; return two or more")
        unused = _unused(function, *args)
        if unused:
            raise ValueError(f"one_kernel: the function does not use {', '.join(unused)}")
        return set_xla_metadata(out, **_ONE_KERNEL)  # marks the call

    return lax.platform_dependent(*args, cpu=whole, default=function)


def _unused(function: Callable, *args: Any) -> list[str]:
    """The arrays among its arguments that a jitted function does not use, by their places."""
    traced = function.trace(*args).jaxpr.jaxpr
    used = {id(x) for equation in traced.eqns for x in equation.invars}
    used |= {id(x) for x in traced.outvars}
    places = [f"args{jax.tree_util.keystr(path)}" for path, _ in jax.tree.leaves_with_path(args)]
    inputs = traced.invars[-len(places) :] if places else []
    return [place for place, x in zip(places, inputs, strict=True) if id(x) not in used]


def cpu_compiler_options() -> dict[str, Any]:
    """What ``jax.jit(..., compiler_options=...)`` should be told for board code on this backend.

    LLVM keeps to vectors of 256 bits unless told that wider ones are welcome, as the first
    processors with wider ones slowed down for them. Boards are elementwise integer code from
    end to end: where there is AVX-512 playouts run 1.1 times as fast on 9x9 and 1.4 times on
    19x19; the rules, the search and the network neither gain nor lose. Where there is none,
    nothing changes. Other backends have no such option: the dict is empty.

    Asks JAX for its backend, and so starts it. Commands have the option for all that they
    compile; see `gozero.apps.runtime.prepare`.
    """
    if jax.default_backend() != "cpu":
        return {}
    return {"xla_cpu_prefer_vector_width": CPU_VECTOR_BITS}
